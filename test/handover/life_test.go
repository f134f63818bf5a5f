//go:build interop

package handover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

// The brokers a life can be of.
const (
	skylark = "skylark"
	java53  = javaoracle.Version53
)

const callTimeout = 20 * time.Second

// brokerProperties configure all brokers alike. The files are small, so that everything rolls; nothing is deleted by
// age, no transaction is checked, and offsets are written soon, which shortens the test.
var brokerProperties = map[string]string{
	"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "6000",
	"maxHashSlotNum": "100", "maxIndexNum": "400", "mappedFileSizeTimerLog": "1048576", "timerRollWindowSlot": "9",
	"deleteWhen": "04", "fileReservedTime": "2400", "diskMaxUsedSpaceRatio": "95",
	"transactionTimeOut": "6000000", "transactionCheckInterval": "6000000",
	"flushDelayOffsetInterval": "500", "flushConsumerOffsetInterval": "500",
	"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "0", "brokerRole": "ASYNC_MASTER",
	"autoCreateTopicEnable": "true", "autoCreateSubscriptionGroup": "true", "brokerFastFailureEnable": "false",
	"traceTopicEnable": "true", "enablePropertyFilter": "true",
}

// javaStarts lets two Java brokers start at a time: that takes all of two cores, and each has a minute.
var javaStarts = make(chan struct{}, 2)

// directory is a store that is handed over.
type directory struct {
	root  string // conf, home, logs and store are below it
	port  int    // of its brokers
	props map[string]string
	lives int
}

// newDirectory makes an empty one. Directories with different slots can have brokers at the same time.
func newDirectory(t *testing.T, slot int) *directory {
	return &directory{root: rig.Scratch(t, *flagKeep), port: *flagPort + 10*(slot+1), props: maps.Clone(brokerProperties)}
}

func (d *directory) store(elem ...string) string {
	return filepath.Join(append([]string{d.root, "store"}, elem...)...)
}

// copyStore makes a directory with a copy of the store.
func (d *directory) copyStore(t *testing.T, name string) *directory {
	to := &directory{root: filepath.Join(d.root, "copies", name), port: d.port, props: maps.Clone(d.props)}
	require.NoError(t, os.MkdirAll(to.root, 0o755))
	out, err := exec.CommandContext(t.Context(), "cp", "-a", "--sparse=always", d.store(), to.store()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return to
}

// life is one broker that runs on a directory.
type life struct {
	dir    *directory
	kind   string
	number int // from 1 on, within the directory
	addr   string
	client *client.Client
	ctx    context.Context

	end       func(kill bool) error
	logs      []logFile
	afterKill bool   // what it found was killed
	expected  string // part of a complaint that belongs to the scenario
}

func (l *life) java() bool { return l.kind != skylark }

func (l *life) String() string { return fmt.Sprintf("life %d (%s)", l.number, l.kind) }

// start begins a life and waits until the broker listens.
func (d *directory) start(t *testing.T, kind string) *life {
	t.Helper()
	d.lives++
	l := &life{dir: d, kind: kind, number: d.lives, addr: rig.Local(d.port), ctx: context.Background()}
	if l.java() {
		l.startJava(t)
	} else {
		l.startSkylark(t)
	}
	l.client = client.New(client.Options{CallTimeout: callTimeout})
	t.Cleanup(func() { l.finish(true) }) // when the test ends early
	return l
}

func (l *life) startJava(t *testing.T) {
	home := filepath.Join(l.dir.root, "home", "logs", "rocketmqlogs")
	for _, name := range []string{"store.log", "broker.log", "storeerror.log"} {
		l.logs = append(l.logs, openLog(filepath.Join(home, name)))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(l.dir.root, "conf"), 0o755))
	logback := filepath.Join(l.dir.root, "conf", "logback_broker.xml")
	require.NoError(t, os.WriteFile(logback, []byte(logback49), 0o644))
	javaStarts <- struct{}{}
	defer func() { <-javaStarts }()
	s := javaoracle.Server{Version: l.kind, CacheDir: rig.WorkDir(t), Dir: l.dir.root, Namesrv: namesrvAddr(),
		BrokerPort: l.dir.port, Properties: l.dir.props, HeapMiB: 256}
	p, err := s.StartBroker(t.Context())
	require.NoError(t, err)
	l.end = func(kill bool) error {
		if kill {
			return p.Kill()
		}
		return p.Stop()
	}
}

// skylarkConf writes the configuration of a Skylark that listens on a port.
func (d *directory) skylarkConf(t *testing.T, port int) string {
	props := maps.Clone(d.props)
	maps.Copy(props, map[string]string{"brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "bindAddress": "127.0.0.1",
		"listenPort": strconv.Itoa(port), "haListenPort": strconv.Itoa(port + 1),
		"storePathRootDir": d.store(), "storePathCommitLog": d.store("commitlog")})
	if name := os.Getenv("REACTOR"); name != "" {
		props["reactor"] = name
	}
	conf := filepath.Join(d.root, fmt.Sprintf("skylark-%d.conf", port))
	require.NoError(t, os.WriteFile(conf, rig.Properties(props), 0o644))
	return conf
}

// requireInUse checks that a second broker, Skylark, refuses the directory of one that runs.
func (d *directory) requireInUse(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), rig.Binary(t), "broker", "-c", d.skylarkConf(t, d.port+5)).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "directory is used by another broker")
}

func (l *life) startSkylark(t *testing.T) {
	conf := l.dir.skylarkConf(t, l.dir.port)
	log := filepath.Join(l.dir.root, fmt.Sprintf("skylark-%d.log", l.number))
	p := startProcess(t, log, l.addr, "broker", "-n", namesrvAddr(), "-c", conf)
	l.logs = []logFile{openLog(log)}
	l.logs[0].from = 0
	l.end = func(kill bool) error {
		if kill {
			return p.Kill()
		}
		return p.Stop()
	}
}

// finish ends the life once.
func (l *life) finish(kill bool) error {
	if l.end == nil {
		return nil
	}
	end := l.end
	l.end = nil
	err := end(kill)
	l.client.Close()
	return err
}

// stop ends the broker in order.
func (l *life) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, l.finish(false), "%s: clean stop", l)
}

// kill ends it as kill -9 does.
func (l *life) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, l.finish(true), "%s: kill", l)
}

// startProcess starts the binary and waits until it listens on addr.
func startProcess(t *testing.T, log, addr string, args ...string) *rig.Process {
	t.Helper()
	p, err := rig.Start(log, rig.Binary(t), args...)
	require.NoError(t, err)
	if err := p.AwaitPort(addr); err != nil {
		require.NoError(t, errors.Join(err, p.Kill()))
	}
	return p
}
