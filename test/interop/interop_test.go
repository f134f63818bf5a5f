//go:build interop

package interop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	flagNamesrv = flag.String("namesrv", os.Getenv("NAMESRV"), "name server of a running system")
	flagTarget  = flag.String("target", cmp.Or(os.Getenv("INTEROP_TARGET"), "skylark"), "skylark or java")
	flagClients = flag.String("clients", os.Getenv("INTEROP_CLIENTS"), "clients, with commas between")
	flagOnly    = flag.String("only", os.Getenv("INTEROP_ONLY"), "regular expression of scenarios")
	flagSet     = flag.String("set", cmp.Or(os.Getenv("INTEROP_SET"), "core"), "short, core or all")
	flagLanes   = flag.Int("lanes", 5, "scenarios of a client that run at a time")
	flagPort    = flag.Int("port", 0, "name server port of a started system, the broker's is 11 above; 0: free ones")
	flagRetries = flag.Int("retries", 0, "further runs of scenarios that failed")
	flagLimit   = flag.Duration("limit", 15*time.Minute, "time for one client")
)

// TestInterop runs every chosen client, one after the other, against one system.
func TestInterop(t *testing.T) {
	set := *flagSet
	if testing.Short() {
		set = "short"
	}
	require.Contains(t, scenarioSets, set, "-set")
	w := newWork(t)
	chosen := chooseClients(t, set)
	programs := map[string][]string{}
	for _, c := range chosen {
		programs[c.name] = w.build(t, c)
	}
	sys := startSystem(t, w)
	total := tally{}
	for _, c := range chosen {
		t.Run(c.name, func(t *testing.T) {
			r := runClient(t, w, sys, c, programs[c.name], onlyOf(set, c))
			for range *flagRetries {
				r.again(t, c.name, func(only string) *results {
					return runClient(t, w, sys, c, programs[c.name], only)
				})
			}
			r.report(t, c.name, total)
		})
	}
	fmt.Printf("%d passed, %d of them flaky, %d failed, %d known failures\n", total["PASS"], total["FLAKY"],
		total["FAIL"], total["KNOWN"])
	if *flagClients == "" && !testing.Short() {
		t.Run("examples", func(t *testing.T) { runExamples(t, w, sys) })
	}
	t.Run("shutdown", func(t *testing.T) { require.NoError(t, sys.stop()) })
	if t.Failed() {
		sys.showLog()
	}
}

// tally counts results by status.
type tally map[string]int

func chooseClients(t *testing.T, set string) []client {
	if *flagClients == "" {
		out := func(c client) bool { return !slices.Contains(c.sets, set) }
		return slices.DeleteFunc(slices.Clone(clients), out)
	}
	var chosen []client
	for _, name := range strings.Split(*flagClients, ",") {
		i := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
		require.GreaterOrEqual(t, i, 0, "-clients: there is no %q", name)
		chosen = append(chosen, clients[i])
	}
	return chosen
}

// results is what a client printed.
type results struct {
	planned []string
	status  map[string]string // scenario → PASS or FAIL
	detail  map[string]string
	err     error             // of the process
	flaky   map[string]string // scenarios that passed in a further run → what they said before
}

// runClient starts the program and reads its lines until it ends or its time is over.
func runClient(t *testing.T, w *work, sys *system, c client, program []string, only string) *results {
	ctx, cancel := context.WithTimeout(t.Context(), *flagLimit)
	defer cancel()
	go func() { // a client would go on asking a system that is gone
		select {
		case <-sys.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Dir = w.sub("tmp") // some mqadmin commands write files where they run
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "CLIENT="+c.name, "NAMESRV="+sys.namesrv, "BROKER="+sys.broker,
		"BROKER_NAME="+sys.brokerName, "CLUSTER="+sys.cluster, "RUN_ID="+w.nextRun(), "ONLY="+only,
		"LANES="+strconv.Itoa(*flagLanes), "TMP="+w.sub("tmp"), "HOME="+w.sub("home"))
	errFile, err := os.Create(filepath.Join(w.sub("log"), c.name+".err"))
	require.NoError(t, err)
	defer errFile.Close()
	cmd.Stderr = errFile
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := &results{status: map[string]string{}, detail: map[string]string{}, flaky: map[string]string{}}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.take(lines.Text(), c.name)
	}
	if r.err = cmd.Wait(); r.err != nil {
		r.err = fmt.Errorf("%w: %s", r.err, tailOf(errFile.Name()))
	}
	if err := sys.ended(); err != nil {
		r.err = errors.Join(err, r.err)
	}
	return r
}

func onlyOf(set string, c client) string {
	if *flagOnly != "" {
		return *flagOnly
	}
	if set == "core" && c.core != "" {
		return c.core
	}
	if strings.HasSuffix(c.name, "-binary") {
		return fmt.Sprintf("(?!%s)(%s)", popScenarios, scenarioSets[set])
	}
	return scenarioSets[set]
}

var resultLine = regexp.MustCompile(`^(PLAN|PASS|FAIL|SKIP) (\S+) (\S+) ?(.*)$`)

func (r *results) take(line, clientName string) {
	m := resultLine.FindStringSubmatch(line)
	if m == nil || m[2] != clientName {
		return
	}
	status, name, detail := m[1], m[3], m[4]
	if status == "PLAN" {
		r.planned = append(r.planned, name)
		return
	}
	r.status[name], r.detail[name] = status, detail
	if !slices.Contains(r.planned, name) {
		r.planned = append(r.planned, name)
	}
	fmt.Println(line)
}

// again runs what failed once more and takes over what passes now.
func (r *results) again(t *testing.T, clientName string, run func(only string) *results) {
	var failed []string
	for _, name := range r.planned {
		if s := r.status[name]; s != "PASS" && s != "SKIP" && knownFailure(clientName, name) == "" {
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return
	}
	t.Logf("once more: %s", strings.Join(failed, " "))
	second := run(strings.Join(failed, "|"))
	r.err = second.err
	for _, name := range failed {
		if second.status[name] == "PASS" {
			r.flaky[name] = r.detail[name]
			r.status[name], r.detail[name] = "PASS", second.detail[name]
		}
	}
}

// report makes a subtest of each scenario.
func (r *results) report(t *testing.T, clientName string, total tally) {
	if len(r.planned) == 0 {
		t.Errorf("no scenario was planned")
	}
	for _, name := range r.planned {
		status := r.status[name]
		why := knownFailure(clientName, name)
		switch {
		case status == "PASS":
			total["PASS"]++
			if _, flaky := r.flaky[name]; flaky {
				total["FLAKY"]++
			}
		case why != "":
			total["KNOWN"]++
		case status == "SKIP":
		default:
			total["FAIL"]++
		}
		t.Run(name, func(t *testing.T) {
			switch {
			case status == "PASS":
				if first, flaky := r.flaky[name]; flaky {
					t.Logf("flaky, failed before with: %s", first)
				}
			case status == "SKIP":
				t.Skip(r.detail[name])
			case why != "":
				t.Skipf("known: %s (%s)", why, r.detail[name])
			case status == "FAIL":
				t.Error(r.detail[name])
			default:
				t.Error("no result")
			}
		})
	}
	if r.err != nil {
		t.Errorf("the client ended with %v", r.err)
	}
}

// tailOf returns the end of a log.
func tailOf(path string) string {
	const limit = 4000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-limit):])
}
