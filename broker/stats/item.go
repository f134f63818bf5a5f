package stats

import "skylark/codec/body"

// Sizes of the windows: Java keeps 7 samples of 10 s, 7 of 10 min and 25 of 1 h.
const (
	minuteSamples = 7
	hourSamples   = 7
	daySamples    = 25
)

type sample struct{ at, sum, times int64 }

// window is the last samples of one rhythm.
type window struct {
	ring []sample
	keep int
}

func (w *window) add(s sample) {
	if len(w.ring) == w.keep {
		copy(w.ring, w.ring[1:])
		w.ring = w.ring[:w.keep-1]
	}
	w.ring = append(w.ring, s)
}

// view is what Java computes from the first and the last sample.
func (w *window) view() *body.BrokerStatsItem {
	v := &body.BrokerStatsItem{}
	if len(w.ring) < 2 {
		return v
	}
	first, last := w.ring[0], w.ring[len(w.ring)-1]
	v.Sum = last.sum - first.sum
	if d := last.at - first.at; d > 0 {
		v.TPS = float64(v.Sum) * 1000 / float64(d)
	}
	if n := last.times - first.times; n > 0 {
		v.AvgPT = float64(v.Sum) / float64(n)
	}
	return v
}

// item is one counter of one name with its windows. The windows belong to the manager's lock.
type item struct {
	sum               Counter
	times             Counter
	minute, hour, day window
}

func newItem(now int64) *item {
	it := &item{minute: window{keep: minuteSamples}, hour: window{keep: hourSamples}, day: window{keep: daySamples}}
	zero := sample{at: now}
	it.minute.add(zero)
	it.hour.add(zero)
	it.day.add(zero)
	return it
}

func (it *item) sample(now int64) sample {
	s := sample{at: now, sum: it.sum.Load(), times: it.times.Load()}
	if s.times == 0 {
		s.times = s.sum
	}
	return s
}

// add counts a value once.
func (it *item) add(n int64) {
	it.sum.Add(n)
	it.times.Add(1)
}
