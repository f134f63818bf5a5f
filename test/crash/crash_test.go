package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/internal/freeport"
	"skylark/test/internal/rig"
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
	if err := rig.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is one life of the broker.
type process struct {
	*rig.Process
	addr string
}

// pool makes the broker write through a transient store pool that is often empty.
const pool = "transientStorePoolEnable=true\ntransientStorePoolSize=2\n"

func start(t *testing.T, dir string, life int, more string) *process {
	t.Helper()
	port, err := freeport.Find(-2, 1)
	require.NoError(t, err)
	conf := filepath.Join(dir, "broker.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "brokerName=b\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n"+
		"listenPort=%d\nstorePathRootDir=%s/store\nmappedFileSizeCommitLog=1048576\n"+
		"mappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\ndiskMaxUsedSpaceRatio=95\n%s", port, dir, more),
		0o644))
	started, err := rig.Start(filepath.Join(dir, fmt.Sprint("log.", life)), binary, "broker", "-c", conf)
	require.NoError(t, err)
	p := &process{started, rig.Local(port)}
	t.Cleanup(p.kill)
	require.NoError(t, p.AwaitPort(p.addr))
	return p
}

func (p *process) kill() { _ = p.Kill() } // it may have ended

func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Stop(), "a clean stop")
}

// dial connects to the broker; an error is that of one that was killed.
func (p *process) dial() (*client.Conn, error) {
	return client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second})
}

// acked are the bodies that were acknowledged, with their queue and offset.
type acked struct {
	mu sync.Mutex
	at map[string]place
}

type place struct {
	queueID int32
	offset  codec.QueueOffset
}

func newAcked() *acked { return &acked{at: map[string]place{}} }

func (a *acked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// sendRequest makes a send; properties are as they are stored.
func sendRequest(group string, queueID int32, properties string, body []byte) *codec.Command {
	req := codec.NewRequest(codec.ReqSendMessageV2)
	h := codec.SendMessageHeader{ProducerGroup: []byte(group), Topic: []byte(topicName),
		DefaultTopic: []byte(codec.AutoCreateTopicKey), DefaultTopicQueueNums: queues, QueueID: queueID,
		BornTimestamp: time.Now().UnixMilli(), Properties: codec.Field{Value: []byte(properties)}}
	h.Encode(req)
	req.Body = body
	return req
}

// send sends one message and notes that it was acknowledged; false: the broker is dead.
func (a *acked) send(t *testing.T, c *client.Conn, req *codec.Command) bool {
	answer, err := c.Call(context.Background(), req)
	if err != nil {
		return false
	}
	var h codec.SendMessageResponseHeader
	if answer.Code != codec.RespSuccess || codec.DecodeHeader(answer, &h) != nil {
		t.Errorf("send: %v", answer)
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[string(req.Body)] = place{h.QueueID, h.QueueOffset}
	return true
}

// loadWith has producers send what request makes. When enough is true the broker is killed, and with it they end.
func (a *acked) loadWith(t *testing.T, p *process, request func(producer, i int) *codec.Command, enough func() bool) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range producers {
		wg.Go(func() {
			c, err := p.dial()
			if err != nil {
				return // killed already
			}
			defer c.Close()
			for i := 0; a.send(t, c, request(n, i)); i++ {
				continue
			}
		})
	}
	require.Eventually(t, enough, time.Minute, 5*time.Millisecond, "enough was sent")
	p.kill()
	wg.Wait()
}

// more tells when minAcked more were acknowledged than now.
func (a *acked) more() (enough func() bool) {
	before := a.count()
	return func() bool { return a.count() >= before+minAcked }
}

func message(life, producer, i int) *codec.Command {
	return sendRequest("pg", int32(i%queues), "",
		append(fmt.Appendf(nil, "%d/%d/%d ", life, producer, i), make([]byte, rand.IntN(3000))...))
}

// load sends until the broker is killed.
func (a *acked) load(t *testing.T, p *process, life int) {
	t.Helper()
	a.loadWith(t, p, func(producer, i int) *codec.Command { return message(life, producer, i) }, a.more())
}

// eachPulled pulls a queue to its end; h says which, from where, and for whom.
func eachPulled(t *testing.T, c *client.Conn, h codec.PullMessageHeader, f func(rec *codec.Record)) {
	t.Helper()
	h.Topic, h.MaxMsgNums, h.RequestSource = []byte(topicName), 32, codec.RequestSourceSDK
	for {
		req := codec.NewRequest(codec.ReqPullMessage)
		h.Encode(req)
		answer, err := c.Call(context.Background(), req)
		require.NoError(t, err)
		if answer.Code == codec.RespPullNotFound {
			return
		}
		require.Contains(t, []int{codec.RespSuccess, codec.RespPullRetryImmediately}, answer.Code, "%v", answer)
		require.NoError(t, client.EachRecord(answer.Body, func(rec *codec.Record) error {
			f(rec)
			return nil
		}))
		var resp codec.PullMessageResponseHeader
		require.NoError(t, codec.DecodeHeader(answer, &resp))
		h.QueueOffset = resp.NextBeginOffset
	}
}

// readAll pulls every queue from its begin and checks that offsets have no gaps.
func readAll(t *testing.T, p *process) map[string]place {
	t.Helper()
	c, err := p.dial()
	require.NoError(t, err)
	defer c.Close()
	out := map[string]place{}
	for q := range int32(queues) {
		at := codec.QueueOffset(0)
		h := codec.PullMessageHeader{ConsumerGroup: []byte("g"), QueueID: q, SysFlag: codec.PullFlagSubscription,
			Subscription: []byte("*")}
		eachPulled(t, c, h, func(rec *codec.Record) {
			require.Equal(t, at, rec.QueueOffset, "a gap or a double in queue %d", q)
			out[string(rec.Body)] = place{q, at}
			at++
		})
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
	a := newAcked()
	for life := range rounds {
		p := start(t, dir, life, conf)
		a.load(t, p, life)
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
