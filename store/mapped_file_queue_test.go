package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// Bounds of the waits for background work in tests.
const (
	testWait = 10 * time.Second
	testTick = time.Millisecond
)

func newTestQueue(fs vfs.FS, reserve bool) *mappedFileQueue {
	o := DefaultOptions("/store")
	o.FS = fs
	return newMappedFileQueue(&o, "/store/log", 8192, reserve)
}

// fill appends n blocks of 4096 bytes, block i full of byte i+1.
func fill(t *testing.T, q *mappedFileQueue, n int) {
	t.Helper()
	for i := range n {
		mf, err := q.appendable(0, 4096)
		require.NoError(t, err)
		require.NoError(t, mf.append(bytes.Repeat([]byte{byte(i + 1)}, 4096)))
	}
}

func closeQueue(t *testing.T, q *mappedFileQueue) {
	t.Helper()
	q.close()
	waitUnmapped(t, &q.live, 0)
}

func TestMappedFileQueueAppendFindFlush(t *testing.T) {
	fs := vfs.NewMem()
	q := newTestQueue(fs, true)
	repaired, err := q.load()
	require.NoError(t, err)
	require.False(t, repaired)
	require.Nil(t, q.find(0))
	fill(t, q, 5)
	require.EqualValues(t, 0, q.minOffset())
	require.EqualValues(t, 5*4096, q.maxOffset())
	require.EqualValues(t, 0, q.flushedWhere.Load())

	b, mf, ok := q.slice(3*4096, 4096)
	require.True(t, ok)
	require.Equal(t, bytes.Repeat([]byte{4}, 4096), b)
	mf.Release()
	_, _, ok = q.slice(5*4096, 1)
	require.False(t, ok)

	require.NoError(t, q.flush(4))
	require.EqualValues(t, 4*4096, q.flushedWhere.Load(), "full files at once, one dirty page waits")
	require.NoError(t, q.flush(0))
	require.EqualValues(t, 5*4096, q.flushedWhere.Load())
	closeQueue(t, q)

	q = newTestQueue(fs, true)
	_, err = q.load()
	require.NoError(t, err)
	require.EqualValues(t, 3*8192, q.maxOffset(), "recovery finds the end")
	require.NoError(t, q.setEnd(5*4096))
	require.EqualValues(t, 5*4096, q.maxOffset())
	fill(t, q, 1)
	require.Len(t, q.list(), 3)
	closeQueue(t, q)
}

func TestMappedFileQueueStartOffset(t *testing.T) {
	q := newTestQueue(vfs.NewMem(), false)
	mf, err := q.appendable(20000, 20)
	require.NoError(t, err)
	require.EqualValues(t, 16384, mf.fileFrom)
	require.EqualValues(t, 16384, q.flushedWhere.Load())
	closeQueue(t, q)
}

func TestMappedFileQueueLoad(t *testing.T) {
	f := func(name string, damage func(fs *vfs.MemFS), wantMax int64, wantRepaired bool, wantErr string) {
		t.Helper()
		fs := vfs.NewMem()
		q := newTestQueue(fs, true)
		fill(t, q, 5)
		closeQueue(t, q)
		damage(fs)
		q = newTestQueue(fs, true)
		repaired, err := q.load()
		if wantErr != "" {
			require.ErrorContains(t, err, wantErr, name)
			require.True(t, IsCorrupt(err), name)
		} else {
			require.NoError(t, err, name)
			require.Equal(t, wantMax, q.maxOffset(), name)
			require.Equal(t, wantRepaired, repaired, name)
		}
		closeQueue(t, q)
	}
	resize := func(name string, size int64) func(fs *vfs.MemFS) {
		return func(fs *vfs.MemFS) {
			file, err := fs.OpenReadWrite("/store/log/" + name)
			require.NoError(t, err)
			require.NoError(t, file.Truncate(size))
			require.NoError(t, file.Close())
		}
	}
	f("intact", func(*vfs.MemFS) {}, 3*8192, false, "")
	f("extra empty file", resize(offsetFileName(3*8192), 0), 3*8192, true, "")
	f("empty last file", resize(offsetFileName(2*8192), 0), 2*8192, true, "")
	f("short last file", resize(offsetFileName(2*8192), 7), 3*8192, true, "")
	f("foreign name", resize("readme", 7), 3*8192, false, "")
	f("empty middle file", resize(offsetFileName(8192), 0), 0, false, offsetFileName(8192))
	f("long file", resize(offsetFileName(2*8192), 9000), 0, false, "9000 bytes")
	f("odd name", resize(offsetFileName(5), 8192), 0, false, "multiple of 8192")
}

func TestMappedFileQueueHole(t *testing.T) {
	fs := vfs.NewMem()
	q := newTestQueue(fs, true)
	fill(t, q, 8)
	closeQueue(t, q)
	require.NoError(t, fs.Remove("/store/log/"+offsetFileName(8192)))
	q = newTestQueue(fs, true)
	_, err := q.load()
	require.NoError(t, err)
	require.Equal(t, []offsetRange{{8192, 16384}}, q.holes())
	require.Nil(t, q.find(8192))
	require.EqualValues(t, 16384, q.after(8192).fileFrom)
	require.EqualValues(t, 24576, q.find(30000).fileFrom)
	closeQueue(t, q)
}

func TestMappedFileQueueTruncateDirty(t *testing.T) {
	f := func(offset int64, wantFiles int) {
		t.Helper()
		fs := vfs.NewMem()
		q := newTestQueue(fs, true)
		fill(t, q, 8)
		require.NoError(t, q.truncateDirty(offset))
		require.Len(t, q.list(), wantFiles)
		require.Equal(t, offset, q.maxOffset())
		require.Equal(t, offset, q.flushedWhere.Load())
		names, err := fs.List("/store/log")
		require.NoError(t, err)
		require.Len(t, names, wantFiles)
		fill(t, q, 1)
		closeQueue(t, q)
	}
	f(8*4096, 4)
	f(3*4096+5, 2)
	f(4*4096, 2)
	f(0, 1)
}

func TestMappedFileQueueDelete(t *testing.T) {
	fs := vfs.NewMem()
	q := newTestQueue(fs, true)
	fill(t, q, 8)
	b, reader, ok := q.slice(0, 4096)
	require.True(t, ok)
	deleted, err := q.deleteLeading(2, func(*mappedFile) bool { return true })
	require.NoError(t, err)
	require.Len(t, deleted, 2)
	require.EqualValues(t, 2*8192, q.minOffset())
	require.Equal(t, bytes.Repeat([]byte{1}, 4096), b, "still readable")
	reader.Release()
	deleted, err = q.deleteLeading(10, func(*mappedFile) bool { return true })
	require.NoError(t, err)
	require.Len(t, deleted, 1, "never the last file")
	require.NoError(t, q.destroy())
	waitUnmapped(t, &q.live, 0)
	require.EqualValues(t, 0, q.maxOffset())
}
