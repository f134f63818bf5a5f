package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
)

// rounds of load, kill and restart; the killed directory is used again each time.
const rounds = 4

// The load of one round.
const (
	topicName = "crash"
	queues    = 4
	producers = 8
	minAcked  = 300 // before the kill
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skylark-crash-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "skylark")
	build := exec.Command("go", "build", "-o", binary, "skylark/cmd/skylark")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is one life of the broker.
type process struct {
	cmd  *exec.Cmd
	addr string
	log  string
}

// pool makes the broker write through a transient store pool that is often empty.
const pool = "transientStorePoolEnable=true\ntransientStorePoolSize=2\n"

func start(t *testing.T, dir string, life int, more string) *process {
	t.Helper()
	port := freePort(t)
	conf := filepath.Join(dir, "broker.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "brokerName=b\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n"+
		"listenPort=%d\nstorePathRootDir=%s/store\nmappedFileSizeCommitLog=1048576\n"+
		"mappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\ndiskMaxUsedSpaceRatio=95\n%s", port, dir, more),
		0o644))
	p := &process{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), log: filepath.Join(dir, fmt.Sprint("log.", life))}
	out, err := os.Create(p.log)
	require.NoError(t, err)
	defer out.Close()
	p.cmd = exec.Command(binary, "broker", "-c", conf)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 20*time.Second, 5*time.Millisecond, "the broker does not listen, see %s", p.log)
	return p
}

// freePort is a port that is free with the two that a broker takes beside it, for clients of old and for slaves. It lies
// below the range from which the kernel takes ports for connections, where somebody else may have it a moment later.
func freePort(t *testing.T) int {
	free := func(port int) bool {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		return err == nil && l.Close() == nil
	}
	for range 100 {
		if port := 20000 + rand.IntN(12000); free(port-2) && free(port) && free(port+1) {
			return port
		}
	}
	t.Fatal("no three free ports")
	return 0
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	}
}

func (p *process) stop(t *testing.T) {
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), "a clean stop, see %s", p.log)
}

// acked are the bodies that were acknowledged, with their queue and offset.
type acked struct {
	mu   sync.Mutex
	at   map[string]place
	cond *sync.Cond
}

type place struct {
	queueID int32
	offset  codec.QueueOffset
}

func send(life, producer, i int) *codec.Command {
	req := codec.NewRequest(codec.ReqSendMessageV2)
	h := codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte(topicName),
		DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: queues, QueueID: int32(i % queues)}
	h.Encode(req)
	req.Body = append(fmt.Appendf(nil, "%d/%d/%d ", life, producer, i), make([]byte, rand.IntN(3000))...)
	return req
}

// load sends until the broker dies.
func load(t *testing.T, p *process, life int, a *acked) {
	var wg sync.WaitGroup
	for n := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
			if err != nil {
				return // killed already
			}
			defer c.Close()
			for i := 0; ; i++ {
				req := send(life, n, i)
				answer, err := c.Call(context.Background(), req)
				if err != nil {
					return
				}
				var h codec.SendMessageResponseHeader
				if answer.Code != codec.RespSuccess || codec.DecodeHeader(answer, &h) != nil {
					t.Errorf("send: %v", answer)
					return
				}
				a.mu.Lock()
				a.at[string(req.Body)] = place{h.QueueID, h.QueueOffset}
				a.cond.Broadcast()
				a.mu.Unlock()
			}
		}()
	}
	a.mu.Lock()
	for before := len(a.at); len(a.at) < before+minAcked; {
		a.cond.Wait()
	}
	a.mu.Unlock()
	p.kill()
	wg.Wait()
}

// readAll pulls every queue from its begin and checks that offsets have no gaps.
func readAll(t *testing.T, p *process) map[string]place {
	t.Helper()
	c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	out := map[string]place{}
	for q := range int32(queues) {
		at := codec.QueueOffset(0)
		for {
			req := codec.NewRequest(codec.ReqPullMessage)
			h := codec.PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte(topicName), QueueID: q, QueueOffset: at,
				MaxMsgNums: 32, SysFlag: codec.PullFlagSubscription, Subscription: []byte("*"),
				RequestSource: codec.RequestSourceSDK}
			h.Encode(req)
			answer, err := c.Call(context.Background(), req)
			require.NoError(t, err)
			if answer.Code == codec.RespPullNotFound {
				break
			}
			require.Equal(t, codec.RespSuccess, answer.Code, "%v", answer)
			for rest := answer.Body; len(rest) > 0; {
				rec, err := codec.ParseRecord(rest, true)
				require.NoError(t, err)
				require.Equal(t, at, rec.QueueOffset, "a gap or a double in queue %d", q)
				out[string(rec.Body)] = place{q, at}
				at++
				rest = rest[rec.TotalSize:]
			}
		}
	}
	return out
}

func TestKillUnderSyncFlushLosesNothingAcknowledged(t *testing.T) {
	f := func(name, conf string) {
		t.Run(name, func(t *testing.T) { killRounds(t, "flushDiskType=SYNC_FLUSH\n"+conf, true) })
	}
	f("mapped", "")
	f("pool", pool)
	f("warm", "warmMapedFileEnable=true\n")
}

// TestKillUnderAsyncFlush: a process that is killed loses at most what was not committed from the write buffers yet; what
// is left is a log without gaps, and it goes on from there.
func TestKillUnderAsyncFlush(t *testing.T) { killRounds(t, pool, false) }

// killRounds loads, kills and restarts, and looks at what is left. Without buffers, or with SYNC_FLUSH, keeps is true: all
// that was acknowledged has to be there.
func killRounds(t *testing.T, conf string, keeps bool) {
	dir := t.TempDir()
	a := &acked{at: map[string]place{}}
	a.cond = sync.NewCond(&a.mu)
	for life := range rounds {
		p := start(t, dir, life, conf)
		load(t, p, life, a)
	}
	p := start(t, dir, rounds, conf)
	found := readAll(t, p)
	lost := 0
	for body, want := range a.at {
		got, ok := found[body]
		if !ok && !keeps {
			lost++
			continue
		}
		require.True(t, ok, "acknowledged and lost: %q", body[:min(len(body), 20)])
		require.Equal(t, want, got, "moved: %q", body[:min(len(body), 20)])
	}
	require.Greater(t, len(found), minAcked)
	t.Logf("%d acknowledged, %d stored, %d lost", len(a.at), len(found), lost)
	p.stop(t)
	p = start(t, dir, rounds+1, conf)
	require.Equal(t, found, readAll(t, p), "the same after a clean stop")
	p.stop(t)
}
