// Command go-remoting runs scenarios with the Go client of the remoting protocol (rocketmq-client-go v2).
//
// It prints PLAN lines for what will run, then PASS or FAIL with the client, the scenario and a detail as
// each ends. Environment: CLIENT, NAMESRV, BROKER (its address: this client's admin has no cluster list),
// BROKER_NAME, ONLY (regular expression of whole names), LANES, RUN_ID. The exit status is 0 whatever the
// scenarios say.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// scenario is one black-box test: it panics when something is not as it has to be and returns a word on what
// it saw.
type scenario struct {
	name  string
	limit time.Duration
	run   func(s *scope) string
}

// closeLimit is what clients that do not shut down may take before they are left behind.
const closeLimit = 15 * time.Second

var (
	client     = env("CLIENT", "go-remoting")
	namesrv    = strings.Split(env("NAMESRV", "127.0.0.1:9876"), ";")
	broker     = env("BROKER", "")
	brokerName = env("BROKER_NAME", "broker-a")
	runID      = env("RUN_ID", strconv.FormatInt(time.Now().Unix(), 36))

	printMu sync.Mutex
	spaces  = regexp.MustCompile(`\s+`)
)

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func main() {
	rlog.SetLogLevel("fatal")
	if broker == "" {
		fmt.Fprintln(os.Stderr, "BROKER is needed")
		os.Exit(2)
	}
	only := regexp.MustCompile("^(?:" + env("ONLY", ".*") + ")$")
	lanes, err := strconv.Atoi(env("LANES", "5"))
	if err != nil || lanes < 1 {
		fmt.Fprintln(os.Stderr, "LANES is no positive number")
		os.Exit(2)
	}
	all := slices.Concat(sendScenarios, consumeScenarios, laterScenarios)
	all = slices.DeleteFunc(all, func(sc scenario) bool { return !only.MatchString(sc.name) })
	for _, sc := range all {
		line("PLAN", sc.name, "")
	}
	free := make(chan struct{}, lanes)
	var running sync.WaitGroup
	for _, sc := range all {
		free <- struct{}{}
		running.Go(func() {
			runOne(sc)
			<-free
		})
	}
	running.Wait()
	os.Exit(0) // the client leaves goroutines and connections behind
}

func line(status, name, detail string) {
	detail = spaces.ReplaceAllString(detail, " ")
	if len(detail) > 300 {
		detail = detail[:300]
	}
	printMu.Lock()
	defer printMu.Unlock()
	fmt.Println(strings.TrimSpace(strings.Join([]string{status, client, name, detail}, " ")))
}

func runOne(sc scenario) {
	s := &scope{name: sc.name}
	type result struct{ status, detail string }
	ended := make(chan result, 1)
	go func() {
		defer func() {
			if x := recover(); x != nil {
				ended <- result{"FAIL", fmt.Sprint(x)}
			}
		}()
		ended <- result{"PASS", sc.run(s)}
	}()
	select {
	case r := <-ended:
		line(r.status, sc.name, r.detail)
	case <-time.After(sc.limit):
		line("FAIL", sc.name, fmt.Sprintf("no end within %v", sc.limit))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
		fmt.Fprintln(os.Stderr, sc.name, "clients do not close")
	}
}
