package store

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// droppedFS is a MemFS that notes what is taken out of the page table.
type droppedFS struct {
	*vfs.MemFS
	mu      sync.Mutex
	dropped [][2]int64
}

type droppedFile struct {
	vfs.File
	fs *droppedFS
}

type droppedMapping struct {
	vfs.Mapping
	fs *droppedFS
}

func (d *droppedFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.Contains(name, "/commitlog/") {
		return f, err
	}
	return &droppedFile{f, d}, nil
}

func (d *droppedFS) OpenReadWrite(name string) (vfs.File, error) {
	f, err := d.MemFS.OpenReadWrite(name)
	return d.wrap(name, f, err)
}

func (f *droppedFile) Map(size int64, writable bool) (vfs.Mapping, error) {
	m, err := f.File.Map(size, writable)
	return &droppedMapping{m, f.fs}, err
}

func (m *droppedMapping) Advise(off, n int64, a vfs.Advice) error {
	if a == vfs.AdviseDontNeed {
		m.fs.mu.Lock()
		m.fs.dropped = append(m.fs.dropped, [2]int64{off, off + n})
		m.fs.mu.Unlock()
	}
	return m.Mapping.Advise(off, n, a)
}

// TestIdlePagesAreDropped: what nobody has read for a while leaves, but not the tail of the log, nor what is not flushed.
func TestIdlePagesAreDropped(t *testing.T) {
	fs := &droppedFS{MemFS: vfs.NewMem()}
	o := testOptions(fs, "/store")
	o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue, o.MaxMessageSize = 128<<20, 20000, 4<<20
	o.FlushIntervalCommitLog = time.Hour
	clk := newTestClock()
	o.Clock = clk
	s := openStore(t, o)
	const mib = 1 << 20
	body := strings.Repeat("x", mib)
	for range 90 {
		mustPut(t, s, testMessage("Topic", 0, body))
	}
	awaitDispatch(t, s)
	f := func(want ...[2]int64) {
		t.Helper()
		fs.dropped = nil
		s.dropIdlePages(clk.Millis())
		require.Equal(t, want, fs.dropped)
	}
	f() // nothing is flushed
	require.NoError(t, s.Flush())
	f([2]int64{0, 16 * mib}, [2]int64{16 * mib, 26 * mib})
	res := &GetResult{}
	s.Get(&GetRequest{Topic: "Topic", Offset: 3, MaxMsgs: 1}, res)
	require.Equal(t, 1, res.Count)
	res.Messages.Release()
	f([2]int64{0, 3 * mib}, [2]int64{4*mib + 256<<10, 20*mib + 256<<10}, [2]int64{20*mib + 256<<10, 26 * mib})
	clk.advance(60_000)
	f([2]int64{0, 16 * mib}, [2]int64{16 * mib, 26 * mib})
	s.Get(&GetRequest{Topic: "Topic", Offset: 5, MaxMsgs: 1}, res)
	require.Equal(t, 1, res.Count, "what has left is still there")
	require.Contains(t, string(res.Messages.AppendTo(nil)), body)
	res.Messages.Release()
}
