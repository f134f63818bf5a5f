package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// disk is a file system whose flushes of the log can be held up, or fail.
type disk struct {
	*errorfs.FS
	mem   *vfs.MemFS
	hold  atomic.Pointer[chan struct{}] // closed to let go
	fails atomic.Bool
}

func newDisk(kinds string) *disk {
	d := &disk{mem: vfs.NewMem()}
	hook := errorfs.WithHook("hook", func(errorfs.Op) error {
		if c := d.hold.Load(); c != nil {
			<-*c
		}
		if d.fails.Load() {
			return errors.New("the disk is broken")
		}
		return nil
	})
	d.FS = errorfs.Wrap(d.mem, errorfs.MustParse(`(`+kinds+` "*/commitlog/*" call hook)`, hook))
	return d
}

// stall holds up what comes from now on until release, at the latest until the test ends.
func (d *disk) stall(t testing.TB) (release func()) {
	c := make(chan struct{})
	d.hold.Store(&c)
	release = sync.OnceFunc(func() { d.hold.Store(nil); close(c) })
	t.Cleanup(release)
	return release
}

// Under SYNC_FLUSH nothing is answered before it is on the disk, and all that waits leaves with one flush.
func TestAnswersWaitForTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\n"})
		b.createGroup("G", nil)
		first := offsetOf(t, b.mustSend("T", 0, "", "first"))
		release := d.stall(t)
		var answers []<-chan *codec.Command
		for i := range 20 {
			answers = append(answers, b.begin(sendRequest("T", 0, "", []byte(fmt.Sprint(i)))))
		}
		synctest.Wait()
		other := b.dial()
		answers = append(answers, other.begin(batchRequest("T", "", batchEntry(t, "batch", ""))),
			other.begin(request(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: first,
				Group: "G", DelayLevel: 1}, nil)))
		time.Sleep(4 * time.Second)
		for _, ch := range answers {
			require.Empty(t, ch, "answered before the flush")
		}
		// Who does not want to wait gets his answer.
		require.Equal(t, codec.RespSuccess, other.send("T", 0, "WAIT\x01false", []byte("no wait")).Code)
		release()
		for i, ch := range answers {
			answer := await(t, ch)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			if i < 20 {
				require.Equal(t, fmt.Sprint(i+1), answer.Get("queueOffset"))
			}
		}
		// The power goes: all that was answered is there.
		s := b.s
		s.fs = d.mem.CrashClone(1)
		b = start(t, s)
		b.waitQueue("T", 0, 22)
		require.GreaterOrEqual(t, len(b.all("T", 0)), 22)
	})
}

// A disk that hangs is told after syncFlushTimeout: 10, with the place of the message, which is stored all
// the same.
func TestFlushTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\nsyncFlushTimeout=3000\n"})
		b.createGroup("G", nil)
		at := offsetOf(t, b.mustSend("T", 0, "", "first"))
		release := d.stall(t)
		began := time.Now()
		sent := b.begin(sendRequest("T", 0, "", []byte("second")))
		back := b.begin(request(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: at,
			Group: "G", DelayLevel: 1}, nil))
		answer := await(t, sent)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.1)
		require.Equal(t, codec.RespFlushDiskTimeout, answer.Code)
		require.Equal(t, "1", answer.Get("queueOffset"), "clients read the answer as a send result")
		require.NotEmpty(t, answer.Get("msgId"))
		answer = await(t, back)
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "FLUSH_DISK_TIMEOUT", answer.Remark)
		release()
		require.Equal(t, codec.RespSuccess, b.send("T", 0, "", []byte("third")).Code)
		b.waitQueue("T", 0, 3)
	})
}

// A flush that failed refuses what waited and all that comes, with the reason; reading goes on.
func TestFlushFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\n"})
		b.mustSend("T", 0, "", "first")
		b.waitQueue("T", 0, 1)
		d.fails.Store(true)
		for range 2 {
			answer := b.send("T", 0, "", []byte("lost"))
			require.Equal(t, codec.RespServiceNotAvailable, answer.Code)
			require.Contains(t, answer.Remark, "service not available now.")
			require.Contains(t, answer.Remark, "the disk is broken", "the reason is there")
		}
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
		require.Equal(t, "first", bodies(t, answer)[0])
	})
}

// A full disk answers 14, so that clients try another broker, and the broker recovers when there is room.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		b := start(t, setup{fs: fsys, virtual: true, conf: "serverChannelMaxIdleTimeSeconds=100000\n" +
			"mappedFileSizeCommitLog=65536\n"})
		b.mustSend("T", 0, "", "first")
		synctest.Wait()
		fsys.SetLimit(fsys.UsedBytes()) // no further file
		refused := 0
		for range 40 {
			answer := b.send("T", 0, "", []byte(strings.Repeat("x", 8<<10)))
			if answer.Code != codec.RespSuccess {
				require.Equal(t, codec.RespServiceNotAvailable, answer.Code, answer.Remark)
				require.Contains(t, answer.Remark, "the broker's disk is full")
				refused++
			}
		}
		require.Positive(t, refused)
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
		fsys.SetLimit(0)
		time.Sleep(time.Second)
		b.mustSend("T", 0, "", strings.Repeat("x", 8<<10))
		b.waitQueue("T", 0, 42-refused)

		// The other kind: the ratio of the file system is over the limit.
		u := vfs.NewDiskUsage(100<<30, 1<<30, 1<<30)
		fsys.SetUsage(&u)
		time.Sleep(30 * time.Second)
		answer = b.send("T", 0, "", []byte("m"))
		require.Equal(t, codec.RespServiceNotAvailable, answer.Code)
		require.Contains(t, answer.Remark, "disk is full")
		fsys.SetUsage(nil)
		time.Sleep(time.Minute)
		b.mustSend("T", 0, "", "m")
	})
}

// While a put hangs in a page fault, sends are refused at once: those that come and those that wait in the
// pool.
func TestPageCacheBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		d := newDisk("create|allocate")
		b := start(t, setup{fs: d, virtual: true,
			conf: "mappedFileSizeCommitLog=65536\nsendMessageThreadPoolNums=1\n" +
				"waitTimeMillsInSendQueue=100000\n", prepare: func(b *Broker) { b.busy = busy.Load }})
		b.mustSend("T", 0, "", "first")
		b.waitQueue("T", 0, 1)
		busy.Store(true)
		answer := b.send("T", 0, "", []byte("m"))
		require.Equal(t, codec.RespSystemBusy, answer.Code)
		require.Equal(t, "[REJECTREQUEST]system busy, start flow control for a while", answer.Remark)
		answer, _ = b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code, "nobody else is concerned")
		busy.Store(false)

		waits := b.stallPool(d)
		busy.Store(true)
		for _, ch := range waits[1:] {
			answer := await(t, ch)
			require.Equal(t, codec.RespSystemBusy, answer.Code)
			require.Contains(t, answer.Remark, "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while")
		}
		busy.Store(false)
	})
}

// stallPool fills the log so that the only worker waits for the next file, and more sends wait behind it;
// answers[0] is the one under way.
func (b *testBroker) stallPool(d *disk) (answers []<-chan *codec.Command) {
	b.t.Helper()
	d.stall(b.t)
	big := []byte(strings.Repeat("x", 8<<10))
	for {
		ch := b.begin(sendRequest("T", 0, "", big))
		synctest.Wait()
		if len(ch) == 0 {
			answers = append(answers, ch)
			break
		}
		require.Equal(b.t, codec.RespSuccess, (<-ch).Code)
	}
	for range 10 {
		answers = append(answers, b.dial().begin(sendRequest("T", 0, "", big)))
	}
	synctest.Wait()
	require.Equal(b.t, 10, b.pools.send.Size())
	return answers
}

// A send that waits longer than waitTimeMillsInSendQueue is refused with what the workers do.
func TestFastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("create|allocate")
		b := start(t, setup{fs: d, virtual: true,
			conf: "mappedFileSizeCommitLog=65536\nsendMessageThreadPoolNums=1\n"})
		b.mustSend("T", 0, "", "first")
		began := time.Now()
		waits := b.stallPool(d)
		for _, ch := range waits[1:] {
			answer := await(t, ch)
			require.Equal(t, codec.RespSystemBusy, answer.Code)
			require.Contains(t, answer.Remark,
				"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue:")
			require.Contains(t, answer.Remark, "size of queue:")
		}
		require.InDelta(t, 200, time.Since(began).Milliseconds(), 30)
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
		answer = await(t, waits[0])
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "create mapped file failed, server is busy or broken.")
	})
}
