package bench

import (
	"fmt"
	"time"
)

// memory is what a process has: anonymous pages, all resident ones, those that are its alone.
type memory struct{ anon, total, private int64 }

// memory is the broker's, nothing without its process id.
func (o *Options) memory() (m memory, err error) {
	if o.CPUPid == 0 {
		return m, nil
	}
	if m.anon, m.total, err = processMemory(o.CPUPid); err != nil {
		return m, usage("cpu-pid", "%v", err)
	}
	m.private, _ = privateMemory(o.CPUPid) // another user's process does not tell
	return m, nil
}

// meter is what the processes have used at one time.
type meter struct {
	own    time.Duration
	broker time.Duration
}

func (o *Options) meter() (m meter, err error) {
	m.own = ownCPU()
	if o.CPUPid != 0 {
		if m.broker, err = processCPU(o.CPUPid); err != nil {
			return m, usage("cpu-pid", "%v", err)
		}
	}
	return m, nil
}

// watcher looks at a run once a second, and ends its warm-up.
type watcher struct {
	o     *Options
	tl    *timeline
	main  []*shard // what the run is about
	other []*shard // whose failures count too
	begun bool     // the measured part, with
	begin meter
	since int64 // when begin was taken
	list  []Interval
	err   error
}

// watch runs until ended is closed. Its caller has begun the timeline.
func (w *watcher) watch(ended <-chan struct{}) {
	start := w.tl.now()
	warm := time.NewTimer(time.Duration(w.tl.measureFrom.Load() - start))
	defer warm.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-warm.C:
			if !w.begun {
				w.measure()
			}
		case <-tick.C:
			w.look(int((w.tl.now() - start + int64(time.Second)/2) / int64(time.Second)))
		case <-ended:
			return
		}
	}
}

// measure begins the measured part.
func (w *watcher) measure() {
	w.begun = true
	if w.o.Warmup > 0 {
		for _, s := range w.main {
			s.reset()
		}
		for _, s := range w.other {
			s.reset()
		}
	}
	var err error
	if w.begin, err = w.o.meter(); err != nil {
		w.err = err
	}
	w.since = w.tl.now()
}

// look reports the last second.
func (w *watcher) look(second int) {
	var c coarse
	var n sums
	var failed int64
	for _, s := range w.main {
		m, f := s.look(&c)
		n.add(m)
		failed += f
	}
	for _, s := range w.other {
		m, f := s.look(&coarse{})
		n.failed += m.failed
		failed += f
	}
	us := func(v int64) float64 { return float64(v) / 1e3 }
	i := Interval{Second: second, Messages: n.messages, Failed: n.failed, P50: us(c.quantile(0.5)),
		P99: us(c.quantile(0.99)), Max: us(c.max)}
	warm := ""
	if w.o.Warmup > 0 && w.tl.now()-int64(time.Second) < w.tl.measureFrom.Load() {
		warm = "  (warm-up)" // all of the second or a part of it
	} else if len(w.list) < maxIntervals {
		w.list = append(w.list, i)
	}
	if w.o.Progress == nil {
		return
	}
	w.o.Progress(fmt.Sprintf("%4ds %9d msg/s %8.1f MB/s  p50 %s  p99 %s  max %s  failed %d%s", second, n.messages,
		float64(n.bytes)/1e6, ms(i.P50), ms(i.P99), ms(i.Max), failed, warm))
}

// used adds to the report what the processes have used since the warm-up ended.
func (w *watcher) used(r *Report, before memory) error {
	if w.err != nil {
		return w.err
	}
	end, err := w.o.meter()
	if err != nil {
		return err
	}
	elapsed := w.tl.now() - w.since
	messages := max(float64(r.Messages), 1)
	r.Generator.CPUUsPerMsg = float64((end.own - w.begin.own).Nanoseconds()) / 1e3 / messages
	if w.o.CPUPid == 0 {
		return nil
	}
	used := float64((end.broker - w.begin.broker).Nanoseconds())
	cpu, percent := used/1e3/messages, 100*used/float64(max(elapsed, 1))
	after, err := w.o.memory()
	if err != nil {
		return err
	}
	r.Broker.CPUUsPerMsg, r.Broker.CPUPercent = &cpu, &percent
	r.Broker.RSSAnonBytes, r.Broker.RSSTotalBytes, r.Broker.PrivateBytes = &after.anon, &after.total, &after.private
	r.Broker.RSSAnonBeforeBytes, r.Broker.PrivateBeforeBytes = &before.anon, &before.private
	r.Broker.Cores = affinity(w.o.CPUPid)
	return nil
}

// ProcessCPU is the CPU time of all threads of a process of this machine, to 10 ms.
func ProcessCPU(pid int) (time.Duration, error) { return processCPU(pid) }
