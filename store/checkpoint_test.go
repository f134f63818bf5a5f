package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

func TestCheckpointRoundTrip(t *testing.T) {
	fs := vfs.NewMem()
	c := newStoreCheckpoint(fs, "/")
	damaged, err := c.load(0)
	require.NoError(t, err)
	require.NoError(t, damaged)
	require.Zero(t, c.minTimestamp())
	for i, field := range c.fields() {
		field.Store(int64(10_000 + i))
	}
	require.True(t, c.dirty())
	require.NoError(t, c.flush())
	require.False(t, c.dirty())
	data, err := vfs.ReadFile(fs, "/checkpoint")
	require.NoError(t, err)
	require.Len(t, data, 4096)
	for i := range 5 {
		require.EqualValues(t, 10_000+i, binary.BigEndian.Uint64(data[8*i:]))
	}
	c.physicMsgTimestamp.Store(20_000)
	require.NoError(t, c.flush())

	c = newStoreCheckpoint(fs, "/")
	damaged, err = c.load(20_000)
	require.NoError(t, err)
	require.NoError(t, damaged)
	require.EqualValues(t, 20_000, c.physicMsgTimestamp.Load())
	require.EqualValues(t, 10_001-3000, c.minTimestamp())
	c.indexMsgTimestamp.Store(5)
	require.EqualValues(t, 5, c.minTimestampIndex())
}

func TestCheckpointDamaged(t *testing.T) {
	f := func(data []byte, want string) {
		t.Helper()
		fs := vfs.NewMem()
		require.NoError(t, vfs.WriteFileAtomic(fs, "/checkpoint", data, false))
		c := newStoreCheckpoint(fs, "/")
		damaged, err := c.load(1_000_000)
		require.NoError(t, err)
		require.ErrorContains(t, damaged, want)
		require.Zero(t, c.minTimestamp())
		require.NoError(t, c.flush(), "the next write repairs it")
		damaged, err = c.load(1_000_000)
		require.NoError(t, err)
		require.NoError(t, damaged)
	}
	f(nil, "0 bytes")
	f(make([]byte, 4095), "4095 bytes")
	far := make([]byte, 4096)
	binary.BigEndian.PutUint64(far[8:], 1<<60)
	f(far, "at byte 8")
	negative := make([]byte, 4096)
	negative[0] = 0x80
	f(negative, "at byte 0")
}

func TestRunningFlags(t *testing.T) {
	var f runningFlags
	refusal := func() error { return f.refusal(flagsThatStopWrites) }
	require.NoError(t, refusal())
	cause := errors.New("msync said no")
	require.True(t, f.set(flagNotWritable, cause))
	require.False(t, f.set(flagNotWritable, errors.New("later")))
	require.True(t, f.set(flagDiskFull, errors.New("91 %")))
	err := refusal()
	require.ErrorIs(t, err, ErrNotWritable)
	require.ErrorIs(t, err, ErrDiskFull)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, ErrClosed)
	require.EqualError(t, err, "store: not writable: a write to the disk failed: msync said no; "+
		"the disk of the CommitLog is too full: 91 %")
	require.True(t, f.clear(flagDiskFull))
	require.False(t, f.clear(flagDiskFull))
	require.NotErrorIs(t, refusal(), ErrDiskFull)
	require.NoError(t, f.refusal(flagDiskFull|flagPaused), "only what is asked for")
	require.True(t, f.clear(flagNotWritable))
	require.NoError(t, refusal())
	f.set(flagNotReadable, nil)
	require.NoError(t, refusal())
}

// A refusal has its reason, whoever sets and clears flags meanwhile: no other flag's, and never none.
func TestRefusalIsOfOneMoment(t *testing.T) {
	var f runningFlags
	reasons := map[runningFlag]error{flagDiskFull: errors.New("91 %"), flagPaused: errors.New("handed over")}
	var flipping, asking sync.WaitGroup
	stop := make(chan struct{})
	for flag, why := range reasons {
		flipping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f.set(flag, why)
				f.clear(flag)
			}
		})
	}
	ask := func(stops runningFlag, may ...error) {
		asking.Go(func() {
			for range 5000 {
				err := f.refusal(stops)
				if err != nil && !slices.ContainsFunc(may, func(why error) bool { return errors.Is(err, why) }) {
					t.Errorf("refused without a reason: %v", err)
					return
				}
			}
		})
	}
	ask(flagsThatStopWrites, reasons[flagDiskFull], reasons[flagPaused])
	ask(flagsUnderLock, reasons[flagPaused])
	ask(flagsThatStopCopies, reasons[flagDiskFull])
	ask(flagsThatStopFlushes)
	asking.Wait()
	close(stop)
	flipping.Wait()
}
