package codec

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOffsetMsgID(t *testing.T) {
	f := func(host string, p PhyOffset, want string) {
		t.Helper()
		h := netip.MustParseAddrPort(host)
		require.Equal(t, want, string(AppendOffsetMsgID(nil, h, p)))
		got, q, err := ParseOffsetMsgID(strings.ToLower(want))
		require.NoError(t, err)
		require.Equal(t, p, q)
		require.Equal(t, h.Addr().Unmap(), got.Addr())
		require.Equal(t, h.Port(), got.Port())
	}
	f("10.0.0.1:10911", 0x1122334455, "0A00000100002A9F0000001122334455") // spec messages.md §16
	f("[::ffff:10.0.0.1]:10911", 0, "0A00000100002A9F0000000000000000")
	f("[2001:db8::1]:65535", -1, "20010DB80000000000000000000000010000FFFFFFFFFFFFFFFFFFFF")
	require.Equal(t, strings.Repeat("0", 32), string(AppendOffsetMsgID(nil, netip.AddrPort{}, 0)))
}

func TestParseOffsetMsgIDRefuses(t *testing.T) {
	f := func(id string) {
		t.Helper()
		_, _, err := ParseOffsetMsgID(id)
		require.ErrorIs(t, err, ErrBadMessageID, id)
	}
	f("")
	f("0")
	f("0A00000100002A9F000000112233445")
	f("0A00000100002A9F00000011223344555")
	f("0A00000100002A9F000000112233445G")
	f("0A00000100012A9F0000001122334455")
	f(strings.Repeat("0", 55))
}

// TestUniqueIDVector is the id of spec messages.md §16.
func TestUniqueIDVector(t *testing.T) {
	u, err := ParseUniqueID("FD0000000000000000000000000000027CFE30946E0994E7AFA70000")
	require.NoError(t, err)
	require.Equal(t, UniqueID{Addr: netip.MustParseAddr("fd00::2"), PID: 0x7CFE, Constant: 0x30946E09,
		MonthMillis: 0x94E7AFA7}, u)
}

func TestUniqueIDGenerator(t *testing.T) {
	now := time.Date(2024, 2, 3, 4, 5, 6, 789e6, time.FixedZone("here", 3600))
	f := func(addr string, chars int) {
		t.Helper()
		g := NewUniqueIDGenerator(netip.MustParseAddr(addr), 0x1FFFE, 0xAABBCCDD, func() time.Time { return now })
		for i := range 3 {
			id := g.Next()
			require.Len(t, id, chars)
			u, err := ParseUniqueID(id)
			require.NoError(t, err)
			require.Equal(t, netip.MustParseAddr(addr).Unmap(), u.Addr)
			require.EqualValues(t, 0xFFFE, u.PID)
			require.EqualValues(t, 0xAABBCCDD, u.Constant)
			require.EqualValues(t, i, u.Counter)
			require.True(t, now.Equal(u.Time(now.Add(time.Hour))))
			// seen from next month before that day, it was made last month
			require.True(t, now.Equal(u.Time(time.Date(2024, 3, 2, 0, 0, 0, 0, now.Location()))))
		}
	}
	f("10.1.2.3", 32)
	f("::ffff:10.1.2.3", 32)
	f("fd00::2", 56)
	require.Equal(t, "00000000", NewUniqueIDGenerator(netip.Addr{}, 0, 0,
		func() time.Time { return now }).Next()[:8])
}

// The generator keeps the month; ids of the next one, and of the one before after the clock was set back, count from theirs.
func TestUniqueIDGeneratorMonths(t *testing.T) {
	zone := time.FixedZone("here", -3*3600)
	var now time.Time
	g := NewUniqueIDGenerator(netip.MustParseAddr("10.1.2.3"), 1, 2, func() time.Time { return now })
	f := func(at time.Time) {
		t.Helper()
		now = at
		u, err := ParseUniqueID(g.Next())
		require.NoError(t, err)
		require.EqualValues(t, at.Sub(startOfMonth(at)).Milliseconds(), u.MonthMillis)
	}
	f(time.Date(2024, 1, 31, 23, 59, 59, 999e6, zone))
	f(time.Date(2024, 2, 1, 0, 0, 0, 0, zone))
	f(time.Date(2024, 2, 29, 12, 0, 0, 0, zone))
	f(time.Date(2024, 1, 15, 0, 0, 0, 0, zone))
	f(time.Date(2024, 12, 31, 23, 59, 59, 0, zone))
	f(time.Date(2025, 1, 1, 0, 0, 0, 1e6, zone))
}

func TestUniqueIDGeneratorConcurrent(t *testing.T) {
	now := time.Unix(1700000000, 0)
	g := NewUniqueIDGenerator(netip.MustParseAddr("10.1.2.3"), 1, 2, func() time.Time { return now })
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]bool{}
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				id := g.Next()
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 8000)
}
