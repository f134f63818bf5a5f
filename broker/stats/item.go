package stats

import "skylark/codec/body"

// Sizes of the windows: Java keeps 7 samples of 10 s, 7 of 10 min and 25 of 1 h.
const (
	minuteSamples = 7
	hourSamples   = 7
	daySamples    = 25
)

type pair struct{ sum, times int64 }

// windows are an item's notes, rings that turn with the manager's clock.
type windows struct {
	minute [minuteSamples]pair
	hour   [hourSamples]pair
	day    [daySamples]pair
}

// item is one counter of one name and key. All but the counter belong to the manager's lock.
type item struct {
	Counter
	topic, group string // whom it counts for, to be forgotten with them
	base         pair   // what the counter was while win is nil
	win          *windows
}

// ticks are the positions in the rings and their times in ms, the same for all items. The slot at a position
// is the oldest one.
type ticks struct {
	n                           int // of 10 s
	minute, hour, day           int
	minuteAt, hourAt            [7]int64
	dayAt                       [daySamples]int64
	turnedMinutes, turnedByHour bool
}

func newTicks(now int64) *ticks {
	t := &ticks{}
	for i := range t.minuteAt {
		t.minuteAt[i], t.hourAt[i] = now, now
	}
	for i := range t.dayAt {
		t.dayAt[i] = now
	}
	return t
}

// turn notes the time of a sample; sample does the same for an item afterwards.
func (t *ticks) turn(now int64) {
	t.n++
	t.minuteAt[t.minute] = now
	t.minute = (t.minute + 1) % minuteSamples
	if t.turnedMinutes = t.n%minutesPer == 0; t.turnedMinutes {
		t.hourAt[t.hour] = now
		t.hour = (t.hour + 1) % hourSamples
	}
	if t.turnedByHour = t.n%hoursPer == 0; t.turnedByHour {
		t.dayAt[t.day] = now
		t.day = (t.day + 1) % daySamples
	}
}

func last(at, size int) int { return (at + size - 1) % size }

// sample notes the item's counter at the slots that turn has just left.
func (it *item) sample(t *ticks) {
	now := it.pair()
	if it.win == nil {
		if now == it.base {
			return
		}
		it.win = &windows{}
		for i := range it.win.minute {
			it.win.minute[i], it.win.hour[i] = it.base, it.base
		}
		for i := range it.win.day {
			it.win.day[i] = it.base
		}
	}
	it.win.minute[last(t.minute, minuteSamples)] = now
	if t.turnedMinutes {
		it.win.hour[last(t.hour, hourSamples)] = now
	}
	if t.turnedByHour {
		it.win.day[last(t.day, daySamples)] = now
		if it.win.day[t.day] == now { // the oldest: nothing has moved for a day
			it.base, it.win = now, nil
		}
	}
}

// minSpanMillis keeps the rate of a counter that has just begun from being a spike.
const minSpanMillis = 10_000

// view is what happened between the oldest note of a window and now.
func view(first, now pair, at, nowMillis int64) *body.BrokerStatsItem {
	v := &body.BrokerStatsItem{Sum: now.sum - first.sum}
	v.TPS = float64(v.Sum) * 1000 / float64(max(nowMillis-at, minSpanMillis))
	if n := now.times - first.times; n > 0 {
		v.AvgPT = float64(v.Sum) / float64(n)
	}
	return v
}

func (it *item) data(t *ticks, now int64) body.BrokerStatsData {
	p := it.pair()
	minute, hour, day := it.base, it.base, it.base
	if it.win != nil {
		minute, hour, day = it.win.minute[t.minute], it.win.hour[t.hour], it.win.day[t.day]
	}
	return body.BrokerStatsData{
		StatsMinute: view(minute, p, t.minuteAt[t.minute], now),
		StatsHour:   view(hour, p, t.hourAt[t.hour], now),
		StatsDay:    view(day, p, t.dayAt[t.day], now),
	}
}
