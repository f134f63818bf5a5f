package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SchemaVersion is Result.Schema; it grows when a member changes its meaning or goes.
const SchemaVersion = 1

// Result is what a suite measured, and what is needed to do it again.
type Result struct {
	Schema    int         `json:"schema"`
	Started   time.Time   `json:"started"`
	Command   []string    `json:"command"`
	Note      string      `json:"note"`
	Host      Host        `json:"host"`
	Scale     float64     `json:"scale"`
	Rounds    int         `json:"rounds"`
	Targets   []Broker    `json:"targets"`
	Workloads []*Workload `json:"workloads"`
	Micro     []Micro     `json:"micro"`
	Problems  []string    `json:"problems"` // workloads that failed on a target, and what a figure does not mean
}

// Broker is a target as it describes itself.
type Broker struct {
	Name     string   `json:"name"`
	Addr     string   `json:"addr"`
	Version  string   `json:"version"`
	Flush    string   `json:"flush"` // flushDiskType and role; "unknown" if it does not tell
	PID      int      `json:"pid"`   // 0: unknown, and so is its CPU time
	Settings []string `json:"settings"`
	Started  bool     `json:"started"` // by the suite
}

// Workload is a line of the table with what was measured.
type Workload struct {
	Name    string    `json:"name"`
	About   string    `json:"about"`
	Figures []*Figure `json:"figures"`
}

// Figure is one quantity of a workload, by target.
type Figure struct {
	Name   string               `json:"name"`
	Unit   string               `json:"unit"`
	Better Better               `json:"better"`
	Values map[string][]float64 `json:"values"` // of each round
	Median map[string]float64   `json:"median"`
	// Ratio compares the first target with each other one; above 1 the first is better. Targets whose median is
	// 0, or the first's, have none.
	Ratio map[string]float64 `json:"ratio"`
}

func newResult(o *Options, targets []*target, micro []Micro) *Result {
	r := &Result{Schema: SchemaVersion, Started: time.Now().UTC().Truncate(time.Second), Command: orEmpty(o.Args),
		Note: o.Note, Host: hostFacts(), Scale: o.Scale, Rounds: o.Rounds, Workloads: []*Workload{}, Micro: orEmpty(micro),
		Problems: []string{}}
	for _, t := range targets {
		flush := t.flush
		if flush == "" {
			flush = "unknown"
		}
		r.Targets = append(r.Targets, Broker{Name: t.name, Addr: t.addr, Version: t.version, Flush: flush, PID: t.pid,
			Settings: orEmpty(t.settings), Started: t.started != nil})
	}
	return r
}

func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// problem notes what went wrong, once.
func (r *Result) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Problems, text) {
		r.Problems = append(r.Problems, text)
	}
}

func (r *Result) names() (out []string) {
	for _, t := range r.Targets {
		out = append(out, t.Name)
	}
	return out
}

// add takes over one round of a target.
func (w *Workload) add(target string, values []value) {
	for _, v := range values {
		i := slices.IndexFunc(w.Figures, func(f *Figure) bool { return f.Name == v.name && f.Unit == v.unit })
		if i < 0 {
			i = len(w.Figures)
			w.Figures = append(w.Figures, &Figure{Name: v.name, Unit: v.unit, Better: v.better,
				Values: map[string][]float64{}, Median: map[string]float64{}, Ratio: map[string]float64{}})
		}
		w.Figures[i].Values[target] = append(w.Figures[i].Values[target], v.v)
	}
}

// settle computes medians and ratios; the first name is what the others are compared with.
func (w *Workload) settle(names []string) {
	w.Figures = orEmpty(w.Figures)
	for _, f := range w.Figures {
		for _, name := range names {
			if v := f.Values[name]; len(v) > 0 {
				f.Median[name] = median(v)
			}
		}
		first := f.Median[names[0]]
		for _, name := range names[1:] {
			other := f.Median[name]
			switch {
			case first == 0 || other == 0:
			case f.Better == Higher:
				f.Ratio[name] = first / other
			case f.Better == Lower:
				f.Ratio[name] = other / first
			}
		}
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// JSON is the result as indented JSON, with a newline.
func (r *Result) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// number writes a figure with three or four digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// group puts a comma before every third digit.
func group(digits string) string {
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Markdown writes the result for people.
func (r *Result) Markdown(w io.Writer) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Benchmarks, %s\n\n", r.Started.Format("2006-01-02 15:04 UTC"))
	h := r.Host
	p("%s, %d cores, %s of memory, %s %s %s, %s, commit %s; load average at the start %s.\n", h.CPU, h.Cores, h.Memory,
		h.OS, h.Kernel, h.Arch, h.Go, h.Commit, h.LoadAvg)
	if r.Note != "" {
		p("%s\n", r.Note)
	}
	p("\n`%s`\n\n", strings.Join(r.Command, " "))
	if len(r.Workloads) > 0 {
		r.markdownSuite(p)
	}
	if len(r.Problems) > 0 {
		p("## Problems\n\n")
		for _, text := range r.Problems {
			p("- %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", " "))
		}
		p("\n")
	}
	if len(r.Micro) > 0 {
		r.markdownMicro(p)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (r *Result) markdownSuite(p func(string, ...any)) {
	p("## Brokers\n\n| name | address | version | flush | settings |\n| --- | --- | --- | --- | --- |\n")
	for _, t := range r.Targets {
		p("| %s | %s | %s | %s | %s |\n", t.Name, t.Addr, t.Version, t.Flush, strings.Join(t.Settings, " "))
	}
	p("\n## Workloads\n\nMedians of %s at scale %g, targets in turns. The load generator shares the machine:\n",
		plural(r.Rounds, "round"), r.Scale)
	p("compare within a row, and trust the CPU time first.")
	names := r.names()
	if len(names) > 1 {
		p(" A ratio is above 1 where %s is better.", names[0])
	}
	p("\n\n| workload | figure |")
	for _, n := range names {
		p(" %s |", n)
	}
	for _, n := range names[1:] {
		p(" vs %s |", n)
	}
	p("\n| --- | --- |%s\n", strings.Repeat(" ---: |", 2*len(names)-1))
	for _, w := range r.Workloads {
		for i, f := range w.Figures {
			name := ""
			if i == 0 {
				name = w.Name
			}
			p("| %s | %s, %s |", name, f.Name, f.Unit)
			for _, n := range names {
				p(" %s |", cell(f.Median, n, ""))
			}
			for _, n := range names[1:] {
				p(" %s |", cell(f.Ratio, n, "×"))
			}
			p("\n")
		}
	}
	p("\n")
	for _, w := range r.Workloads {
		p("- **%s**: %s\n", w.Name, w.About)
	}
	p("\n")
}

func cell(values map[string]float64, name, unit string) string {
	v, ok := values[name]
	if !ok {
		return ""
	}
	return number(v) + unit
}

func (r *Result) markdownMicro(p func(string, ...any)) {
	p("## Stages alone\n\n| package | benchmark | ns/op | B/op | allocs/op | more |\n")
	p("| --- | --- | ---: | ---: | ---: | --- |\n")
	for _, m := range r.Micro {
		var more []string
		for _, unit := range slices.Sorted(maps.Keys(m.Figures)) {
			switch unit {
			case "ns/op", "B/op", "allocs/op":
			default:
				more = append(more, number(m.Figures[unit])+" "+unit)
			}
		}
		p("| %s | %s | %s | %s | %s | %s |\n", m.Package, m.Name, cell(m.Figures, "ns/op", ""), cell(m.Figures, "B/op", ""),
			cell(m.Figures, "allocs/op", ""), strings.Join(more, ", "))
	}
	p("\n")
}
