package store

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// zeroFile is a log file of size bytes to which zeros are written ahead.
func zeroFile(t *testing.T, fs vfs.FS, size int64) *mappedFile {
	t.Helper()
	require.NoError(t, fs.MkdirAll("/log"))
	var live atomic.Int64
	mf, err := createMappedFile(fs, "/log/00000000000000000000", 0, size, true, &live)
	require.NoError(t, err)
	o := DefaultOptions("/")
	o.EnsureDefaults()
	mf.startZeros(&o)
	require.True(t, mf.writesZeros())
	return mf
}

// TestZerosSpareTheWriter: a writer who gets ahead of the zeros keeps what it wrote, and what it has not claimed is zero.
func TestZerosSpareTheWriter(t *testing.T) {
	const size = 8 << 20
	mf := zeroFile(t, vfs.NewMem(), size)
	log := &testlog.Text{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	var done sync.WaitGroup
	done.Go(func() {
		for mf.populated.Load() < size {
			populateAhead(mf, min(mf.wrotePosition.Load()+300_000, size), true, logger)
		}
	})
	rng, want := rand.New(rand.NewPCG(1, 2)), make([]byte, size)
	for pos := int64(0); pos < size; {
		end := min(pos+1+rng.Int64N(100_000), size)
		for i := pos; i < end; i++ {
			want[i] = byte(rng.Uint32() | 1)
		}
		mf.claim(end)
		copy(mf.data()[pos:end], want[pos:end])
		mf.wrotePosition.Store(end)
		pos = end
	}
	done.Wait()
	require.True(t, bytes.Equal(want, mf.data()))
	require.Empty(t, log.String())
	mf.releaseNow()
}

// TestZerosNeedAClaim: zeros never go to what was written, also when a writer forgot to claim it.
func TestZerosNeedAClaim(t *testing.T) {
	mf := zeroFile(t, vfs.NewMem(), 1<<20)
	log := &testlog.Text{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	copy(mf.data(), "written")
	mf.wrotePosition.Store(7)
	populateAhead(mf, 1<<20, true, logger)
	require.Equal(t, "written", string(mf.data()[:7]))
	require.Equal(t, 1, log.Count("BUG"))
	require.EqualValues(t, 1<<20, mf.populated.Load(), "it is populated nevertheless")
	mf.releaseNow()
}

// TestZerosEndWithTheFile: the rest of a file that the writer has left is not filled.
func TestZerosEndWithTheFile(t *testing.T) {
	mf := zeroFile(t, vfs.NewMem(), 1<<20)
	log := &testlog.Text{}
	mf.claim(100)
	mf.fill(100)
	populateAhead(mf, 1<<20, true, slog.New(slog.NewTextHandler(log, nil)))
	require.False(t, mf.writesZeros())
	require.Empty(t, log.String())
	mf.releaseNow()
}

// TestZerosStayInTheirFile: a file that was cut has a successor of the same name, which zeros for the old one do not reach.
func TestZerosStayInTheirFile(t *testing.T) {
	mf := zeroFile(t, vfs.NewMem(), 1<<20)
	mf.claim(5000)
	copy(mf.data(), strings.Repeat("a", 5000))
	mf.wrotePosition.Store(5000)
	var live atomic.Int64
	fresh, err := mf.copyTo(3000, &live)
	require.NoError(t, err)
	require.False(t, fresh.writesZeros())
	want := strings.Repeat("a", 3000) + strings.Repeat("b", 400_000)
	fresh.claim(403_000)
	copy(fresh.data()[3000:], want[3000:])
	populateAhead(mf, 1<<20, true, slog.New(slog.DiscardHandler))
	require.Equal(t, want, string(fresh.data()[:403_000]))
	fresh.releaseNow()
	mf.releaseNow()
}

// TestZerosWhileTheLogGrowsFast: zeros are written from zeroRate on only, and not where they would be of no use; a file that
// is full holds nothing open for them.
func TestZerosWhileTheLogGrowsFast(t *testing.T) {
	f := func(pause time.Duration, change func(o *Options), want bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			wrote := 0
			count := func(errorfs.Op) error {
				wrote++
				return nil
			}
			o := testOptions(errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(`(write "*/commitlog/*" call count)`,
				errorfs.WithHook("count", count))), "/store")
			log := &testlog.Text{}
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			o.MappedFileSizeCommitLog, o.zeroRate = 4<<20, 0
			change(&o)
			s, err := Open(o)
			require.NoError(t, err)
			require.NoError(t, s.Start())
			m := testMessage("T", 0, strings.Repeat("x", 6000))
			for range 2000 { // 12 MB
				m.WaitStoreMsgOK = false
				require.Equal(t, PutOK, s.Put(m).Status)
				time.Sleep(pause) // of the bubble
				synctest.Wait()
			}
			require.Equal(t, want, wrote > 0, "%d writes", wrote)
			files := s.cl.files.list()
			for _, mf := range files[:len(files)-1] {
				require.False(t, mf.writesZeros(), mf.path)
			}
			require.NoError(t, s.Close())
			synctest.Wait()
			require.NotContains(t, log.String(), "BUG")
		})
	}
	f(100*time.Microsecond, func(*Options) {}, true)                                  // 60 MB/s
	f(time.Millisecond, func(*Options) {}, false)                                     // 6 MB/s
	f(100*time.Microsecond, func(o *Options) { o.FlushDiskType = SyncFlush }, false)  // prewritten
	f(100*time.Microsecond, func(o *Options) { o.WarmMapedFileEnable = true }, false) // warmed
	f(time.Millisecond, func(o *Options) { o.zeroRate = 1 }, true)                    // as an option
	f(100*time.Microsecond, func(o *Options) { o.zeroRate = 1 << 40 }, false)         // …
}
