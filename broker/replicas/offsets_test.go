package replicas_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/slave"
	"skylark/codec"
	"skylark/codec/body"
)

// Consumer offsets reach the other replica within a second or two, so that a failover repeats no more than that; the old
// master comes back with older ones and takes the newer.
func TestOffsetsFollowSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 2, allAck)
		defer s.close()
		s.mustSend("T", 40)
		require.NoError(t, s.client.CreateGroup(t.Context(), s.master().addr(0), body.NewSubscriptionGroupConfig("G")))
		time.Sleep(11 * time.Second) // topic and group are everywhere
		at := func(m *member) codec.QueueOffset {
			at, err := s.client.ConsumerOffset(t.Context(), m.addr(0), "G", "T", 0)
			require.NoError(t, err)
			return at
		}
		next := codec.QueueOffset(0)
		for range 4 {
			m := s.settled(2)
			next += 10
			require.NoError(t, s.client.CommitOffset(t.Context(), m.addr(0), "G", "T", 0, next))
			time.Sleep(1100 * time.Millisecond)
			s.kill(m.n)
			s.outage("T")
			require.Equal(t, next, at(s.master()))
			require.NoError(t, s.client.CommitOffset(t.Context(), s.master().addr(0), "G", "T", 0, next+5))
			s.start(m.n)
			s.settled(2)
			time.Sleep(1100 * time.Millisecond)
			require.Equal(t, next+5, at(s.master()))
			require.Equal(t, next+5, at(s.other()))
		}
	})
}

// A slave that asks whether offsets have changed gets none that it has.
func TestOffsetsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(t, 1, "")
		defer s.close()
		m := s.master()
		ask := func(mark string) (string, bool) {
			req := codec.NewRequest(codec.ReqGetAllConsumerOffset)
			if mark != "" {
				req.Set(slave.FieldMark, mark)
			}
			a, err := s.client.Do(t.Context(), m.addr(0), req)
			require.NoError(t, err)
			return a.Get(slave.FieldMark), len(a.Body) > 0
		}
		commit := func(v codec.QueueOffset) {
			require.NoError(t, s.client.CommitOffset(t.Context(), m.addr(0), "G", "T", 0, v))
		}
		require.NoError(t, s.client.CreateGroup(t.Context(), m.addr(0), body.NewSubscriptionGroupConfig("G")))
		commit(1)
		mark, any := ask("")
		require.Empty(t, mark, "a Java slave")
		require.True(t, any)
		mark, any = ask("x")
		require.NotEmpty(t, mark)
		require.True(t, any)
		_, any = ask(mark)
		require.False(t, any)
		commit(1)
		_, any = ask(mark)
		require.False(t, any, "the same")
		commit(2)
		next, any := ask(mark)
		require.True(t, any)
		require.NotEqual(t, mark, next)
	})
}
