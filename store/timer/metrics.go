package timer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"skylark/codec/body"
	"skylark/codec/fastjson"
	"skylark/internal/vfs"
)

// Metric counts the waiting messages of one topic (Java TimerMetrics.Metric).
type Metric struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"` // ms, of the last change
}

// Metrics is config/timermetrics and the answer to GET_TIMER_METRICS (61): real topic → messages that wait.
type Metrics struct {
	DataVersion body.DataVersion  `json:"dataVersion"`
	TimingCount map[string]Metric `json:"timingCount"`
}

func (m *Metrics) clone() Metrics {
	return Metrics{DataVersion: m.DataVersion, TimingCount: maps.Clone(m.TimingCount)}
}

// add counts n messages of a topic. A count does not fall below 0: a recall of nothing is counted back later.
func (m *Metrics) add(topic string, n, nowMillis int64) {
	c := m.TimingCount[topic]
	c.Count, c.TimeStamp = c.Count+n, nowMillis
	m.TimingCount[topic] = c
	m.DataVersion = m.DataVersion.Next(nowMillis, m.DataVersion.StateVersion)
}

// loadMetrics reads the file, else its backup, which only has the names then: found is false, and the service counts
// again. Counts that cannot be read are no reason not to start.
func loadMetrics(fsys vfs.FS, name string) (m Metrics, found bool, err error) {
	for i, file := range []string{name, name + vfs.BackupSuffix} {
		data, err := vfs.ReadFile(fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return m, false, fmt.Errorf("timer: %w", err)
		}
		m = Metrics{}
		if len(data) > 0 && fastjson.Unmarshal(data, &m) == nil && m.TimingCount != nil {
			return m, i == 0, nil
		}
	}
	return Metrics{TimingCount: map[string]Metric{}}, false, nil
}

func saveMetrics(fsys vfs.FS, name string, m *Metrics) error {
	data, err := fastjson.MarshalStandard(m) // Java: one line, quoted keys
	if err != nil {
		return fmt.Errorf("timer: %s: %w", name, err)
	}
	if err := vfs.WriteFileAtomic(fsys, name, data, true); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

// rate counts events a second over the last full rateSeconds.
type rate struct {
	seconds [rateSeconds + 1]int64
	now     int64
}

const rateSeconds = 10

func (r *rate) add(n, nowMillis int64) {
	r.move(nowMillis / 1000)
	r.seconds[r.now%int64(len(r.seconds))] += n
}

func (r *rate) move(second int64) {
	if second-r.now >= int64(len(r.seconds)) || second < r.now {
		r.seconds = [rateSeconds + 1]int64{}
		r.now = second
		return
	}
	for r.now < second {
		r.now++
		r.seconds[r.now%int64(len(r.seconds))] = 0
	}
}

func (r *rate) perSecond(nowMillis int64) float64 {
	r.move(nowMillis / 1000)
	sum := int64(0)
	for i, n := range r.seconds {
		if int64(i) != r.now%int64(len(r.seconds)) {
			sum += n
		}
	}
	return float64(sum) / rateSeconds
}
