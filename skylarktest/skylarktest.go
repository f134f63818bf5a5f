// Package skylarktest gives other projects' tests a whole RocketMQ-compatible system in their own process:
//
//	func TestOrders(t *testing.T) {
//		sys := skylarktest.Start(t)
//		p, err := rocketmq.NewProducer(producer.WithNameServer([]string{sys.NamesrvAddr()}))
//		…
//	}
//
// Name server and broker listen on free ports of the loopback interface and keep their files in the test's temporary
// directory; the test's end stops them and fails the test if they do not stop cleanly. A system starts in well under
// 100 ms, so that every test can have its own.
package skylarktest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"skylark/config"
	"skylark/reactor/engines"
	"skylark/standalone"
)

// System is a running name server and broker.
type System struct{ sys *standalone.System }

// Option changes how a system is started.
type Option func(*settings)

type settings struct {
	dir   string
	props map[string]string
	log   bool
}

// WithProperty sets a key of Java's broker configuration, e.g. "autoCreateTopicEnable", "false". An unknown key or a
// wrong value fails the test.
func WithProperty(key, value string) Option { return func(s *settings) { s.props[key] = value } }

// WithDir keeps the files in a directory of the caller's, so that a second system can be started on them.
func WithDir(dir string) Option { return func(s *settings) { s.dir = dir } }

// WithLog writes the system's log to the test's.
func WithLog() Option { return func(s *settings) { s.log = true } }

// reactorEnv runs all systems on another engine than epoll: io_uring or std. The key reactor does so for one.
const reactorEnv = "SKYLARK_REACTOR"

// stopTimeout bounds the stop at the test's end.
const stopTimeout = 20 * time.Second

// Start starts a system and has the test's end stop it.
func Start(t testing.TB, options ...Option) *System {
	t.Helper()
	// Small files: a test writes little, and real space is allocated for them.
	s := settings{props: map[string]string{"brokerName": "broker-a", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
		"mappedFileSizeCommitLog": "16777216", "mappedFileSizeConsumeQueue": "60000", "maxHashSlotNum": "10000",
		"maxIndexNum": "40000", "diskMaxUsedSpaceRatio": "95", "reactor": "epoll"}}
	if name := os.Getenv(reactorEnv); name != "" {
		s.props["reactor"] = name
	}
	for _, o := range options {
		o(&s)
	}
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	s.props["storePathRootDir"] = s.dir + "/store"
	broker, ns := config.NewBrokerSet(), config.NewNamesrvSet()
	load(t, broker, s.props)
	load(t, ns, map[string]string{"kvConfigPath": s.dir + "/namesrv/kvConfig.json",
		"configStorePath": s.dir + "/namesrv/namesrv.properties"})
	log := slog.New(slog.DiscardHandler)
	if s.log {
		log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	sys, err := standalone.Start(standalone.Options{Namesrv: ns, Broker: broker, NamesrvListen: []string{"127.0.0.1:0"},
		BrokerListen: []string{"127.0.0.1:0"}, NewEngine: engines.ByName(broker.Own().Reactor, log), Log: log})
	if err != nil {
		t.Fatalf("skylarktest: %v", err)
	}
	out := &System{sys: sys}
	t.Cleanup(func() { out.stop(t) })
	return out
}

func load(t testing.TB, set *config.Set, props map[string]string) {
	t.Helper()
	var text strings.Builder
	for k, v := range props {
		fmt.Fprintf(&text, "%s=%s\n", k, v)
	}
	f, err := config.Parse(text.String(), "skylarktest")
	if err != nil {
		t.Fatalf("skylarktest: %v", err)
	}
	warnings, err := set.Load(f)
	if err != nil {
		t.Fatalf("skylarktest: %v", err)
	}
	for _, w := range warnings {
		t.Fatalf("skylarktest: %s", w)
	}
}

// NamesrvAddr is host:port of the name server.
func (s *System) NamesrvAddr() string { return s.sys.NamesrvAddr() }

// BrokerAddr is host:port of the broker.
func (s *System) BrokerAddr() string { return s.sys.BrokerAddr() }

// Stop stops the system before the test's end, e.g. to start another on the same directory.
func (s *System) Stop(t testing.TB) {
	t.Helper()
	s.stop(t)
}

func (s *System) stop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.sys.Close(ctx); err != nil {
		t.Errorf("skylarktest: stop: %v", err)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
