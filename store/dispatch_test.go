package store

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// TestDispatchRead: the short cut takes nothing that the parser refuses, and reads the same.
func TestDispatchRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	taken := 0
	f := func(b []byte) bool {
		t.Helper()
		var got, want dispatchRecord
		ok := got.read(b, 77)
		rec, err := codec.ParseRecord(b, false)
		if ok {
			require.NoError(t, err)
			want.from(&rec, 77)
			require.Equal(t, want, got)
		}
		return ok
	}
	hosts := []string{"10.0.0.1:1", "[fe80::1]:2"}
	for i := range 2000 {
		m := testMessage(strings.Repeat("t", 1+rng.IntN(140)), int32(rng.IntN(9)), strings.Repeat("b", rng.IntN(50)))
		m.BornHost = netip.MustParseAddrPort(hosts[i%20/19])
		m.SysFlag = int32(rng.IntN(16))
		m.Properties = []byte("TAGS\x01a\x02")[:rng.IntN(8)]
		rec, err := codec.AppendRecord(nil, m)
		require.NoError(t, err)
		codec.PatchRecord(rec, 5, 77, 9)
		plain := len(m.Topic) <= 127 && m.BornHost.Addr().Is4()
		require.Equal(t, plain, f(append(rec, "more"...)))
		for n := range 30 {
			bad := append([]byte(nil), rec...)
			bad[rng.IntN(len(bad))] ^= 1 << (n % 8)
			if n%5 == 0 {
				bad = bad[:rng.IntN(len(bad))]
			}
			if f(bad) {
				taken++
			}
		}
	}
	require.Positive(t, taken)
	f(codec.AppendBlank(nil, 100))
}
