package ha

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

// restart stops a replica and starts it anew, without a role.
func (g *switchGroup) restart(id int64) *switchReplica {
	g.t.Helper()
	g.all[id-1].stop(g.t)
	return g.start(id)
}

// A slave is stopped while its log has messages that another member of the SyncStateSet lacks. When it is back, its
// consumers see them as soon as they are confirmed, and not before: the next master may not have them.
func TestSwitchRestartHidesWhatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 3, switchLive())
		defer g.stop()
		m := g.begin()
		seen, confirmed := m.MaxOffset("T", 0), m.MaxPhyOffset()
		thaw := g.freeze(g.all[2])
		answers := putsUnderWay(m)
		require.Equal(t, m.MaxPhyOffset(), g.all[1].MaxPhyOffset())
		s := g.restart(2)
		hidden := func() {
			t.Helper()
			time.Sleep(time.Second)
			require.Equal(t, seen, s.MaxOffset("T", 0))
			require.Equal(t, confirmed, s.ha.ConfirmOffset())
			require.Equal(t, m.MaxPhyOffset(), s.MaxPhyOffset())
			require.Zero(t, s.DispatchBehindBytes())
		}
		hidden()
		s.ha.SetMaster("")
		require.NoError(t, s.ha.BecomeSlave(t.Context(), 2, g.epoch))
		hidden()
		g.follow(s)
		time.Sleep(time.Second)
		require.Equal(t, seen, s.MaxOffset("T", 0))
		require.Equal(t, m.MaxPhyOffset(), s.MaxPhyOffset())
		thaw()
		g.inSync(m, 3)
		g.same(m)
		require.Greater(t, s.MaxOffset("T", 0), seen)
		for range cap(answers) {
			<-answers
		}
	})
}

// A master that is alone in the SyncStateSet has everything confirmed, also what nobody else has, and shows it after a
// restart: nobody else can be elected.
func TestSwitchRestartAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.begin()
		g.all[1].stop(t)
		g.all[1] = nil
		g.await("alone", func() bool { return m.ha.InSyncReplicas() == 1 })
		fill(t, m.MessageStore, 20, "alone")
		g.await("shown", func() bool { return m.DispatchedWhere() == m.MaxPhyOffset() })
		seen := m.MaxOffset("T", 0)
		m = g.restart(1)
		require.NoError(t, m.ha.BecomeMaster(t.Context(), 1, g.epoch, g.set, g.setEpoch))
		require.Equal(t, seen, m.MaxOffset("T", 0))
		require.Equal(t, m.MaxPhyOffset(), m.ha.ConfirmOffset())
		require.Equal(t, store.PutOK, putWait(m).Status)
		g.follow(g.start(2))
		g.inSync(m, 2)
		g.same(m)
	})
}

// The first master dies, or is cut off, with messages that nobody has confirmed, and the next one has no log at all. The old
// one puts them aside and follows; with minInSyncReplicas=2 nobody could send before.
func TestSwitchFollowsAMasterWithoutALog(t *testing.T) {
	f := func(dies bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			live := switchLive()
			live.MinInSyncReplicas = 2
			g := newSwitchGroup(t, 2, live)
			defer g.stop()
			old := g.elect(1)
			g.inSync(old, 2)
			thaw := g.freeze(g.all[1])
			require.Equal(t, store.FlushSlaveTimeout, putWait(old).Status)
			require.Positive(t, old.MaxPhyOffset())
			g.all[1].ha.SetMaster("")
			thaw()
			if dies {
				g.restart(1)
			}
			m := g.elect(2)
			g.inSync(m, 2)
			require.Equal(t, store.PutOK, putWait(m).Status)
			g.same(m)
			require.Len(t, g.diverged(1), 1)
		})
	}
	f(true)
	f(false)
}

// A master that lost its disk is not followed by a replica that has confirmed messages.
func TestSwitchRefusesAMasterThatLostItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.elect(1)
		g.inSync(m, 2)
		require.Equal(t, store.PutOK, putWait(m).Status)
		g.same(m)
		g.all[1].stop(t)
		require.NoError(t, g.fs.RemoveAll(fmt.Sprintf("%s/r2", g.dir)))
		g.start(2)
		end := m.MaxPhyOffset()
		m = g.restart(1)
		g.elect(2)
		time.Sleep(10 * time.Second)
		require.Equal(t, end, m.MaxPhyOffset())
		require.Empty(t, g.diverged(1))
		require.False(t, m.ha.Status().Activated)
	})
}

// A master that is stopped with messages that a slave lacks comes back as master of the same epoch: they stay hidden until
// the slave has them, and new ones get the queue offsets behind theirs (apache/rocketmq#7689).
func TestSwitchRestartOfAMasterHidesWhatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSwitchGroup(t, 2, switchLive())
		defer g.stop()
		m := g.begin()
		seen, confirmed := m.MaxOffset("T", 0), m.MaxPhyOffset()
		thaw := g.freeze(g.all[1])
		g.setDeaf(true) // the slave stays in the set
		for range 3 {
			require.Equal(t, store.FlushSlaveTimeout, putWait(m).Status)
		}
		m = g.restart(1)
		require.NoError(t, m.ha.BecomeMaster(t.Context(), 1, g.epoch, []int64{1, 2}, g.setEpoch))
		require.Equal(t, confirmed, m.ha.ConfirmOffset())
		put := putWait(m)
		require.Equal(t, store.FlushSlaveTimeout, put.Status)
		require.Equal(t, seen+3, put.QueueOffset)
		require.Equal(t, seen, m.MaxOffset("T", 0))
		g.setDeaf(false)
		thaw()
		g.inSync(m, 2)
		g.same(m)
		require.Equal(t, put.QueueOffset+1, m.MaxOffset("T", 0))
	})
}
