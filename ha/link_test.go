package ha

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

func reportOf(offsets ...int64) (b []byte) {
	for _, o := range offsets {
		b = binary.BigEndian.AppendUint64(b, uint64(o))
	}
	return b
}

func TestReportsInPieces(t *testing.T) {
	stream := reportOf(1, 2, 1<<40, 7)
	for piece := 1; piece <= len(stream); piece++ {
		var r reports
		got := []store.PhyOffset{}
		for at := 0; at < len(stream); at += piece {
			if o, ok := r.last(stream[at:min(at+piece, len(stream))]); ok {
				got = append(got, o)
			}
		}
		require.EqualValues(t, 7, got[len(got)-1], "pieces of %d", piece)
		require.Zero(t, r.n)
		if piece <= reportBytes {
			require.Equal(t, []store.PhyOffset{1, 2, 1 << 40, 7}, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	h := header{phyOffset: 1<<40 + 5, size: 12345}
	got, err := parseHeader(appendHeader(nil, h))
	require.NoError(t, err)
	require.Equal(t, h, got)
	for _, bad := range []header{{-1, 5}, {0, maxBodyBytes + 1}, {0, -1}} {
		_, err := parseHeader(appendHeader(nil, bad))
		require.Error(t, err)
	}
}

var testEnds = logEnds{min: 2000, max: 10_500, fileBytes: 1000}

// What a first report leads to (Java DefaultHAConnection.WriteSocketService), and what no slave can say (case B28).
func TestFirstReport(t *testing.T) {
	f := func(offset int64, next store.PhyOffset) {
		t.Helper()
		l := newMasterLink(0)
		_, ok := l.due(100_000, 5000, testEnds.max)
		require.False(t, ok, "nothing before the first report")
		acked, err := l.received(reportOf(offset), 10, testEnds)
		require.NoError(t, err)
		require.True(t, acked)
		require.Equal(t, next, l.next)
		require.EqualValues(t, offset, l.ack)
	}
	f(0, 10_000)
	f(2000, 2000)
	f(10_499, 10_499)
	f(10_500, 10_500)
	refused := func(offset int64, tell store.PhyOffset) {
		t.Helper()
		l := newMasterLink(0)
		_, err := l.received(reportOf(offset), 10, testEnds)
		require.Error(t, err)
		h, ok := l.refusal()
		require.Equal(t, tell >= 0, ok)
		require.Equal(t, tell, h.phyOffset)
		require.False(t, l.started)
	}
	refused(-1, -1)
	refused(1<<60, 10_500)
	refused(10_501, 10_500)
	refused(1999, 2000)
	empty := newMasterLink(0)
	_, err := empty.received(reportOf(0), 0, logEnds{fileBytes: 1000})
	require.NoError(t, err)
	require.Zero(t, empty.next)
}

func TestReportsConfirmOnlyWhatWasSent(t *testing.T) {
	l := newMasterLink(0)
	_, err := l.received(reportOf(10_000), 0, testEnds)
	require.NoError(t, err)
	s, ok := l.due(1, 5000, testEnds.max)
	require.True(t, ok)
	require.Equal(t, send{from: 10_000}, s)
	l.sent(300, 1)
	acked, err := l.received(reportOf(10_000), 2, testEnds)
	require.NoError(t, err)
	require.False(t, acked)
	acked, err = l.received(reportOf(10_100, 10_300), 3, testEnds)
	require.NoError(t, err)
	require.True(t, acked)
	require.EqualValues(t, 10_300, l.ack)
	acked, err = l.received(reportOf(10_100), 3, testEnds)
	require.NoError(t, err)
	require.False(t, acked, "a report never takes back")
	require.EqualValues(t, 10_300, l.ack)
	_, err = l.received(reportOf(10_301), 4, testEnds)
	require.ErrorIs(t, err, errStranger)
	_, err = l.received(reportOf(-1), 4, testEnds)
	require.ErrorIs(t, err, errStranger)
	require.EqualValues(t, 10_300, l.ack)
	require.False(t, l.expired(20_003, 20_000))
	require.True(t, l.expired(20_005, 20_000))
}

func TestHeartbeatIsDue(t *testing.T) {
	l := newMasterLink(0)
	_, err := l.received(reportOf(10_500), 0, testEnds)
	require.NoError(t, err)
	_, ok := l.due(4999, 5000, 10_500)
	require.False(t, ok)
	s, ok := l.due(5000, 5000, 11_000)
	require.True(t, ok)
	require.Equal(t, send{heartbeat: true, from: 10_500}, s, "before data")
	l.sent(0, 5000)
	s, ok = l.due(5000, 5000, 11_000)
	require.True(t, ok)
	require.False(t, s.heartbeat)
}

func TestFlowBudget(t *testing.T) {
	var f flowBudget
	require.EqualValues(t, 100, f.left(5000, 100))
	f.count(5100, 60)
	require.EqualValues(t, 40, f.left(5999, 100))
	f.count(5999, 60)
	require.Zero(t, f.left(5999, 100))
	require.EqualValues(t, 100, f.left(6000, 100))
	require.EqualValues(t, 120, f.perSecond(6000))
	require.Zero(t, f.perSecond(9000))
}

// FuzzReports: no panic, and what is confirmed was sent.
func FuzzReports(f *testing.F) {
	f.Add(reportOf(0, 10_000, 10_100), 3)
	f.Add(reportOf(1<<60, -1), 8)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		piece = max(1, piece%64)
		l := newMasterLink(0)
		for len(b) > 0 {
			n := min(piece, len(b))
			if _, err := l.received(b[:n], 0, testEnds); err != nil {
				return
			}
			if l.started {
				require.LessOrEqual(t, l.ack, max(l.next, testEnds.max))
				l.sent(10, 0)
			}
			b = b[n:]
		}
	})
}

func TestFrameBytes(t *testing.T) {
	f := func(configured int, behind int64, want int) {
		t.Helper()
		require.Equal(t, want, (&Live{TransferBatchBytes: configured, Rule: OneSlave}).frameBytes(behind))
	}
	require.Equal(t, batchBytes, (&Live{TransferBatchBytes: 32 << 10}).frameBytes(0)) // nobody waits
	f(32<<10, 0, 32<<10)
	f(32<<10, batchBytes-1, 32<<10)
	f(32<<10, batchBytes, batchBytes)
	f(2<<20, 0, 2<<20)
	f(2<<20, 5<<20, 2<<20)
	f(64<<20, 64<<20, maxBodyBytes) // a slave of Java's takes no more
	f(0, 0, 1)
}
