package goruntime

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"skylark/internal/clock"
)

const (
	// Headroom is what the heap may grow by between two collections.
	Headroom = 16 << 20
	// MaxPercent is GOGC of a tiny heap: 4 MiB, the runtime's least, times MaxPercent/100 is Headroom.
	MaxPercent = 400
	// minPercent is GOGC of a heap as large as Headroom or larger: Go's own.
	minPercent = 100
	// MemoryShare is the part of the container's memory that the heap may use. The rest is for the runtime's own
	// structures, for dirty pages of the log, which count for the container too, and for the kernel's socket buffers.
	MemoryShare = 0.6
	// minMemoryLimit: a smaller limit would only make the collector run all the time.
	minMemoryLimit = 16 << 20
	// stepInterval is how often GOGC follows the live heap. A change stops all threads for some 20 µs.
	stepInterval = time.Minute
)

// Options of Tune.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Reserved is the anonymous memory that the process takes outside of the heap, in bytes (the transient store pool).
	Reserved int64
}

// Tuner keeps GOGC in step with the live heap until Close.
type Tuner struct {
	o       Options
	percent int
	stop    chan struct{}
	wg      sync.WaitGroup
}

// Tune sets GOGC and GOMEMLIMIT unless the environment does, and says in one line what it chose and why.
func Tune(o Options) *Tuner {
	t := &Tuner{o: o, stop: make(chan struct{})}
	gogc, limit := "GOGC="+os.Getenv("GOGC"), "GOMEMLIMIT="+os.Getenv("GOMEMLIMIT")
	if gogc == "GOGC=" {
		t.percent = MaxPercent
		debug.SetGCPercent(t.percent)
		gogc = fmt.Sprintf("%d, follows the live heap", t.percent)
		t.wg.Add(1)
		go t.run()
	}
	if limit == "GOMEMLIMIT=" {
		limit = "none: no container limit"
		if has, source := containerMemory("/"); has > 0 {
			n := memoryLimit(has, o.Reserved)
			debug.SetMemoryLimit(n)
			limit = fmt.Sprintf("%d MiB of %d MiB (%s)", n>>20, has>>20, source)
		}
	}
	o.Log.Info("go runtime", "gogc", gogc, "memoryLimit", limit, "gomaxprocs", runtime.GOMAXPROCS(0), "cpus", runtime.NumCPU())
	return t
}

// memoryLimit is GOMEMLIMIT for a container that may use so many bytes.
func memoryLimit(container, reserved int64) int64 {
	return max(int64(float64(container-reserved)*MemoryShare), minMemoryLimit)
}

// percentFor is GOGC for a live heap of so many bytes.
func percentFor(live uint64) int {
	if live == 0 {
		return MaxPercent
	}
	return int(min(max(Headroom*100/live, minPercent), MaxPercent))
}

func (t *Tuner) run() {
	defer t.wg.Done()
	ticker := t.o.Clock.NewTicker(stepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C():
			t.step(liveHeap())
		}
	}
}

// step follows the live heap once it has moved GOGC by a quarter.
func (t *Tuner) step(live uint64) {
	want := percentFor(live)
	if want*4 <= t.percent*5 && want*4 >= t.percent*3 {
		return
	}
	t.percent = want
	debug.SetGCPercent(want)
	t.o.Log.Debug("go runtime", "gogc", want, "liveHeapBytes", live)
}

// liveHeap is what the last collection found in use, in bytes.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Close ends the following.
func (t *Tuner) Close() {
	close(t.stop)
	t.wg.Wait()
}
