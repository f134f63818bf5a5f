//go:build linux

package zerocopy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// logFile is a mapped file that is its own owner.
type logFile struct {
	f     *os.File
	bytes []byte
	noFd  bool
	asked int
}

func newLogFile(tb testing.TB, n int) *logFile {
	f, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	require.NoError(tb, err)
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i * 7 / 3)
	}
	_, err = f.Write(content)
	require.NoError(tb, err)
	m, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = f.Close()
		require.NoError(tb, unix.Munmap(m))
	})
	return &logFile{f: f, bytes: m}
}

func (l *logFile) Release() {}

func (l *logFile) File(b []byte) (fd int, off int64) {
	l.asked++
	if l.noFd {
		return -1, 0
	}
	return int(l.f.Fd()), int64(cap(l.bytes) - cap(b))
}

// drain takes n bytes from a socket while write is called for what it does not take at once.
func drain(t *testing.T, fd, n int, write func()) []byte {
	var all []byte
	buf := make([]byte, 1<<16)
	for len(all) < n {
		write()
		for {
			k, err := unix.Read(fd, buf)
			if err == unix.EAGAIN {
				break
			}
			require.NoError(t, err)
			all = append(all, buf[:k]...)
		}
	}
	return all
}

// What arrives is what was added, in order, whatever the mixture of runs and however little the socket takes at a time.
func TestBatchMixesVectorsAndFiles(t *testing.T) {
	log := newLogFile(t, 1<<20)
	type piece struct {
		b     []byte
		owner Owner
	}
	f := func(files int, pieces ...piece) {
		t.Helper()
		a, b := socketPair(t)
		var want []byte
		for _, p := range pieces {
			want = append(want, p.b...)
		}
		var batch Batch
		sent := 0
		got := drain(t, b, len(want), func() {
			batch.Reset()
			skip := sent
			for _, p := range pieces {
				if skip >= len(p.b) {
					skip -= len(p.b)
					continue
				}
				require.True(t, batch.Add(p.b[skip:], p.owner))
				skip = 0
			}
			if sent == 0 {
				require.Len(t, batch.files, files)
				require.Equal(t, len(want), batch.Size())
			}
			n, err := batch.Write(a)
			require.NoError(t, err)
			sent += n
		})
		require.True(t, bytes.Equal(want, got))
	}
	head := piece{b: []byte("a header")}
	run := func(from, n int) piece { return piece{b: log.bytes[from : from+n], owner: log} }
	f(0, head)
	f(0, head, run(5, MinSendfileBytes-1))
	f(1, head, run(5, MinSendfileBytes))
	f(1, run(0, 1<<20))
	f(2, head, run(777, 300_000), head, run(0, 100), run(400_000, 200_000), head, head)
	f(2, run(777, 300_000), run(1, 300_000), run(1, 100))
	f(0, head, piece{b: make([]byte, 300_000)}, head) // heap memory
}

func TestBatchWithoutDescriptor(t *testing.T) {
	log := newLogFile(t, 1<<17)
	log.noFd = true
	var batch Batch
	require.True(t, batch.Add(log.bytes, log))
	require.Empty(t, batch.files)
	require.Equal(t, 1, log.asked)
	require.True(t, batch.Add(log.bytes[:10], log))
	require.Equal(t, 1, log.asked, "a short run is not asked about")
}

func TestBatchIsFull(t *testing.T) {
	log := newLogFile(t, 1<<16)
	var batch Batch
	for range maxFileRuns {
		require.True(t, batch.Add(log.bytes, log))
	}
	require.False(t, batch.Add(log.bytes, log))
	for range MaxVec {
		require.True(t, batch.Add(log.bytes[:1], log))
	}
	require.False(t, batch.Add(log.bytes[:1], log))
	require.Equal(t, maxFileRuns<<16+MaxVec, batch.Size())
}

func TestBatchBrokenSocketAndShortFile(t *testing.T) {
	log := newLogFile(t, 1<<17)
	a, b := socketPair(t)
	var batch Batch
	require.True(t, batch.Add(log.bytes, log))
	require.NoError(t, log.f.Truncate(1000)) // the mapping is longer than the file now
	_, err := batch.Write(a)
	require.ErrorIs(t, err, unix.EIO)
	require.NoError(t, log.f.Truncate(1<<17))
	require.NoError(t, unix.Shutdown(b, unix.SHUT_RD))
	_, err = batch.Write(a)
	require.ErrorIs(t, err, unix.EPIPE)
	batch.Reset()
	batch.Add([]byte("x"), nil)
	batch.Add(log.bytes, log)
	_, err = batch.Write(a)
	require.ErrorIs(t, err, unix.EPIPE)
}

// A file may be deleted under a transfer.
func TestBatchOfDeletedFile(t *testing.T) {
	log := newLogFile(t, 1<<20)
	a, b := socketPair(t)
	require.NoError(t, os.Remove(log.f.Name()))
	sent := 0
	var batch Batch
	got := drain(t, b, 1<<20, func() {
		batch.Reset()
		if sent < 1<<20 {
			batch.Add(log.bytes[sent:], log)
		}
		n, err := batch.Write(a)
		require.NoError(t, err)
		sent += n
	})
	require.True(t, bytes.Equal(log.bytes, got))
}

func TestBatchNoAllocations(t *testing.T) {
	log := newLogFile(t, 1<<16)
	a, b := socketPair(t)
	var batch Batch
	head, buf := make([]byte, 100), make([]byte, 1<<18)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		batch.Add(head, nil)
		batch.Add(log.bytes, log)
		_, _ = batch.Write(a)
		batch.Reset()
		for {
			if n, _ := unix.Read(b, buf); n <= 0 {
				return
			}
		}
	}))
}
