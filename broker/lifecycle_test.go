package broker

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/config"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/gnet"
)

// A stop answers what is parked and what waits for the disk, tells new clients to go away, and loses nothing.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("msync")
		b := start(t, setup{fs: d, virtual: true, conf: "flushDiskType=SYNC_FLUSH\n"})
		b.mustSend("T", 0, "", "first")
		synctest.Wait() // until the queue has it: the pull below starts behind it
		c := b.dial()
		c.serve = func(req *codec.Command) *codec.Command {
			if req.IsOneway() {
				return nil
			}
			time.Sleep(time.Second)
			answer := codec.NewResponse(req, codec.RespSuccess, "")
			answer.Body = []byte("running")
			return answer
		}
		c.beat("c1", consumer(t, "G", 1, "T *"))
		parked := b.begin(pullRequest("g", "T", 0, 1, maxSuspend))
		info := b.begin(request(codec.ReqGetConsumerRunningInfo, &codec.GetConsumerRunningInfoRequestHeader{
			ConsumerGroup: "G", ClientID: "c1"}, nil))
		synctest.Wait()
		release := d.stall(t)
		sent := b.begin(sendRequest("T", 1, "", []byte("in flight")))
		synctest.Wait()
		stopped := make(chan error, 1)
		go func() { stopped <- b.Broker.Close(context.Background()) }()
		synctest.Wait()
		f := func(version, code int) {
			t.Helper()
			req := pullRequest("g", "T", 0, 0, 0)
			req.Version = version
			require.Equal(t, code, b.do(req).Code)
		}
		f(codec.AnnouncedVersion, codec.RespGoAway)
		f(codec.Version531, codec.RespSuccess) // does not know the code
		release()
		require.Equal(t, codec.RespSuccess, await(t, sent).Code)
		require.Equal(t, codec.RespPullNotFound, await(t, parked).Code)
		answer := await(t, info)
		require.Equal(t, "running", string(answer.Body), answer.Remark)
		require.NoError(t, <-stopped)
		_, err := b.net.Dial(context.Background(), b.Addr().String())
		require.Error(t, err)
		require.NoError(t, b.Broker.Close(context.Background()), "twice is once")
		files, mappings := d.mem.Handles()
		require.Zero(t, files)
		require.Zero(t, mappings)

		s := b.s
		s.fs = d.mem.CrashClone(1)
		b = start(t, s)
		require.Len(t, b.all("T", 1), 1)
	})
}

// A stop does not wait for ever: not for a disk that hangs, not for a client that was asked.
func TestStopWithoutPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "")
		c := b.dial() // answers nothing
		c.beat("c1", consumer(t, "G", 1, "T *"))
		info := b.begin(request(codec.ReqGetConsumerRunningInfo, &codec.GetConsumerRunningInfoRequestHeader{
			ConsumerGroup: "G", ClientID: "c1"}, nil))
		synctest.Wait()
		began := time.Now()
		b.stop()
		require.Less(t, time.Since(began), 6*time.Second)
		<-info // an answer or the end of the connection
	})
}

// What New opened is closed without Start, and a start that fails closes everything.
func TestStartFailure(t *testing.T) {
	open := func(listen ...string) (*Broker, *vfs.MemFS) {
		t.Helper()
		fsys := vfs.NewMem()
		set := config.NewBrokerSet()
		f, err := config.Parse(configText(setup{dir: "/data"}), "test.conf")
		require.NoError(t, err)
		_, err = set.Load(f)
		require.NoError(t, err)
		b, err := New(Options{Config: set, FS: fsys, Listen: listen, Log: slog.New(slog.DiscardHandler),
			NewEngine: func(o reactor.Options) reactor.Engine { return gnet.New(o) }})
		require.NoError(t, err)
		return b, fsys
	}
	closed := func(fsys *vfs.MemFS) {
		t.Helper()
		require.Eventually(t, func() bool { // a service may still hold the file it has just made
			files, mappings := fsys.Handles()
			return files+mappings == 0
		}, time.Minute, time.Millisecond)
		l, err := fsys.Lock("/data/lock")
		require.NoError(t, err, "the directory is free again")
		require.NoError(t, l.Close())
	}
	b, fsys := open("127.0.0.1:0")
	require.NoError(t, b.Close(t.Context()))
	closed(fsys)

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, listen := range [][]string{{taken.Addr().String()}, {"127.0.0.1:0", taken.Addr().String()},
		{"no address"}} {
		b, fsys = open(listen...)
		require.Error(t, b.Start())
		closed(fsys)
		require.NoError(t, b.Close(t.Context()))
	}
}

// Addresses that cannot be advertised stop the start, with the key that says so.
func TestBadAdvertisedAddress(t *testing.T) {
	for _, conf := range []string{"brokerIP1=no such host.invalid\n", "brokerIP2=no such host.invalid\n",
		"advertiseAddr=no.such.host.invalid:1\n"} {
		_, err := tryStart(t, setup{fs: vfs.NewMem(), conf: conf})
		require.Error(t, err, conf)
	}
}

// disableConsumeIfConsumerReadSlowly switches off who reads too far back.
func TestProtection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := virtual(t, "disableConsumeIfConsumerReadSlowly=true\nconsumerFallbehindThreshold=100000\n")
		b.mustSend("T", 0, "", "first")
		b.waitQueue("T", 0, 1)
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
		b.do(pullRequest("fast", "T", 0, 0, 0))
		for range 30 {
			b.mustSend("T", 0, "", string(make([]byte, 8<<10)))
		}
		b.waitQueue("T", 0, 31)
		b.do(pullRequest("fast", "T", 0, 31, 0))
		time.Sleep(3*time.Minute + time.Second)
		answer, _ = b.pull("T", 0, 1)
		require.Equal(t, codec.RespNoPermission, answer.Code)
		require.Equal(t, codec.RespPullNotFound, b.do(pullRequest("fast", "T", 0, 31, 0)).Code)
		require.Contains(t, b.log.String(), "group reads too far back")
	})
}
