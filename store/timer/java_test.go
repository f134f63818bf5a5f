package timer

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/store"
)

// unpackJava puts the directory of a Java 5.3.3 broker that was killed with waiting timers into a file system (see
// store/testdata/README.md), and gives the time of its newest file.
func unpackJava(t *testing.T, fs vfs.FS) (at time.Time) {
	t.Helper()
	f, err := os.Open("../testdata/java-5.3.3-timer.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return at
		}
		require.NoError(t, err)
		target := path.Join("/data", header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, vfs.MkdirAllSync(fs, target))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(fs, target, data, false))
		if header.ModTime.After(at) {
			at = header.ModTime
		}
	}
}

// A Java broker's directory: what waits there is known, listed, and delivered at its time; what it delivered and what was
// recalled is not.
func TestTakesOverJava(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		at := unpackJava(t, fs)
		time.Sleep(time.Until(at))
		s := &system{t: t, fs: fs, log: &testlog.Text{}}
		so := store.DefaultOptions("/data")
		so.FS, so.MappedFileSizeCommitLog, so.MappedFileSizeConsumeQueue = fs, 1<<20, 6000
		so.MaxHashSlotNum, so.MaxIndexNum = 100, 400
		so.Log = slog.New(slog.DiscardHandler)
		var err error
		s.store, err = store.Open(so)
		require.NoError(t, err)
		s.TimerMessageStore = New(Options{RootDir: "/data", FS: fs, Store: s.store, MappedFileSizeCommitLog: 1 << 20,
			MappedFileSizeTimerLog: 1 << 20, RollWindowSlot: 172800, Clock: clock.System,
			Log: slog.New(slog.NewTextHandler(s.log, nil))})
		require.NoError(t, s.store.Start())
		t.Cleanup(s.kill)
		require.NoError(t, s.Load())
		was := s.records("GoldenTimer", 0)
		require.NoError(t, s.Start())
		synctest.Wait()
		list, err := s.List("GoldenTimer", time.Time{}, 100)
		require.NoError(t, err)
		require.Len(t, list, 7)
		require.True(t, list[0].Recall)
		require.Equal(t, list[0].UniqKey, list[1].UniqKey)
		require.EqualValues(t, 5, s.Status().Waiting, "five, and the recalled one with its recall")
		require.EqualValues(t, 5, s.count("GoldenTimer"))
		require.Len(t, was, 2)
		after(7 * time.Hour)
		got := s.records("GoldenTimer", 0)
		require.Len(t, got, 7)
		for i, rec := range got {
			require.Equal(t, fmt.Sprint("timer ", i), string(rec.Body))
			value, _ := rec.Property(codec.PropTimerDeliverMs)
			late := rec.StoreTimestamp - parseInt(string(value))
			require.True(t, late >= 0 && late < 1000, "%d ms late", late)
			require.Equal(t, propertyNames(&was[0]), propertyNames(&rec))
		}
		require.Zero(t, s.count("GoldenTimer"))
		require.NotContains(t, s.log.String(), "level=ERROR")
		s.stop()
	})
}

func propertyNames(rec *codec.Record) []string {
	return slices.Sorted(maps.Keys(codec.ParseProperties(rec.Properties)))
}

// Our readers and writers give Java's bytes back.
func TestJavaBytes(t *testing.T) {
	fs := vfs.NewMem()
	unpackJava(t, fs)
	data, err := vfs.ReadFile(fs, "/data/timerlog/00000000000000000000")
	require.NoError(t, err)
	units := 0
	for ; len(data) > unitBytes; data = data[unitBytes:] {
		u, ok := parseUnit(data)
		if !ok {
			break
		}
		require.Equal(t, data[:unitBytes], appendUnit(nil, &u))
		units++
	}
	require.Equal(t, 9, units)
	data, err = vfs.ReadFile(fs, "/data/timerwheel")
	require.NoError(t, err)
	require.Len(t, data, wheelSlots*slotBytes)
	w, err := loadWheel(fs, "/data/timerwheel", 1000, wheelSlots, 0)
	require.NoError(t, err)
	slots := 0
	w.each(func(tm int64, s slot) {
		p, i := w.at(tm)
		at := p*pageBytes + i*slotBytes
		b := make([]byte, slotBytes)
		encodeSlot(b, &s)
		require.Equal(t, data[at:at+slotBytes], b)
		slots++
	})
	require.Equal(t, 7, slots)
	data, err = vfs.ReadFile(fs, "/data/config/timercheck")
	require.NoError(t, err)
	cp, err := DecodeCheckpoint(data)
	require.NoError(t, err)
	require.Equal(t, data[:checkpointBytes], cp.Encode())
	require.EqualValues(t, 9, cp.LastTimerQueueOffset)
	data, err = vfs.ReadFile(fs, "/data/config/timermetrics")
	require.NoError(t, err)
	m, found, err := loadMetrics(fs, "/data/config/timermetrics")
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, saveMetrics(fs, "/data/config/timermetrics", &m))
	again, err := vfs.ReadFile(fs, "/data/config/timermetrics")
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
}
