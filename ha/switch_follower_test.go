package ha

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

// told is a follower with a log of so many records, which one master wrote from the epochs on that are given.
func follows(records int, epochs ...EpochEntry) (*SwitchFollower, *simLog) {
	rnd := rand.New(rand.NewPCG(1, 1))
	log := &simLog{}
	for range records {
		log.put(rnd)
	}
	return NewSwitchFollower(log, NewEpochs(epochs...), quietLog), log
}

// greet is a handshake with a master, and the first report.
func greet(f *SwitchFollower, end store.PhyOffset, epochs ...EpochEntry) (report []byte, err error) {
	f.Begin(0, 2, false, false, nil)
	h := masterHandshake{end: end, epoch: NoEpoch, entries: epochs}
	if len(epochs) > 0 {
		h.epoch = epochs[len(epochs)-1].Epoch
	}
	b := appendMasterHandshake(nil, h)
	for i := range b { // in single bytes
		if err = f.Received(b[i:i+1], 0); err != nil {
			return nil, err
		}
	}
	report, _ = f.Due(0, 5000)
	return report, nil
}

func (l *simLog) part(from, to store.PhyOffset) []byte { return l.bytes[from-l.min : to-l.min] }

func frame(epoch int32, start, at, confirm store.PhyOffset, body []byte) []byte {
	return append(appendSwitchHeader(nil, switchHeader{size: len(body), phyOffset: at, epoch: epoch, epochStart: start,
		confirm: confirm}), body...)
}

func TestSwitchFollowerBegins(t *testing.T) {
	f, log := follows(20, EpochEntry{Epoch: 1})
	end := log.MaxPhyOffset()
	master := &simLog{bytes: bytes.Clone(log.bytes)}
	master.put(rand.New(rand.NewPCG(2, 2)))
	all := master.MaxPhyOffset()

	report, err := greet(f, all, EpochEntry{Epoch: 1})
	require.NoError(t, err)
	require.Equal(t, appendSwitchReport(nil, 1), report, "bytes it has are compared; 0 would mean the start")
	require.NoError(t, f.Received(frame(1, 0, 1, 7, master.part(1, end-10)), 1))
	require.EqualValues(t, 7, f.Confirmed())
	require.Equal(t, end, log.MaxPhyOffset())
	// Java labels the last frame of an epoch with the next one
	require.NoError(t, f.Received(frame(2, end+5, end-10, all, master.part(end-10, end+5)), 1))
	require.Equal(t, end+5, f.Confirmed(), "what it has")
	require.NoError(t, f.Received(frame(2, end+5, end+5, all, master.part(end+5, all)), 1))
	require.Equal(t, master.bytes, log.bytes)
	require.Equal(t, linked([]EpochEntry{{Epoch: 1}, {Epoch: 2, StartOffset: end + 5}}), f.epochs.Entries())
	report, ok := f.Due(1, 5000)
	require.True(t, ok)
	require.Equal(t, appendSwitchReport(nil, all), report)
	require.ErrorIs(t, f.Received(frame(1, 0, all, 0, []byte{1}), 1), errOldMaster, "epochs do not go back")
}

// Where the log is cut when the master tells its epochs.
func TestSwitchFollowerCuts(t *testing.T) {
	f := func(own []EpochEntry, masterEnd store.PhyOffset, master []EpochEntry, want func(end store.PhyOffset) store.PhyOffset,
		last int32) {
		t.Helper()
		f, log := follows(20, own...)
		end := log.MaxPhyOffset()
		if masterEnd == 0 {
			masterEnd = end + 100
		}
		_, err := greet(f, masterEnd, master...)
		require.NoError(t, err)
		start, _ := log.RecordStart(want(end))
		require.Equal(t, start, log.MaxPhyOffset())
		require.Equal(t, last, f.epochs.Last())
	}
	at := func(p store.PhyOffset) func(store.PhyOffset) store.PhyOffset {
		return func(store.PhyOffset) store.PhyOffset { return p }
	}
	whole := func(end store.PhyOffset) store.PhyOffset { return end }
	one, two := EpochEntry{Epoch: 1}, EpochEntry{Epoch: 2, StartOffset: 300}
	three := EpochEntry{Epoch: 3, StartOffset: 450}
	f([]EpochEntry{one, two}, 0, []EpochEntry{one, two}, whole, 2)
	f([]EpochEntry{one, two}, 400, []EpochEntry{one, two}, at(400), 2)
	f([]EpochEntry{one, two}, 0, []EpochEntry{one, three}, at(300), 1)
	f([]EpochEntry{one, three}, 0, []EpochEntry{one, two, {Epoch: 4, StartOffset: 460}}, at(300), 1)
	f([]EpochEntry{{Epoch: 5}}, 0, []EpochEntry{one, {Epoch: 6, StartOffset: 300}}, at(0), NoEpoch)
	f(nil, 0, []EpochEntry{one, two}, whole, NoEpoch)
	f(nil, 200, []EpochEntry{{Epoch: 1, StartOffset: 100}}, at(200), NoEpoch)
	f([]EpochEntry{{Epoch: 1, StartOffset: 200}}, 0, []EpochEntry{{Epoch: 2, StartOffset: 250}}, at(200), NoEpoch)
}

func TestSwitchFollowerRefuses(t *testing.T) {
	own := []EpochEntry{{Epoch: 1}, {Epoch: 2, StartOffset: 300}}
	f, log := follows(20, own...)
	before := bytes.Clone(log.bytes)
	log.shown = 100
	_, err := greet(f, 5000, EpochEntry{Epoch: 1})
	require.ErrorIs(t, err, errOldMaster)
	_, err = greet(f, 0)
	require.ErrorIs(t, err, errOldMaster)
	_, err = greet(f, 0, EpochEntry{Epoch: 9})
	require.ErrorIs(t, err, errMasterLost, "the only copy is left alone")
	_, err = greet(f, 5000, EpochEntry{Epoch: 3, StartOffset: 10}, EpochEntry{Epoch: 3, StartOffset: 20})
	require.ErrorContains(t, err, "in no order")
	require.Equal(t, before, log.bytes)
	bad := func(b []byte) {
		t.Helper()
		f, _ := follows(3)
		f.Begin(0, 2, false, false, nil)
		require.Error(t, f.Received(b, 0))
	}
	bad([]byte("HTTP/1.1 400 Bad Request"))
	bad(frame(1, 0, 0, 0, []byte{1}))
	bad(appendSwitchHeader(nil, switchHeader{size: -1}))
	bad([]byte{0, 0, 0, 1, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	bad([]byte{0, 0, 0, 1, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
}

// A master that was elected without a log has everything that was confirmed: of ours nothing ever was, and it is put aside.
// Where something may have been, the log is left alone.
func TestSwitchFollowerOfAnEmptyMaster(t *testing.T) {
	f := func(own []EpochEntry, shown store.PhyOffset, min store.PhyOffset, master ...EpochEntry) (*simLog, *Epochs, error) {
		f, log := follows(20, own...)
		log.shown = shown
		if min > 0 {
			log.min = min
		}
		report, err := greet(f, 0, master...)
		if err == nil {
			require.Equal(t, appendSwitchReport(nil, 0), report)
		}
		return log, f.epochs, err
	}
	log, epochs, err := f([]EpochEntry{{Epoch: 1}}, 0, 0, EpochEntry{Epoch: 2})
	require.NoError(t, err)
	require.Empty(t, log.bytes)
	require.Equal(t, 1, log.drops)
	require.Equal(t, NoEpoch, epochs.Last())
	refused := func(own []EpochEntry, shown, min store.PhyOffset, master ...EpochEntry) {
		t.Helper()
		log, epochs, err := f(own, shown, min, master...)
		require.ErrorIs(t, err, errMasterLost)
		require.Zero(t, log.drops)
		require.Len(t, epochs.Entries(), len(own))
	}
	refused([]EpochEntry{{Epoch: 1}}, 50, 0, EpochEntry{Epoch: 2})                      // consumers saw some of it
	refused([]EpochEntry{{Epoch: 1}}, 0, 0, EpochEntry{Epoch: 1})                       // our own master came back without it
	refused(nil, 0, 0, EpochEntry{Epoch: 1})                                            // from before there were controllers
	refused([]EpochEntry{{Epoch: 1, StartOffset: 4096}}, 0, 4096, EpochEntry{Epoch: 2}) // others had what was before
}

// The same epochs and other bytes, as Java's masters can have after two elections without a message: they are found by
// comparison.
func TestSwitchFollowerComparesWhatEpochsCallEqual(t *testing.T) {
	f, log := follows(40, EpochEntry{Epoch: 1})
	end := log.MaxPhyOffset()
	fork, _ := log.RecordStart(end / 2)
	master := &simLog{bytes: bytes.Clone(log.part(0, fork))}
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 40 {
		master.put(rnd)
	}
	for again := 0; ; again++ {
		require.Less(t, again, 5)
		report, err := greet(f, master.MaxPhyOffset(), EpochEntry{Epoch: 1})
		require.NoError(t, err)
		var from store.PhyOffset
		for _, c := range report[4:] {
			from = from<<8 | store.PhyOffset(c)
		}
		if err := f.Received(frame(1, 0, from, 0, master.part(from, master.MaxPhyOffset())), 1); err == nil {
			break
		} else {
			require.True(t, f.Again(err), "%v", err)
		}
	}
	require.Equal(t, master.bytes, log.bytes)
}

// A slave whose end the master has deleted is told, and copies anew.
func TestSwitchFollowerLeftBehind(t *testing.T) {
	f, log := follows(20, EpochEntry{Epoch: 1})
	epochs := []EpochEntry{{Epoch: 1}}
	_, err := greet(f, 3*simFile, epochs...)
	require.NoError(t, err)
	refusal := appendSwitchHeader(nil, switchHeader{phyOffset: 2 * simFile, epoch: NoEpoch})
	require.True(t, f.Again(f.Received(refusal, 1)))
	report, err := greet(f, 3*simFile, epochs...)
	require.NoError(t, err)
	require.Equal(t, appendSwitchReport(nil, 2*simFile), report)
	require.Empty(t, log.bytes)
	require.Equal(t, NoEpoch, f.epochs.Last())
	// a Java master says nothing but that there is no more, again and again
	f, _ = follows(20, EpochEntry{Epoch: 1})
	_, err = greet(f, 3*simFile, epochs...)
	require.NoError(t, err)
	quiet := appendSwitchHeader(nil, switchHeader{phyOffset: 1, epoch: 1})
	require.NoError(t, f.Received(append(bytes.Clone(quiet), quiet...), 1))
	require.ErrorContains(t, f.Received(quiet, 1), "has it deleted that?")
}

// FuzzSwitchFollower: no panic, bounded memory, and what is confirmed is there.
func FuzzSwitchFollower(f *testing.F) {
	hello := appendMasterHandshake(nil, masterHandshake{end: 100, epoch: 1, entries: []EpochEntry{{Epoch: 1}}})
	f.Add(append(bytes.Clone(hello), frame(1, 0, 0, 50, []byte("0123456789"))...), 7)
	f.Add(hello, 1)
	f.Add(frame(1, 0, -1, 0, nil), 3)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		piece = max(1, piece%64)
		s, log := follows(0)
		s.Begin(0, 2, false, false, nil)
		for len(b) > 0 {
			n := min(piece, len(b))
			if err := s.Received(b[:n], 0); err != nil {
				return
			}
			s.Due(0, 5000)
			require.LessOrEqual(t, s.Confirmed(), max(log.MaxPhyOffset(), s.f.check))
			b = b[n:]
		}
	})
}
