//go:build unix && !race

package gnet

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoRaceTurnAllocations: one request, one answer, in steady state; the client's side does not allocate
// either.
func TestNoRaceTurnAllocations(t *testing.T) {
	f := func(h *answerer, answerBytes int) {
		t.Helper()
		e := startQuiet(t, h, 1)
		nc, err := net.Dial("tcp", e.Addrs()[0].String())
		require.NoError(t, err)
		defer nc.Close()
		request := appendEcho(nil, []byte("some header"), make([]byte, 1024))
		answer := make([]byte, answerBytes)
		turn := func() {
			_, err := nc.Write(request)
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
	f(&answerer{}, 8+11+1024)
	f(&answerer{mapped: make([]byte, 30_000), head: make([]byte, 200)}, 30_200)
}
