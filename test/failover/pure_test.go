//go:build interop && linux

package failover

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var zero = time.Unix(1000, 0)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

func TestTurns(t *testing.T) {
	f := func(want int, acks ...ack) {
		t.Helper()
		got, shown := turnsOf(acks)
		require.Equal(t, want, got, shown)
	}
	by := func(addr string, start, end int) ack { return ack{addr: addr, start: at(start), end: at(end)} }
	f(0)
	f(1, by("a", 0, 1), by("a", 2, 3))
	f(2, by("a", 0, 1), by("b", 2, 3), by("b", 4, 5))
	f(1, by("a", 0, 3), by("b", 1, 4)) // either may have been first
	f(2, by("a", 0, 1), by("a", 2, 9), by("b", 3, 4), by("b", 5, 6))
	f(3, by("a", 0, 1), by("b", 2, 3), by("a", 4, 5))
	f(3, by("a", 4, 5), by("b", 2, 3), by("a", 0, 1)) // in any order
}

func TestGap(t *testing.T) {
	f := func(want int, from, to int, ends ...int) {
		t.Helper()
		var acks []ack
		for _, e := range ends {
			acks = append(acks, ack{end: at(e)})
		}
		require.Equal(t, time.Duration(want)*time.Millisecond, gap(acks, at(from), at(to)))
	}
	f(10, 0, 10)
	f(6, 0, 10, 2, 8)
	f(7, 0, 10, 7, 8)
	f(8, 0, 10, 1, 2)
	f(5, 10, 20, 3, 15, 22)
}

func TestFirstDifference(t *testing.T) {
	f := func(want int64, a, b map[int64][]byte, end int64) {
		t.Helper()
		require.Equal(t, want, firstDifference(a, b, end))
	}
	a := map[int64][]byte{0: []byte("abcd"), 4: []byte("efgh")}
	f(-1, a, a, 8)
	f(-1, a, map[int64][]byte{4: []byte("efgh")}, 8)
	f(6, a, map[int64][]byte{0: []byte("abcd"), 4: []byte("ef..")}, 8)
	f(-1, a, map[int64][]byte{0: []byte("abcd"), 4: []byte("ef..")}, 6)
}

func TestSetbacks(t *testing.T) {
	r := newRecord()
	now := time.Now()
	r.faultAt = now
	r.commits = []commit{{0, 10, now.Add(-9 * time.Second)}, {0, 20, now.Add(-4 * time.Second)}, {0, 30, now.Add(time.Second)},
		{1, 99, now.Add(-time.Minute)}}
	r.found(0, 30)
	require.Empty(t, r.setbacks)
	r.found(0, 12)
	require.Equal(t, []setback{{queue: 0, had: 30, got: 12, lost: 4 * time.Second}}, r.setbacks)
}

// Every fault comes before one comes twice, and a seed gives the same ones.
func TestDeck(t *testing.T) {
	c := &cluster{controllers: make([]*server, 3), net: &network{tc: true}}
	draw := func() (names []string) {
		d := &deck{rng: rand.New(rand.NewPCG(7, 0))}
		for range faults {
			names = append(names, d.draw(c).name)
		}
		return names
	}
	names := draw()
	require.Equal(t, names, draw())
	var all []string
	for i := range faults {
		all = append(all, faults[i].name)
	}
	require.ElementsMatch(t, all, names)
	one := &cluster{controllers: make([]*server, 1), net: &network{}}
	d := &deck{rng: rand.New(rand.NewPCG(7, 0))}
	for range 3 * len(faults) {
		require.Empty(t, d.draw(one).skip(one))
	}
}
