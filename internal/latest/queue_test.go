package latest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLastWordArrivesLast: targets are told in turn, by so many workers at once, each by one of them at a time.
func TestLastWordArrivesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told, at := map[string][]int{}, map[string]int{}
		most := 0
		q := New(Options{MaxTargets: 3, Workers: 2}, func(_ context.Context, target string, word *int) {
			mu.Lock()
			at[target]++
			require.Equal(t, 1, at[target])
			most = max(most, len(at))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			delete(at, target)
			told[target] = append(told[target], *word)
			mu.Unlock()
		}, func(target string, _ *int) { told[target] = append(told[target], -1) })
		words := []int{0, 1, 2, 3}
		q.Put(&words[0], "a", "b", "c", "d") // d finds no room
		synctest.Wait()
		q.Put(&words[1], "a", "c")
		q.Put(&words[2], "a", "c")
		time.Sleep(5 * time.Second)
		q.Put(&words[3])
		require.Equal(t, map[string][]int{"a": {0, 2}, "b": {0}, "c": {2}, "d": {-1}}, told)
		require.Equal(t, 2, most)
		q.mu.Lock()
		require.Zero(t, q.workers, "nobody runs while nothing waits")
		q.mu.Unlock()
		q.Close()
		q.Put(&words[3], "a")
		synctest.Wait()
		require.False(t, slices.Contains(told["a"], 3), "it is closed")
	})
}

// TestCloseEndsWhatIsUnderWay.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		q := New(Options{MaxTargets: 9, Workers: 1}, func(ctx context.Context, _ string, _ *int) {
			<-ctx.Done()
			told++
		}, nil)
		q.Put(new(int), "a", "b")
		synctest.Wait()
		q.Close()
		require.Equal(t, 1, told)
	})
}
