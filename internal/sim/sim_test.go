package sim

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/cryptotest"

	"github.com/stretchr/testify/require"
)

var (
	seeds    = flag.Uint64("seeds", 20, "how many seeds TestSeeds runs")
	first    = flag.Uint64("first", 1, "the first of them")
	oneSeed  = flag.Uint64("seed", 0, "the only seed to run, with a trace on standard error")
	keepOn   = flag.Bool("keep-on", false, "go on after a seed that fails")
	noTraces = flag.Bool("no-trace", false, "no trace for -seed")
)

// runSeed runs one seed. Raft draws its election timeouts from crypto/rand, which is seeded too.
func runSeed(t *testing.T, seed uint64, trace io.Writer) Result {
	cryptotest.SetGlobalRandom(t, seed)
	return Run(seed, ConfigOf(seed, trace))
}

func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		var trace io.Writer
		if !*noTraces {
			trace = os.Stderr
		}
		r := runSeed(t, *oneSeed, trace)
		t.Log(r.Check.Summary(), "steps", r.Steps, "trace", fmt.Sprintf("%016x", r.Trace))
		require.NoError(t, r.Err)
		return
	}
	if testing.Short() || raceEnabled {
		*seeds = min(*seeds, 3)
	}
	total := map[string]int{}
	failed := 0
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := runSeed(t, seed, nil)
			for name, n := range r.Check.Counts {
				total[name] += n
			}
			if r.Err != nil {
				failed++
				t.Errorf("%v\nagain with a trace: make sim SEED=%d", r.Err, seed)
			}
		})
		if failed > 0 && !*keepOn {
			break
		}
	}
	t.Log(total)
}

func TestSameSeedSameRun(t *testing.T) {
	a, b := runSeed(t, 7, nil), runSeed(t, 7, nil)
	require.Equal(t, a.Trace, b.Trace)
	require.NotEqual(t, a.Trace, runSeed(t, 8, nil).Trace)
}
