package ha

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// BenchmarkCatchUp copies a log of 256 MiB over loopback to a slave that has the first file's beginning only, both on the
// disk of the test's directory.
func BenchmarkCatchUp(b *testing.B) {
	const total = 256 << 20
	live := &Live{HeartbeatInterval: 5 * time.Second, HousekeepingInterval: 20 * time.Second, TransferBatchBytes: 32 << 10,
		MaxGapNotInSync: 1 << 30, SlaveTimeout: time.Second}
	open := func(dir string) *store.MessageStore {
		o := store.DefaultOptions(dir)
		o.FS, o.Log, o.MappedFileSizeCommitLog = vfs.OS, quietLog, 1<<30
		o.MaxHashSlotNum, o.MaxIndexNum = 100_000, 400_000
		s, err := store.Open(o)
		require.NoError(b, err)
		return s
	}
	m := open(b.TempDir())
	require.NoError(b, m.Start())
	body := make([]byte, 1024)
	for m.MaxPhyOffset() < total {
		put := m.Append(&codec.Message{Topic: "T", QueueID: 1, Body: body})
		require.Equal(b, store.PutOK, put.Status, "%v", put.Err)
	}
	h := NewHAService(Options{Log: m, Clock: clock.System, Slog: quietLog, Live: func() *Live { return live }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	h.Start(l)
	b.SetBytes(int64(m.MaxPhyOffset()))
	for b.Loop() {
		b.StopTimer()
		s := open(b.TempDir())
		s.Follow()
		all, once := make(chan struct{}), sync.Once{}
		s.WatchLog(func() {
			if s.MaxPhyOffset() >= m.MaxPhyOffset() {
				once.Do(func() { close(all) })
			}
		})
		require.NoError(b, s.Start())
		c := NewHAClient(ClientOptions{Log: s, Clock: clock.System, Slog: quietLog, Live: func() *Live { return live },
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", addr)
			}})
		c.SetMaster(l.Addr().String())
		b.StartTimer()
		c.Start()
		<-all
		b.StopTimer()
		c.Close()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
	require.NoError(b, h.Close())
	require.NoError(b, m.Close())
}
