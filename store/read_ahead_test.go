package store

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// askedFS is a MemFS whose log is cold until somebody asks the disk for it.
type askedFS struct {
	*vfs.MemFS
	asked atomic.Int64
}

// advisedFile and advisedMapping see the hints of the log's files.
type advisedFile struct {
	vfs.File
	fs *askedFS
}

type advisedMapping struct {
	vfs.Mapping
	fs *askedFS
}

func newAskedFS() *askedFS { return &askedFS{MemFS: vfs.NewMem()} }

func (a *askedFS) OpenReadWrite(name string) (vfs.File, error) {
	f, err := a.MemFS.OpenReadWrite(name)
	if err != nil || !strings.Contains(name, "/commitlog/") {
		return f, err
	}
	return &advisedFile{f, a}, nil
}

func (f *advisedFile) Map(size int64, writable bool) (vfs.Mapping, error) {
	m, err := f.File.Map(size, writable)
	return &advisedMapping{m, f.fs}, err
}

func (m *advisedMapping) Advise(off, n int64, a vfs.Advice) error {
	if a == vfs.AdviseWillNeed {
		m.fs.asked.Store(max(m.fs.asked.Load(), off+n))
	}
	return m.Mapping.Advise(off, n, a)
}

func (m *advisedMapping) Resident(off, n int64) (bool, error) { return off+n <= m.fs.asked.Load(), nil }

// coldStore has 8 MiB of one queue that are cold.
func coldStore(t *testing.T) (*MessageStore, *askedFS) {
	t.Helper()
	fs := newAskedFS()
	o := testOptions(fs, "/store")
	o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = 16<<20, 20000
	o.MaxTransferBytesInMemory = 64 << 10
	o.Clock = newTestClock()
	s := openStore(t, o)
	for range 1200 {
		mustPut(t, s, testMessage("Topic", 0, strings.Repeat("x", 7000)))
	}
	awaitDispatch(t, s)
	closeStore(t, s)
	return openStore(t, o), fs
}

// coldFile is a cold file that nobody else knows: the services of a store take references of its files now and then.
func coldFile(t *testing.T) (*mappedFile, *askedFS) {
	t.Helper()
	fs, live := newAskedFS(), atomic.Int64{}
	require.NoError(t, fs.MkdirAll("/commitlog"))
	mf, err := createMappedFile(fs, "/commitlog/0", 0, 16<<20, true, &live)
	require.NoError(t, err)
	mf.setPosition(mf.size)
	t.Cleanup(func() {
		mf.releaseNow()
		require.Zero(t, live.Load())
	})
	return mf, fs
}

// TestReadAheadServesTheNextPulls: who begins on the disk waits once; what follows is in memory when it is asked for.
func TestReadAheadServesTheNextPulls(t *testing.T) {
	s, fs := coldStore(t)
	res := &GetResult{}
	get := func(allowCold bool) GetStatus {
		s.Get(&GetRequest{Topic: "Topic", Offset: res.NextOffset, MaxMsgs: 32, AllowCold: allowCold}, res)
		res.Messages.Release()
		return res.Status
	}
	require.Equal(t, GetCold, get(false))
	require.Equal(t, GetFound, get(true))
	require.Eventually(t, func() bool { return fs.asked.Load() >= readAheadBytes }, testWait, testTick)
	end := s.MaxOffset("Topic", 0)
	for res.NextOffset < end {
		require.Eventually(t, func() bool { return get(false) == GetFound }, testWait, testTick,
			"nobody reads ahead of %d", res.NextOffset)
	}
	require.GreaterOrEqual(t, fs.asked.Load(), int64(8<<20))
}

// TestReadAheadWithoutReaders: when too much waits, or the readers have ended, whoever needs the bytes reads them.
func TestReadAheadWithoutReaders(t *testing.T) {
	mf, _ := coldFile(t)
	f := func(r *readAheadService) {
		t.Helper()
		refs := mf.refs.Load()
		require.NoError(t, mf.cache.fetch(r, mf, 0, 100, 5000))
		require.True(t, mf.cache.resident(mf, 0, 100, 5000))
		require.False(t, mf.cache.resident(mf, 0, 100, 9000))
		require.Equal(t, refs, mf.refs.Load())
	}
	idle := newReadAheadService()
	f(idle)
	full := newReadAheadService()
	full.ranges, full.serving = make(chan coldRange), true
	f(full)
	full.close()
	f(full)
}

// TestReadAheadGivesReferencesBack: what waits when the store closes is asked for and let go.
func TestReadAheadGivesReferencesBack(t *testing.T) {
	mf, fs := coldFile(t)
	refs := mf.refs.Load()
	r := newReadAheadService()
	r.serving = true
	require.True(t, r.ask(mf, 0, 1<<20))
	require.True(t, r.ask(mf, 1<<20, 3<<20))
	require.Equal(t, refs+2, mf.refs.Load())
	r.start()
	r.close()
	require.Equal(t, refs, mf.refs.Load())
	require.EqualValues(t, 3<<20, fs.asked.Load())
}
