package pop

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

const (
	progressPath = "/config/popProgress"
	offsetsPath  = "/config/consumerOffset.json"
)

func newProgress(t *testing.T, now int64) (*progress, *vfs.MemFS) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	p := &progress{fs: fsys, path: progressPath, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	p.open(now)
	return p, fsys
}

// The file is made for the first thing that is noted; without one that of the run before goes.
func TestProgressIsMadeWhenItIsNeeded(t *testing.T) {
	p, fsys := newProgress(t, 7)
	exists := func() bool {
		_, err := fsys.Stat(progressPath)
		return err == nil
	}
	require.False(t, exists())
	require.NoError(t, vfs.WriteFileAtomic(fsys, progressPath, []byte("old"), false))
	p.discardOld()
	require.False(t, exists())
	p.discardOld()
	p.touch(8)
	p.drop(func(string, string) bool { return true })
	require.Empty(t, p.ring())
	require.False(t, exists())
	p.set(queueKey{"Topic", "g", 0}, 7, 1)
	require.True(t, exists())
	p.discardOld()
	got, _, err := readProgress(fsys, progressPath, offsetsPath)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, p.close(true))
	p.set(queueKey{"Topic", "g", 0}, 8, 1)
	require.False(t, exists(), "it is over")
}

// What is set is read after a kill, the last offset of each queue.
func TestProgressIsRead(t *testing.T) {
	now := time.Now().UnixMilli()
	p, fsys := newProgress(t, now)
	const queues = 3000 // more than the first file holds
	for round := range 2 {
		for i := range queues {
			p.set(queueKey{"Topic", fmt.Sprint("group-", i), int32(i % 8)}, codec.QueueOffset(i+round*1000), int64(i+round))
		}
	}
	p.move(queueKey{"Topic", "group-7", 7}, 3, 99)
	p.move(queueKey{"Topic", "nobody", 7}, 3, 99)
	p.drop(func(_, group string) bool { return group == "group-5" })
	for i := range progressRing + 5 {
		p.returned(checkPointAt{int32(i % 8), codec.QueueOffset(i)}, i%32, int64(i))
	}
	got, ring, err := readProgress(fsys.CloneAll(), progressPath, offsetsPath)
	require.NoError(t, err)
	require.Len(t, got, queues-1)
	require.Len(t, ring, progressRing)
	at, message := ring[4].at()
	const last = progressRing + 4
	require.Equal(t, checkPointAt{last % 8, last}, at)
	require.EqualValues(t, last, ring[4].log)
	require.Equal(t, last%32, message)
	byGroup := map[string]progressEntry{}
	for _, e := range got {
		byGroup[e.group] = e
	}
	require.Equal(t, progressEntry{queueKey{"Topic", "group-8", 0}, 9, 1008}, byGroup["group-8"])
	require.Equal(t, progressEntry{queueKey{"Topic", "group-7", 7}, 99, 3}, byGroup["group-7"])
	require.NoError(t, p.close(true))
	got, ring, err = readProgress(fsys, progressPath, offsetsPath)
	require.NoError(t, err)
	require.Empty(t, got, "a clean stop leaves none")
	require.Empty(t, ring)
	p.set(queueKey{"Topic", "late", 0}, 1, 1) // has no effect
}

// Whoever has written consumerOffset.json after the last touch knows better.
func TestProgressOfBefore(t *testing.T) {
	now := time.Now().UnixMilli()
	p, fsys := newProgress(t, now-10_000)
	p.set(queueKey{"Topic", "g", 0}, 7, 1)
	require.NoError(t, vfs.WriteFileAtomic(fsys, offsetsPath, []byte("{}"), false))
	_, _, err := readProgress(fsys, progressPath, offsetsPath)
	require.ErrorContains(t, err, "is older than")
	p.touch(time.Now().UnixMilli())
	got, _, err := readProgress(fsys, progressPath, offsetsPath)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, p.close(false))
}

// FuzzProgress: whatever is in the file, reading it neither panics nor makes more entries than there is room for.
func FuzzProgress(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 100))
	f.Add(append(make([]byte, 16), "\x00\x05T@g@1\x00\x00\x00"...))
	f.Add(append(make([]byte, 16), "\xff\xffT@g@1"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range parseProgress(data) {
			require.NotEmpty(t, e.topic)
			require.GreaterOrEqual(t, e.next, int64(0))
			require.Contains(t, string(data), e.progressName())
		}
	})
}
