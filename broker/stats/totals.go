package stats

import (
	"fmt"
	"strconv"
	"time"
)

// totals are the broker-wide figures of GET_BROKER_RUNTIME_INFO: rates over 10, 60 and 600 s, and sums by day.
type totals struct {
	put, found, miss, transferred Counter // calls and messages since the start
	putMsgs, getMsgs              Counter
	samples                       []totalSample // 10 s apart, 61 of them: 600 s
	day                           int           // of the year, of the last midnight taken
	putMorning, getMorning        [2]int64      // yesterday's and today's midnight
}

type totalSample struct {
	at                            int64
	put, found, miss, transferred int64
}

const totalSamples = 61

func (t *totals) init(now int64) {
	t.day = time.UnixMilli(now).YearDay()
	t.samples = append(t.samples, totalSample{at: now})
}

func (t *totals) sample(now int64) {
	if len(t.samples) == totalSamples {
		copy(t.samples, t.samples[1:])
		t.samples = t.samples[:totalSamples-1]
	}
	t.samples = append(t.samples, totalSample{now, t.put.Load(), t.found.Load(), t.miss.Load(), t.transferred.Load()})
	if d := time.UnixMilli(now).YearDay(); d != t.day {
		t.day = d
		t.putMorning = [2]int64{t.putMorning[1], t.putMsgs.Load()}
		t.getMorning = [2]int64{t.getMorning[1], t.getMsgs.Load()}
	}
}

// rates gives "10s 60s 600s" of one figure.
func (t *totals) rates(now int64, value int64, of func(*totalSample) int64) string {
	out := ""
	for i, back := range []int{1, 6, 60} {
		s := &t.samples[max(len(t.samples)-back, 0)]
		rate := 0.0
		if d := now - s.at; d > 0 {
			rate = float64(value-of(s)) * 1000 / float64(d)
		}
		if i > 0 {
			out += " "
		}
		out += strconv.FormatFloat(rate, 'f', -1, 64)
	}
	return out
}

// CountPut counts a put call with its messages, CountGet a get with what it found.
func (m *Manager) CountPut(messages int64) {
	m.totals.put.Add(messages)
	m.totals.putMsgs.Add(messages)
}

// CountGet counts a pull that found messages, or none with 0.
func (m *Manager) CountGet(messages int64) {
	if messages == 0 {
		m.totals.miss.Add(1)
		return
	}
	m.totals.found.Add(1)
	m.totals.transferred.Add(messages)
	m.totals.getMsgs.Add(messages)
}

// RuntimeInfo adds the rates and sums of GET_BROKER_RUNTIME_INFO (spec store-behaviour.md §9).
func (m *Manager) RuntimeInfo(into map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, now := &m.totals, m.clock.Millis()
	found, miss := t.found.Load(), t.miss.Load()
	into["putTps"] = t.rates(now, t.put.Load(), func(s *totalSample) int64 { return s.put })
	into["getFoundTps"] = t.rates(now, found, func(s *totalSample) int64 { return s.found })
	into["getMissTps"] = t.rates(now, miss, func(s *totalSample) int64 { return s.miss })
	into["getTotalTps"] = t.rates(now, found+miss, func(s *totalSample) int64 { return s.found + s.miss })
	transferred := t.rates(now, t.transferred.Load(), func(s *totalSample) int64 { return s.transferred })
	into["getTransferredTps"] = transferred
	into["getTransferedTps"] = transferred // the spelling of mqadmin 4.9
	day := func(name string, morning [2]int64, total int64) {
		into["msg"+name+"TotalYesterdayMorning"] = fmt.Sprint(morning[0])
		into["msg"+name+"TotalTodayMorning"] = fmt.Sprint(morning[1])
		into["msg"+name+"TotalTodayNow"] = fmt.Sprint(total)
	}
	day("Put", t.putMorning, t.putMsgs.Load())
	day("Get", t.getMorning, t.getMsgs.Load())
}
