package stats

import (
	"strconv"
	"time"
)

// totals are the messages by day of GET_BROKER_RUNTIME_INFO (Java BrokerStats): what the counters were at the
// last two midnights. They begin with the process.
type totals struct {
	day      int // of the last sample
	put, get [2]int64
}

func dayOf(millis int64) int {
	y, m, d := time.UnixMilli(millis).Date()
	return y*10000 + int(m)*100 + d
}

func (t *totals) init(now int64) { t.day = dayOf(now) }

func (t *totals) sample(now, put, get int64) {
	if d := dayOf(now); d != t.day {
		t.day = d
		t.put = [2]int64{t.put[1], put}
		t.get = [2]int64{t.get[1], get}
	}
}

// RuntimeInfo adds the sums by day (spec store-behaviour.md §9).
func (m *Manager) RuntimeInfo(into map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	day := func(name string, morning [2]int64, total int64) {
		into["msg"+name+"TotalYesterdayMorning"] = strconv.FormatInt(morning[0], 10)
		into["msg"+name+"TotalTodayMorning"] = strconv.FormatInt(morning[1], 10)
		into["msg"+name+"TotalTodayNow"] = strconv.FormatInt(total, 10)
	}
	day("Put", m.totals.put, m.putOwn.Load())
	day("Get", m.totals.get, m.getOwn.Load())
}
