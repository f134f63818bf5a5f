package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/reactor/gnet"
)

// watchedEngine keeps the connections of its handler.
type watchedEngine struct {
	reactor.Engine
	reactor.Handler
	conns sync.Map // reactor.Conn -> nil
}

func (e *watchedEngine) Start(h reactor.Handler) error {
	e.Handler = h
	return e.Engine.Start(e)
}

func (e *watchedEngine) OnOpen(c reactor.Conn) error {
	e.conns.Store(c, nil)
	return e.Handler.OnOpen(c)
}

func (e *watchedEngine) OnClose(c reactor.Conn, reason error) {
	e.conns.Delete(c)
	e.Handler.OnClose(c, reason)
}

// pendingBytes is what waits for sockets.
func (e *watchedEngine) pendingBytes() (sum int) {
	e.conns.Range(func(c, _ any) bool {
		sum += c.(reactor.Conn).PendingBytes()
		return true
	})
	return sum
}

// startWatched is a broker with big answers and small sockets.
func startWatched(t *testing.T, conf string) (*testBroker, *watchedEngine) {
	t.Helper()
	e := &watchedEngine{}
	b := start(t, setup{conf: conf + "maxMessageSize=4194304\nmaxTransferBytesOnMessageInMemory=134217728\n" +
		"serverSocketSndBufSize=65536\n", engine: func(o reactor.Options) reactor.Engine {
		e.Engine = gnet.New(o)
		return e
	}})
	b.createGroup("g", nil)
	return b, e
}

// rawPeer is a connection that reads when the test says so; its socket takes little.
func (b *testBroker) rawPeer() *net.TCPConn {
	b.t.Helper()
	nc, err := net.Dial("tcp", b.Addr().String())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = nc.Close() })
	tc := nc.(*net.TCPConn)
	require.NoError(b.t, tc.SetReadBuffer(32<<10))
	return tc
}

// writeRequest sends a command as one frame.
func writeRequest(t *testing.T, w io.Writer, req *codec.Command) {
	t.Helper()
	_, err := w.Write(req.AppendTo(nil))
	require.NoError(t, err)
}

// readAnswer takes one frame.
func readAnswer(t *testing.T, nc net.Conn) *codec.Command {
	t.Helper()
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(time.Minute)))
	var length [4]byte
	_, err := io.ReadFull(nc, length[:])
	require.NoError(t, err)
	frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(frame, length[:])
	_, err = io.ReadFull(nc, frame[4:])
	require.NoError(t, err)
	f, _, _, err := codec.SplitFrame(frame, 256<<20)
	require.NoError(t, err)
	answer := &codec.Command{}
	require.NoError(t, answer.Decode(f))
	return answer
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Consumers that do not read hold references to files, no memory; the files can be deleted meanwhile, and who reads
// after all gets what was there.
func TestSlowReadersHoldNoMemory(t *testing.T) {
	const readers, messages, size = 6, 32, 1 << 20
	b, e := startWatched(t, "mappedFileSizeCommitLog=8388608\ndeleteCommitLogFilesInterval=1\n")
	for i := range messages {
		b.mustSend("T", 0, "", string(bytes.Repeat([]byte{byte('a' + i%26)}, size)))
	}
	b.waitQueue("T", 0, messages)
	b.mustSend("Other", 0, "", string(make([]byte, 4_000_000))) // the last messages of T are not in the last file
	b.mustSend("Other", 0, "", string(make([]byte, 3<<20)))
	log := path.Join(b.s.dir, "commitlog")

	before := heapBytes()
	conns := make([]*net.TCPConn, readers)
	for i := range conns {
		conns[i] = b.rawPeer()
		writeRequest(t, conns[i], pullRequest("g", "T", 0, 0, 0))
	}
	b.eventually(func() bool { return e.pendingBytes() > readers*(messages-1)*size })
	require.Less(t, int64(heapBytes())-int64(before), int64(2<<20), "%d MiB wait for readers", e.pendingBytes()>>20)

	names, err := vfs.OS.List(log)
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, vfs.OS.Chtimes(path.Join(log, name), time.Now().Add(-100*time.Hour)))
	}
	b.store.DeleteExpiredFiles()
	b.eventually(func() bool {
		left, err := filepath.Glob(filepath.Join(log, "0*"))
		return err == nil && len(left) <= 2 // the last file and the one made ahead
	})
	for _, nc := range conns[1:] {
		require.Len(t, records(t, readAnswer(t, nc).Body), messages)
	}
	require.NoError(t, conns[0].SetLinger(0))
	require.NoError(t, conns[0].Close()) // without reading
	b.eventually(func() bool { return e.pendingBytes() == 0 })
}

// What one connection can hold back is bounded: it is paused after the first answer, and closed when the answers of
// requests that were read together exceed the limit.
func TestSlowReaderIsBounded(t *testing.T) {
	const messages, size = 32, 1 << 20
	b, e := startWatched(t, "mappedFileSizeCommitLog=67108864\n")
	for range messages {
		b.mustSend("T", 0, "", string(make([]byte, size)))
	}
	b.waitQueue("T", 0, messages)
	pull := pullRequest("g", "T", 0, 0, 0)

	one := b.rawPeer()
	writeRequest(t, one, pull)
	b.eventually(func() bool { return e.pendingBytes() > (messages-1)*size })
	for range 100 { // read by the broker, not served
		writeRequest(t, one, pull)
	}
	require.Less(t, e.pendingBytes(), (messages+1)*size)

	many := b.rawPeer()
	var frames []byte
	for range 20 {
		frames = pull.AppendTo(frames)
	}
	_, err := many.Write(frames)
	require.NoError(t, err)
	b.eventually(func() bool { return bytes.Contains([]byte(b.log.String()), []byte("does not read its answers")) })
	b.eventually(func() bool { return e.pendingBytes() < (messages+1)*size })
}
