package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"skylark/bench"
	"skylark/client"
	"skylark/codec"
)

// reachTimeout bounds the first questions to a broker.
const reachTimeout = 5 * time.Second

// target is a broker under measurement.
type target struct {
	name, addr string
	pid        int    // 0: not known
	replicas   []int  // processes of its slaves
	version    string // as it says itself
	flush      string // flushDiskType, with the role and what else changes what an answer means; "" if it does not tell
	logDir     string // of its commit log; "" if it does not tell
	settings   []string
	started    *process // nil: it was there before

	filled map[string]bool // topics that workloads have filled
}

// findTargets starts what is to be started and asks every broker what it is.
func findTargets(ctx context.Context, o *Options) (all []*target, err error) {
	for _, t := range o.Targets {
		one := &target{name: t.Name, addr: t.Addr, pid: t.PID, replicas: t.Replicas, settings: t.Settings,
			filled: map[string]bool{}}
		switch {
		case t.toStart():
			if one.started, err = startBroker(ctx, &t, o.Profile); err != nil {
				return all, fmt.Errorf("suite: %s: %w", t.Name, err)
			}
			one.addr, one.pid = one.started.addr, one.started.pid()
		case one.pid == 0:
			one.pid = listenerPID(t.Addr)
		}
		all = append(all, one)
	}
	for _, t := range all {
		if err := t.describe(ctx); err != nil {
			return all, fmt.Errorf("suite: %s at %s: %w", t.name, t.addr, err)
		}
	}
	return all, nil
}

func closeTargets(all []*target) (err error) {
	for _, t := range all {
		if t.started != nil {
			if e := t.started.stop(); e != nil {
				err = errors.Join(err, fmt.Errorf("suite: %s: %w", t.name, e))
			}
		}
	}
	return err
}

// describe asks for version and configuration.
func (t *target) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	c := client.New(client.Options{})
	defer c.Close() // nothing is under way
	info, err := c.RuntimeInfo(ctx, t.addr)
	if err != nil {
		return err
	}
	t.version = info["brokerVersionDesc"]
	conf := properties(strings.Join(t.settings, "\n")) // of one that does not tell
	answer, err := c.Call(ctx, t.addr, codec.NewRequest(codec.ReqGetBrokerConfig))
	if err == nil && answer.Code == codec.RespSuccess {
		conf = properties(string(answer.Body))
	}
	t.flush = conf["flushDiskType"]
	if role := conf["brokerRole"]; role != "" && t.flush != "" {
		t.flush += ", " + role
		if n := conf["inSyncReplicas"]; role == "SYNC_MASTER" && n != "" {
			t.flush += ", inSyncReplicas=" + n
		}
	}
	if conf["transientStorePoolEnable"] == "true" {
		t.flush += ", transientStorePool"
	}
	if !t.local() {
		return nil
	}
	if t.logDir = conf["storePathCommitLog"]; t.logDir == "" && conf["storePathRootDir"] != "" {
		t.logDir = filepath.Join(conf["storePathRootDir"], "commitlog")
	}
	return nil
}

// replicaCPU is the CPU time of the slaves so far; false: there are none, or nobody can tell.
func (t *target) replicaCPU() (sum time.Duration, ok bool) {
	for _, pid := range t.replicas {
		cpu, err := bench.ProcessCPU(pid)
		if err != nil {
			return 0, false
		}
		sum += cpu
	}
	return sum, len(t.replicas) > 0
}

// properties reads lines key=value, which is all of the format that a broker's answer uses.
func properties(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[strings.TrimSpace(key)] = strings.TrimSpace(v)
		}
	}
	return out
}

// local tells that the broker is on this machine.
func (t *target) local() bool {
	host, _, err := net.SplitHostPort(t.addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.String() == ip.String() {
			return true
		}
	}
	return false
}

// evicted is what of a commit log is out of memory.
type evicted struct{ bytes, resident int64 }

func (e *evicted) percent() float64 {
	if e.bytes == 0 {
		return 0
	}
	return 100 * float64(e.bytes-e.resident) / float64(e.bytes)
}

// evict pushes the pages of the target's commit log out of memory, as far as the system does it. A nil result without
// error: the broker does not tell where its files are, or they are on another machine.
func (t *target) evict() (*evicted, error) {
	dir := t.logDir
	if t.started != nil {
		dir = filepath.Join(t.started.dir, "store", "commitlog")
	}
	if dir == "" {
		return nil, errors.New("the broker does not tell where its files are, or is on another machine")
	}
	return evictDir(dir, t.pid)
}
