package ha

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/internal/vfs"
	"skylark/store"
)

const epochsPath = "/s/epochFileCheckpoint"

func writeTestFile(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll("/s"))
	require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte(text), false))
}

func readTestFile(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(b)
}

// The file is Java's: the example in the comment of Java's CheckpointFile.
func TestEpochFileIsJavas(t *testing.T) {
	golden, err := os.ReadFile("testdata/epochFileCheckpoint")
	require.NoError(t, err)
	fsys := vfs.NewMem()
	writeTestFile(t, fsys, epochsPath, string(golden))
	e, err := OpenEpochs(fsys, epochsPath, quietLog)
	require.NoError(t, err)
	require.Equal(t, []EpochEntry{{7, 7000, 8000}, {8, 8000, math.MaxInt64}}, e.Entries())
	require.EqualValues(t, 8, e.Last())
	require.NoError(t, e.Append(9, 9000))
	require.Equal(t, string(golden), readTestFile(t, fsys, epochsPath+vfs.BackupSuffix))
	require.NoError(t, e.TruncateSuffix(9000))
	require.Equal(t, string(golden), readTestFile(t, fsys, epochsPath))
	require.NoError(t, e.TruncateSuffix(0))
	for _, name := range []string{epochsPath, epochsPath + vfs.BackupSuffix} { // Java would read the .bak of a missing file
		_, err := fsys.Stat(name)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestDamagedEpochFile(t *testing.T) {
	const good = "1\n0\n3-30\n"
	f := func(main, backup string, want int32, message string) {
		t.Helper()
		fsys := vfs.NewMem()
		if main != "" {
			writeTestFile(t, fsys, epochsPath, main)
		}
		if backup != "" {
			writeTestFile(t, fsys, epochsPath+vfs.BackupSuffix, backup)
		}
		e, err := OpenEpochs(fsys, epochsPath, quietLog)
		if message != "" {
			require.ErrorContains(t, err, message)
			require.ErrorContains(t, err, epochsPath)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, e.Last())
	}
	f("", "", NoEpoch, "")
	f(good, "", 3, "")
	f("", good, 3, "")
	f("2\n773307083\n7-7000\n8-8001\n", good, 3, "")
	f("2\n773307083\n7-7000\n8-8001\n", "", 0, "checksum")
	f("2\n0\n7-7000\n", "x", 0, "2 epochs are announced, 1 are there")
	f("2\n0\n7-7000\n7-7001\n", "", 0, "does not follow")
	f("2\n0\n7-7000\n8-6999\n", "", 0, "does not follow")
	f("1\n0\n-1-0\n", "", 0, "line 3")
	f("1\n0\n1--5\n", "", 0, "line 3")
	f("1\n0\n99999999999-5\n", "", 0, "line 3")
	f("x\ny\n", "", 0, "first two lines")
	f("1", "", 0, "first two lines")
	f("1\r\n0\r\n3-30\r\n", "", 3, "") // of a Java on Windows
	f(string(make([]byte, maxEpochFileBytes+1)), "", 0, "at most")
}

func TestEpochs(t *testing.T) {
	e := NewEpochs(EpochEntry{Epoch: 1, StartOffset: 100})
	require.NoError(t, e.Append(2, 300))
	require.NoError(t, e.Append(3, 300)) // 2 is empty
	require.NoError(t, e.Append(5, 500))
	for _, bad := range []EpochEntry{{Epoch: 5, StartOffset: 600}, {Epoch: 6, StartOffset: 499}, {Epoch: -1}} {
		require.ErrorIs(t, e.Append(bad.Epoch, bad.StartOffset), ErrEpochOrder)
	}
	f := func(p store.PhyOffset, epoch int32, start, end store.PhyOffset) {
		t.Helper()
		require.Equal(t, EpochEntry{epoch, start, end}, e.At(p))
	}
	f(0, NoEpoch, 0, 100)
	f(99, NoEpoch, 0, 100)
	f(100, 1, 100, 300)
	f(299, 1, 100, 300)
	f(300, 3, 300, 500)
	f(math.MaxInt64, 5, 500, math.MaxInt64)
	require.NoError(t, e.TruncatePrefix(100))
	require.Len(t, e.Entries(), 4)
	require.NoError(t, e.TruncatePrefix(300))
	require.Equal(t, []EpochEntry{{2, 300, 300}, {3, 300, 500}, {5, 500, math.MaxInt64}}, e.Entries())
	require.NoError(t, e.TruncateFrom(3))
	require.Equal(t, []EpochEntry{{2, 300, math.MaxInt64}}, e.Entries())
	for i := range maxEpochEntries {
		require.NoError(t, e.Append(int32(10+i), 1000))
	}
	require.Len(t, e.Entries(), maxEpochEntries)
	require.EqualValues(t, 10, e.Entries()[0].Epoch)
}

// The cases of Java's EpochFileCacheTest, and what Java gets wrong.
func TestConsistentPoint(t *testing.T) {
	list := func(flat ...int) []EpochEntry {
		var l []EpochEntry
		for i := 0; i < len(flat); i += 2 {
			l = append(l, EpochEntry{Epoch: int32(flat[i]), StartOffset: store.PhyOffset(flat[i+1])})
		}
		return linked(l)
	}
	f := func(own, master []EpochEntry, ownEnd, masterEnd, want store.PhyOffset) {
		t.Helper()
		got, ok := consistentPoint(own, master, ownEnd, masterEnd)
		require.Equal(t, want >= 0, ok)
		if ok {
			require.Equal(t, want, got)
		}
	}
	f(list(1, 100, 2, 300, 3, 500), list(1, 100, 2, 300, 3, 450), 1000, 1000, 450)
	f(list(1, 100, 2, 300, 3, 500), list(1, 100, 2, 300, 3, 500), 700, 600, 600)
	f(list(1, 100, 2, 300, 3, 500), list(1, 200, 2, 500, 3, 600), 700, 700, -1)
	f(list(1, 100, 2, 300, 3, 500), list(1, 100, 2, 300, 3, 500, 4, 800), 1000, 1000, 800)
	f(list(1, 0), list(1, 0, 2, 0), 100, 200, 0) // the master wrote nothing in epoch 1; Java's has no 2 and says 100
	f(list(1, 0, 2, 100), list(1, 0, 3, 100), 150, 400, 100)
	f(list(1, 0), nil, 100, 0, -1)
	f(nil, list(1, 0), 100, 100, -1)
}

// Two logs that were written by the same masters up to some point, and by different ones from there on, agree up to there.
func TestConsistentPointIsTheCommonPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var common, own, master []EpochEntry
		epoch, end := int32(0), store.PhyOffset(0)
		grow := func(list []EpochEntry, label string) []EpochEntry {
			for range rapid.IntRange(0, 4).Draw(t, label) {
				epoch++
				list = append(list, EpochEntry{Epoch: epoch, StartOffset: end})
				end += store.PhyOffset(rapid.IntRange(0, 50).Draw(t, "bytes"))
			}
			return list
		}
		epoch++
		common = append(common, EpochEntry{Epoch: epoch})
		end = store.PhyOffset(rapid.IntRange(0, 50).Draw(t, "first"))
		common = grow(common, "common")
		fork := end
		own = grow(append([]EpochEntry(nil), common...), "own")
		ownEnd := end
		end = fork
		master = grow(append([]EpochEntry(nil), common...), "master")
		got, ok := consistentPoint(linked(own), linked(master), ownEnd, end)
		require.True(t, ok)
		require.Equal(t, fork, got)
	})
}

// FuzzEpochFile: no panic; what is read is in order, and is read the same when it is written again.
func FuzzEpochFile(f *testing.F) {
	f.Add([]byte("2\n773307083\n7-7000\n8-8000\n"))
	f.Add([]byte("1\n0\n3-30\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseEpochs(b)
		if err != nil {
			return
		}
		again, err := parseEpochs(formatEpochs(list))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(list), fmt.Sprint(again))
	})
}
