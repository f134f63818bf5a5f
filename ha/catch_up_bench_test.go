//go:build unix

package ha

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// processorTime is what this process has taken.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCatchUp copies a log of 256 MiB over loopback to an empty slave, both on the disk of the test's directory. The
// CPU time is that of both sides, with the slave's queues.
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
	cpu, turns := time.Duration(0), 0
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
		before := processorTime()
		b.StartTimer()
		c.Start()
		<-all
		b.StopTimer()
		for s.DispatchBehindBytes() > 0 {
			<-time.After(time.Millisecond)
		}
		cpu += processorTime() - before
		turns++
		c.Close()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(cpu.Seconds()/float64(turns)/(float64(m.MaxPhyOffset())/1e9), "cpu-s/GB")
	require.NoError(b, h.Close())
	require.NoError(b, m.Close())
}
