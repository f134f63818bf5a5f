package reactortest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/reactor"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// Harness is an engine under test.
type Harness struct {
	// New makes an engine; Options.Listen has one address.
	New func(o reactor.Options) reactor.Engine
	// Dial connects to a started engine; nil dials TCP.
	Dial func(e reactor.Engine) (net.Conn, error)
	// Sockets tells that connections are sockets: descriptors and TLS are tested too.
	Sockets bool
	// StopsReading tells that the engine does not read from a paused connection, so that nothing is held.
	StopsReading bool
}

// Main is the TestMain of an engine's package: it is the child process of a test, or runs the tests and looks
// for goroutines left behind.
func Main(m *testing.M, h Harness) {
	if mode := os.Getenv(childEnv); mode != "" {
		os.Exit(child(mode, h))
	}
	goleak.VerifyTestMain(m)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	suite := []struct {
		name    string
		sockets bool
		test    func(*testing.T, Harness)
	}{
		{"ManyFramesInOneRead", false, testManyFramesInOneRead},
		{"FramesCutAnywhere", false, testFramesCutAnywhere},
		{"BigFrames", false, testBigFrames},
		{"Pipelining", false, testPipelining},
		{"SentIsTold", false, testSentIsTold},
		{"OtherGoroutines", false, testOtherGoroutines},
		{"Addresses", false, testAddresses},
		{"Context", false, testContext},
		{"RefusedByHandler", false, testRefusedByHandler},
		{"LastWords", false, testLastWords},
		{"CloseFromElsewhere", false, testCloseFromElsewhere},
		{"PeerCloses", false, testPeerCloses},
		{"Panic", false, testPanic},

		{"MappedRanges", false, testMappedRanges},
		{"MappedToSlowReader", false, testMappedToSlowReader},
		{"MappedToVanishedReader", false, testMappedToVanishedReader},
		{"MappedToClosed", false, testMappedToClosed},
		{"HeapIsCopied", false, testHeapIsCopied},
		{"SlowReaderIsPaused", false, testSlowReaderIsPaused},
		{"SlowReaderIsClosed", false, testSlowReaderIsClosed},
		{"SlowReaderKeepsSending", false, testSlowReaderKeepsSending},
		{"PendingLimit", false, testPendingLimit},
		{"ManyWriters", false, testManyWriters},

		{"MaxConnections", false, testMaxConnections},
		{"Idle", false, testIdle},
		{"Malformed", false, testMalformed},
		{"StopAccepting", false, testStopAccepting},
		{"Stop", false, testStop},
		{"StopIsBounded", false, testStopIsBounded},

		{"AddressInUse", true, testAddressInUse},
		{"InvalidOptions", false, testInvalidOptions},
		{"TLS", true, testTLS},
		{"TLSDisabled", false, testTLSDisabled},
		{"TLSRequired", true, testTLSRequired},
		{"NoDescriptors", true, testNoDescriptors},
		{"ConnectCycles", true, testConnectCycles},
		{"IdleCPU", true, testIdleCPU},
	}
	for _, s := range suite {
		if s.sockets && !h.Sockets {
			continue
		}
		t.Run(s.name, func(t *testing.T) { s.test(t, h) })
	}
}

// rig is a started engine with the suite's handler.
type rig struct {
	t      *testing.T
	h      Harness
	engine reactor.Engine
	server *server
	log    *logBuffer
}

// start starts an engine; the end of the test stops it and checks that nothing is left.
func start(t *testing.T, h Harness, o reactor.Options) *rig {
	t.Helper()
	r := &rig{t: t, h: h, server: newServer(), log: &logBuffer{}}
	o.Listen = []string{"127.0.0.1:0"}
	o.Loops = 2
	o.Log = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.engine = h.New(o)
	require.NoError(t, r.engine.Start(r.server))
	t.Cleanup(func() {
		r.stop()
		r.server.finalCheck(t)
		if t.Failed() {
			t.Logf("engine's log:\n%s", r.log.tail())
		}
	})
	return r
}

func (r *rig) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(r.t, r.engine.Stop(ctx))
	require.Zero(r.t, r.engine.Connections())
}

// dial connects a client; the end of the test closes it.
func (r *rig) dial() *client {
	r.t.Helper()
	nc, err := dialEngine(r.h, r.engine)
	require.NoError(r.t, err)
	return r.client(nc)
}

func (r *rig) client(nc net.Conn) *client {
	r.t.Cleanup(func() { _ = nc.Close() })
	return &client{t: r.t, nc: nc}
}

func dialEngine(h Harness, e reactor.Engine) (net.Conn, error) {
	if h.Dial != nil {
		return h.Dial(e)
	}
	return net.DialTimeout("tcp", e.Addrs()[0].String(), patience)
}

// closed waits for the next OnClose and returns its reason.
func (r *rig) closed() error {
	r.t.Helper()
	return receive(r.t, r.server.closes, "OnClose").reason
}

// receive waits for a value with patience.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came", what)
	}
	panic("unreachable")
}

// eventually waits until cond holds.
func eventually(t *testing.T, cond func() bool, what string) {
	t.Helper()
	require.Eventually(t, cond, patience, time.Millisecond, what)
}

// logBuffer is what the engine logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.b.Bytes(), []byte(s))
}

func (l *logBuffer) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.b.Bytes()
	return string(b[max(0, len(b)-4000):])
}
