//go:build interop && linux

package failover

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	catchUp = 40 * time.Second
	// tablesEvery is how often a slave copies what consumers have committed, and a little more.
	tablesEvery = 13 * time.Second
	// maxShown bounds what an error lists.
	maxShown = 5
)

// findings is what the checks after a fault counted, and what they hold against the group.
type findings struct {
	acked, lost, twice int
	setback            time.Duration
	wrong              []string
}

func (f *findings) blame(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// audit is the state of a group that is whole and idle, and what clients know.
type audit struct {
	c    *cluster
	r    *record
	f    findings
	logs map[place]string // what the master has stored: the keys
}

// check looks at everything. The group is whole and producers pause.
func check(c *cluster, r *record, epochs int, groups ...string) (findings, error) {
	a := &audit{c: c, r: r, logs: map[place]string{}}
	if err := a.replicas(); err != nil {
		return a.f, err
	}
	m := c.master()
	for q := range int32(queues) {
		keys, err := scan(c.ctx, c.client, m.addr(), q)
		if err != nil {
			return a.f, fmt.Errorf("read queue %d of %s: %w", q, m, err)
		}
		for offset, key := range keys {
			a.logs[place{q, offset}] = key
		}
	}
	a.acknowledged()
	a.masters(epochs)
	for _, g := range groups {
		a.consumed(g)
	}
	a.progress()
	return a.f, nil
}

// acknowledged looks for every message where its answer said that it is.
func (a *audit) acknowledged() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	copies := map[string]int{}
	for _, key := range a.logs {
		copies[key]++
	}
	for _, n := range copies {
		a.f.twice += n - 1
	}
	for _, acks := range a.r.acks {
		for _, k := range acks {
			a.f.acked++
			if a.logs[k.at] == k.key {
				continue
			}
			if copies[k.key] == 0 {
				a.f.lost++
			}
			if len(a.f.wrong) < maxShown {
				a.f.blame("%s, acknowledged by %s as %v at %s: there is %q; copies: %d", k.key, k.addr, k.at,
					k.end.Format("15:04:05.000"), a.logs[k.at], copies[k.key])
			}
		}
	}
}

// masters checks that the brokers which acknowledged took turns, one turn for each epoch at most. An acknowledgement is at
// some time between the send and the answer; the most turns that this allows to prove are counted.
func (a *audit) masters(epochs int) {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if turns, shown := turnsOf(slices.Concat(mapValues(a.r.acks)...)); turns > epochs {
		a.f.blame("%d masters acknowledged one after the other in %d epochs: %s", turns, epochs, shown)
	}
}

func mapValues[K comparable, V any](m map[K]V) (all []V) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// turnsOf counts the masters in acknowledgements: one that was sent to another broker after the last was answered is a turn.
func turnsOf(acks []ack) (turns int, shown string) {
	slices.SortFunc(acks, func(x, y ack) int { return x.end.Compare(y.end) })
	var last ack
	for _, k := range acks {
		if turns > 0 && (k.addr == last.addr || !k.start.After(last.end)) {
			continue
		}
		turns++
		last = k
		shown += fmt.Sprintf(" %s@%s", k.addr, k.end.Format("15:04:05.000"))
	}
	return turns, shown
}

// consumed waits until a group has had everything, and compares what it had with what is stored.
func (a *audit) consumed(group string) {
	missing := func() (n int, example string) {
		a.r.mu.Lock()
		defer a.r.mu.Unlock()
		for _, acks := range a.r.acks {
			for _, k := range acks {
				if !a.r.keys[group][k.key] {
					n++
					example = fmt.Sprintf("%s at %v", k.key, k.at)
				}
			}
		}
		return n, example
	}
	err := await(a.c.ctx, catchUp, func() bool { n, _ := missing(); return n == 0 })
	if n, example := missing(); err != nil {
		a.f.blame("%s has not had %d messages that were acknowledged, such as %s", group, n, example)
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	gone := 0
	for at, key := range a.r.delivered[group] {
		if a.logs[at] != key {
			if gone++; gone <= maxShown {
				a.f.blame("%s had %s at %v, where now is %q", group, key, at, a.logs[at])
			}
		}
	}
	if len(a.r.changed) > 0 {
		a.f.blame("%d messages became others: %s", len(a.r.changed), a.r.changed[0])
		a.r.changed = nil
	}
}

// progress looks at what new masters said about offsets.
func (a *audit) progress() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	for _, s := range a.r.setbacks {
		a.f.setback = max(a.f.setback, s.lost)
		if s.lost > tablesEvery {
			a.f.blame("the progress of queue %d went from %d back to %d, %v old", s.queue, s.had, s.got, s.lost)
		}
	}
	a.r.setbacks = nil
}

// replicas waits until all have the master's log and compares the bytes.
func (a *audit) replicas() error {
	m := a.c.master()
	var end int64
	ends := map[string]int64{}
	err := await(a.c.ctx, catchUp, func() bool {
		end = a.c.logEnd(m)
		same := end >= 0
		for _, s := range a.c.brokers {
			ends[s.String()] = a.c.logEnd(s)
			same = same && ends[s.String()] == end
		}
		return same
	})
	if err != nil {
		return fmt.Errorf("the replicas' logs do not end at one place: %v: %w", ends, err)
	}
	want, err := readLog(m)
	if err != nil {
		return err
	}
	for _, s := range a.c.brokers {
		if s == m {
			continue
		}
		have, err := readLog(s)
		if err != nil {
			return err
		}
		if at := firstDifference(want, have, end); at >= 0 {
			a.f.blame("the logs of %s and %s differ at %d, before their end at %d", m, s, at, end)
		}
	}
	return nil
}

// logEnd is commitLogMaxOffset of a broker, -1 if it does not say.
func (c *cluster) logEnd(s *server) int64 {
	info, err := c.client.RuntimeInfo(c.ctx, s.addr())
	if err != nil {
		return -1
	}
	end, err := strconv.ParseInt(info["commitLogMaxOffset"], 10, 64)
	if err != nil {
		return -1
	}
	return end
}

// readLog is the files of a CommitLog, by their first offset.
func readLog(s *server) (map[int64][]byte, error) {
	dir := filepath.Join(s.dir, "store", "commitlog")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[int64][]byte{}
	for _, e := range entries {
		first, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[first] = b
	}
	return out, nil
}

// firstDifference is the offset where two logs differ before end, -1 if nowhere. A log may begin later than the other.
func firstDifference(a, b map[int64][]byte, end int64) int64 {
	for first, x := range a {
		y, ok := b[first]
		if !ok || first >= end {
			continue
		}
		n := min(int64(len(x)), int64(len(y)), end-first)
		if bytes.Equal(x[:n], y[:n]) {
			continue
		}
		for i := range n {
			if x[i] != y[i] {
				return first + i
			}
		}
	}
	return -1
}
