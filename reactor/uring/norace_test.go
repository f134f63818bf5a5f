//go:build iouring && linux && !race

package uring

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/reactor"
)

// TestNoRaceTurnAllocations: one request, one answer, in steady state; the client's side does not allocate either.
func TestNoRaceTurnAllocations(t *testing.T) {
	f := func(h *answerer, answerBytes int) {
		t.Helper()
		nc := dial(t, startEngine(t, h, reactor.Options{}))
		p, answer := request(make([]byte, 1024)), make([]byte, answerBytes)
		turn := func() {
			_, err := nc.Write(p)
			if err == nil {
				_, err = io.ReadFull(nc, answer)
			}
			if err != nil {
				t.Error(err)
			}
		}
		for range 100 {
			turn()
		}
		require.Zero(t, testing.AllocsPerRun(3000, turn))
	}
	f(&answerer{}, 8+1024)
	f(&answerer{mapped: make([]byte, 30_000)}, 8+1024+30_000)
}
