package ha

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

// The frames are Java's (AutoSwitchHAClient, AutoSwitchHAConnection).
func TestSwitchFrames(t *testing.T) {
	f := func(want string, got []byte) {
		t.Helper()
		require.Equal(t, want, hex.EncodeToString(got))
	}
	f("00000001"+"0001"+"0000"+"0000000000000002", appendSlaveHandshake(nil, slaveHandshake{lastFile: true, id: 2}))
	f("00000001"+"0000"+"0001"+"0000000000000102", appendSlaveHandshake(nil, slaveHandshake{learner: true, id: 258}))
	f("00000002"+"0000000000000400", appendSwitchReport(nil, 1024))
	f("00000001"+"00000018"+"0000000000001000"+"00000003"+"00000001"+"0000000000000000"+"00000003"+"0000000000000800",
		appendMasterHandshake(nil, masterHandshake{end: 4096, epoch: 3,
			entries: []EpochEntry{{Epoch: 1}, {Epoch: 3, StartOffset: 2048}}}))
	f("00000002"+"00000064"+"0000000000000900"+"00000003"+"0000000000000800"+"00000000000008ff",
		appendSwitchHeader(nil, switchHeader{size: 100, phyOffset: 2304, epoch: 3, epochStart: 2048, confirm: 2303}))
}

func switchLink(t *testing.T, epochs *Epochs, h slaveHandshake, ends LogEnds, first int64) (*SwitchLink, error) {
	t.Helper()
	l := NewSwitchLink(epochs, 0)
	require.NoError(t, l.Received(appendSlaveHandshake(nil, h), 1, ends))
	s, ok := l.Due(1, 5000, ends.Max, 0)
	require.True(t, ok && s.Handshake)
	l.Handshake(1, ends.Max)
	return l, l.Received(appendSwitchReport(nil, store.PhyOffset(first)), 2, ends)
}

var switchEnds = LogEnds{Min: 2000, Max: 10_500, FileBytes: 1000}

// Where a transfer begins, and what no slave can say (case B28).
func TestSwitchLinkBegins(t *testing.T) {
	epochs := NewEpochs(EpochEntry{Epoch: 1}, EpochEntry{Epoch: 2, StartOffset: 5000})
	f := func(h slaveHandshake, first int64, next store.PhyOffset) {
		t.Helper()
		l, err := switchLink(t, epochs, h, switchEnds, first)
		require.NoError(t, err)
		require.Equal(t, next, l.Next())
		require.EqualValues(t, first, l.Ack())
	}
	f(slaveHandshake{id: 2}, 0, 2000)
	f(slaveHandshake{id: 2, lastFile: true}, 0, 10_000)
	f(slaveHandshake{id: 2}, 2000, 2000)
	f(slaveHandshake{id: 2}, 10_500, 10_500)
	refused := func(first int64, tell string) {
		t.Helper()
		l, err := switchLink(t, epochs, slaveHandshake{id: 2}, switchEnds, first)
		require.Error(t, err)
		frame, _ := l.Refusal()
		require.Equal(t, tell, hex.EncodeToString(frame))
		require.EqualValues(t, -1, l.Ack())
	}
	tail := "ffffffff" + "0000000000000000" + "0000000000000000"
	refused(-1, "")
	refused(1<<60, "00000002"+"00000000"+"0000000000002904"+tail)
	refused(1999, "00000002"+"00000000"+"00000000000007d0"+tail)
}

func TestSwitchLinkStrangers(t *testing.T) {
	hello := func(id int64) []byte { return appendSlaveHandshake(nil, slaveHandshake{id: id}) }
	f := func(said ...[]byte) {
		t.Helper()
		l := NewSwitchLink(NewEpochs(), 0)
		var err error
		for _, b := range said {
			if err == nil {
				err = l.Received(b, 1, switchEnds)
			}
			if s, ok := l.Due(1, 5000, switchEnds.Max, 0); ok && s.Handshake {
				l.Handshake(1, switchEnds.Max)
			}
		}
		require.ErrorIs(t, err, errStranger)
		require.EqualValues(t, -1, min(l.Ack(), -1))
	}
	f(appendSwitchReport(nil, 2000))
	f([]byte("GET / HTTP/1.1\r\n"))
	f(reportOf(1 << 60))
	f(hello(0))
	f(hello(-5))
	f(hello(2), hello(3))
	f(append(hello(2), appendSwitchReport(nil, 10_500)...)) // before it can know the epochs
	l, err := switchLink(t, NewEpochs(), slaveHandshake{id: 2}, switchEnds, 2000)
	require.NoError(t, err)
	require.ErrorIs(t, l.Received(appendSwitchReport(nil, 2001), 3, switchEnds), errStranger, "nothing was sent")
	l, err = switchLink(t, NewEpochs(), slaveHandshake{id: 2}, switchEnds, 2000)
	require.NoError(t, err)
	require.ErrorIs(t, l.Received(hello(2), 3, switchEnds), errStranger, "in the middle")
	// Java's slave repeats its introduction until it is answered
	l = NewSwitchLink(NewEpochs(), 0)
	for range 3 {
		require.NoError(t, l.Received(hello(2), 1, switchEnds))
	}
}

// No frame has bytes of two epochs, and a heartbeat names the epoch of the byte before it.
func TestSwitchLinkLabels(t *testing.T) {
	epochs := NewEpochs(EpochEntry{Epoch: 4, StartOffset: 100}, EpochEntry{Epoch: 5, StartOffset: 300},
		EpochEntry{Epoch: 7, StartOffset: 300}, EpochEntry{Epoch: 8, StartOffset: 500})
	l := NewSwitchLink(epochs, 0)
	f := func(from store.PhyOffset, size, limit int, epoch int32, start store.PhyOffset) {
		t.Helper()
		if size > 0 {
			require.Equal(t, limit, l.Limit(from, size))
		}
		want := appendSwitchHeader(nil, switchHeader{size: size, phyOffset: from, epoch: epoch, epochStart: start, confirm: 9})
		require.Equal(t, want, l.AppendHead(nil, from, size, 9))
	}
	f(0, 1000, 100, NoEpoch, 0)
	f(50, 50, 50, NoEpoch, 0)
	f(100, 1000, 200, 4, 100)
	f(299, 1000, 1, 4, 100)
	f(300, 1000, 200, 7, 300)
	f(500, 1000, 1000, 8, 500)
	f(500, math.MaxInt32, maxSwitchBodyBytes, 8, 500)
	f(0, 0, 0, NoEpoch, 0)
	f(100, 0, 0, NoEpoch, 0)
	f(300, 0, 0, 4, 100)
	f(500, 0, 0, 7, 300)
	f(501, 0, 0, 8, 500)
}

func TestSwitchLinkIsDue(t *testing.T) {
	l, err := switchLink(t, NewEpochs(), slaveHandshake{id: 2}, switchEnds, 10_500)
	require.NoError(t, err)
	f := func(now, end, confirm int64, want SwitchSend) {
		t.Helper()
		s, ok := l.Due(now, 5000, store.PhyOffset(end), store.PhyOffset(confirm))
		require.Equal(t, want != SwitchSend{}, ok)
		require.Equal(t, want, s)
	}
	f(100, 10_500, 0, SwitchSend{})
	f(100, 10_501, 0, SwitchSend{From: 10_500})
	f(5001, 10_501, 0, SwitchSend{Heartbeat: true, From: 10_500})
	l.Sent(100, 10_400, 200)
	f(201, 10_600, 10_600, SwitchSend{})
	f(200+confirmMillis, 10_600, 10_600, SwitchSend{Heartbeat: true, From: 10_600})
	require.EqualValues(t, confirmMillis, l.IdleMillis(201, 5000))
	l.Sent(0, 10_600, 300)
	f(1000, 10_600, 10_600, SwitchSend{})
	require.EqualValues(t, 4999, l.IdleMillis(301, 5000))
	require.False(t, l.Expired(20_001, 20_000))
	require.True(t, l.Expired(20_003, 20_000))
}

// FuzzSwitchLink: no panic; what is confirmed was sent; bounded memory.
func FuzzSwitchLink(f *testing.F) {
	f.Add(append(appendSlaveHandshake(nil, slaveHandshake{id: 2}), appendSwitchReport(nil, 2000)...), 3)
	f.Add(appendSlaveHandshake(nil, slaveHandshake{id: 2}), 1)
	f.Add(appendSwitchReport(nil, 5), 7)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		piece = max(1, piece%64)
		l := NewSwitchLink(NewEpochs(EpochEntry{Epoch: 1}), 0)
		for len(b) > 0 {
			n := min(piece, len(b))
			if err := l.Received(b[:n], 0, switchEnds); err != nil {
				return
			}
			if s, ok := l.Due(0, 5000, switchEnds.Max, 0); ok && s.Handshake {
				l.Handshake(0, switchEnds.Max)
			}
			if l.Started() {
				require.LessOrEqual(t, l.Ack(), max(l.Next(), switchEnds.Max))
				l.Sent(10, 0, 0)
			}
			b = b[n:]
		}
	})
}
