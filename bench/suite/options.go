package suite

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skylark/bench"
)

// Limits of options.
const (
	minScale   = 0.001
	maxScale   = 1000
	maxRounds  = 100
	maxTargets = 16
)

// ErrUsage marks options that cannot be; it is that of package bench.
var ErrUsage = bench.ErrUsage

func usage(flag, format string, args ...any) error {
	return fmt.Errorf("%w: --%s: %s", ErrUsage, flag, fmt.Sprintf(format, args...))
}

// Target is a broker that runs already, or one that the suite starts and stops.
type Target struct {
	Name string
	Addr string // host:port; empty: to be started
	PID  int    // 0: found by the port if the broker is on this machine
	// Replicas are the processes of the broker's slaves, whose CPU time is told beside its own.
	Replicas []int

	Binary   string   // of one to be started: `BINARY broker KEY=VALUE...`
	Settings []string // key=value, under Java's names
}

// Options of a suite. The flag of each is in its comment.
type Options struct {
	Targets []Target // --targets and --start, in the order of the flags: the first is what the others are compared with
	Only    []string // --only: names of workloads, * and ? stand for any characters; none: all
	Scale   float64  // --scale: of counts and durations; 0: 1
	Rounds  int      // --rounds; 0: 3
	Profile string   // --cpuprofile: directory for profiles of the started brokers; empty: none
	Micro   string   // --micro: output of `go test -bench`, taken over into the report; empty: none
	Note    string   // --note
	Args    []string // the command line, for the report

	// Progress gets a line for each measurement; nil: none.
	Progress func(line string)
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// ParseTargets reads NAME=HOST:PORT[@PID[+PID...]],... as --targets has it.
func ParseTargets(list string) (out []Target, err error) {
	for word := range strings.SplitSeq(list, ",") {
		name, addr, ok := strings.Cut(strings.TrimSpace(word), "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=HOST:PORT", word)
		}
		t := Target{Name: name}
		var pids string
		if t.Addr, pids, ok = strings.Cut(addr, "@"); ok {
			for i, pid := range strings.Split(pids, "+") {
				n, err := strconv.Atoi(pid)
				switch {
				case err != nil || n <= 0:
					return nil, fmt.Errorf("%q: %q is no process id", word, pid)
				case i == 0:
					t.PID = n
				default:
					t.Replicas = append(t.Replicas, n)
				}
			}
		}
		host, port, err := net.SplitHostPort(t.Addr)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || n == 0 {
			return nil, fmt.Errorf("%q: %q is not HOST:PORT", word, t.Addr)
		}
		out = append(out, t)
	}
	return out, nil
}

// ParseStart reads NAME=BINARY[,KEY=VALUE...] as --start has it.
func ParseStart(text string) (s Target, err error) {
	words := strings.Split(text, ",")
	var ok bool
	if s.Name, s.Binary, ok = strings.Cut(words[0], "="); !ok || s.Binary == "" {
		return s, fmt.Errorf("%q is not NAME=BINARY", words[0])
	}
	for _, w := range words[1:] {
		if key, _, ok := strings.Cut(w, "="); !ok || key == "" || strings.HasPrefix(key, "-") {
			return s, fmt.Errorf("%q is not KEY=VALUE", w)
		}
		s.Settings = append(s.Settings, w)
	}
	return s, nil
}

// Validate sets what is 0 to its default and names the first flag whose value cannot be.
func (o *Options) Validate() error {
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	switch n := len(o.Targets); {
	case n == 0:
		return fmt.Errorf("%w: give brokers with --targets or --start", ErrUsage)
	case n > maxTargets:
		return usage("targets", "%d brokers, at most %d", n, maxTargets)
	case !(o.Scale >= minScale && o.Scale <= maxScale): // so that NaN is out too
		return usage("scale", "%g is not in [%g, %g]", o.Scale, minScale, float64(maxScale))
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return usage("rounds", "%d is not in [1, %d]", o.Rounds, maxRounds)
	case o.Profile != "" && !slices.ContainsFunc(o.Targets, Target.toStart):
		return usage("cpuprofile", "only brokers of --start can be told to write one")
	}
	names := map[string]bool{}
	for _, t := range o.Targets {
		flag := "targets"
		if t.toStart() {
			flag = "start"
		}
		if !namePattern.MatchString(t.Name) {
			return usage(flag, "%q is no name: letters, digits, dot, dash, underscore, at most 32", t.Name)
		}
		if names[t.Name] {
			return usage(flag, "the name %s is taken already", t.Name)
		}
		names[t.Name] = true
		if !t.toStart() {
			continue
		}
		if info, err := os.Stat(t.Binary); err != nil {
			return usage(flag, "%v", err)
		} else if info.IsDir() {
			return usage(flag, "%s is a directory", t.Binary)
		}
	}
	_, err := o.chosen()
	return err
}

func (t Target) toStart() bool { return t.Addr == "" }

// chosen are the workloads that Only leaves, in the table's order. A pattern that fits none is an error: it is a slip.
func (o *Options) chosen() (out []*workload, err error) {
	if len(o.Only) == 0 {
		return workloads, nil
	}
	hit := map[*workload]bool{}
	for _, pattern := range o.Only {
		any := false
		for _, w := range workloads {
			ok, err := path.Match(pattern, w.name)
			if err != nil {
				return nil, usage("only", "%q: %v", pattern, errors.Unwrap(err))
			}
			hit[w] = hit[w] || ok
			any = any || ok
		}
		if !any {
			return nil, usage("only", "there is no workload %q; the table has %s", pattern, strings.Join(Names(), " "))
		}
	}
	for _, w := range workloads {
		if hit[w] {
			out = append(out, w)
		}
	}
	return out, nil
}

// Names are those of all workloads.
func Names() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}
