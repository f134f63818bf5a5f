//go:build !race

package transaction

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// 20,000 half messages, all but ten settled, a restart in the middle: only the ten are asked about (case B23 a).
func TestNoRaceRestartInTheMiddle(t *testing.T) {
	f := func(t *testing.T, again func(s *system) *system) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, setup{fs: newFS(t)})
			after(time.Millisecond)
			var list []prepared
			for i := range 20000 {
				list = append(list, s.prepare(fmt.Sprint(i)))
			}
			ten := map[string]bool{}
			for i, p := range list {
				if i == 10000 {
					s = again(s)
				}
				if i%2000 == 7 {
					ten[p.name] = true
					continue
				}
				require.NoError(t, s.end(p, i%3 > 0))
			}
			s.producer("G", "p")
			after(60 * time.Second)
			asked := s.took()
			require.Len(t, asked, 30)
			for _, q := range asked {
				require.True(t, ten[string(q.rec.Body)])
			}
			require.Len(t, s.GivenUp(), 10)
			require.Equal(t, 13326, len(s.visible()), "two of three, but for seven of the ten")
			s.stop()
		})
	}
	t.Run("stop", func(t *testing.T) { f(t, (*system).restart) })
	t.Run("kill", func(t *testing.T) { f(t, (*system).killed) })
}
