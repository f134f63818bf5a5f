package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seeds is how many crashes a case draws; the chance to miss an outcome of probability 1/10 is below 1e-9.
const seeds = 200

// outcomes crashes at one state with many seeds and counts what look sees.
func outcomes(m *MemFS, look func(clone *MemFS) string) map[string]int {
	seen := make(map[string]int)
	for seed := range uint64(seeds) {
		seen[look(m.CrashClone(seed))]++
	}
	return seen
}

func requireOutcomes(t *testing.T, m *MemFS, look func(clone *MemFS) string, want ...string) {
	t.Helper()
	slices.Sort(want)
	require.Equal(t, want, slices.Sorted(maps.Keys(outcomes(m, look))))
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem()
	require.NoError(t, MkdirAllSync(m, "/a/b"))
	require.NoError(t, writeFileSync(m, "/a/b/f", []byte("synced")))
	require.NoError(t, m.SyncDir("/a/b"))
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/a/b/f") }, "synced")
}

func TestCrashLosesWhatWasNot(t *testing.T) {
	f := func(prepare func(t *testing.T, m *MemFS), want ...string) {
		t.Helper()
		m := NewMem()
		prepare(t, m)
		requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/f") }, want...)
	}
	// The name without SyncDir.
	f(func(t *testing.T, m *MemFS) {
		require.NoError(t, writeFileSync(m, "/f", []byte("new")))
	}, "missing", "new")
	// The content without Sync: nothing, all, or the length without the bytes.
	f(func(t *testing.T, m *MemFS) {
		put(t, m, "/f", "new")
		require.NoError(t, m.SyncDir("/"))
	}, "", "new", "\x00\x00\x00")
	// An overwrite without Sync.
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "old")
		g, err := m.OpenReadWrite("/f")
		require.NoError(t, err)
		_, err = g.WriteAt([]byte("new"), 0)
		require.NoError(t, err)
	}, "old", "new")
	// Create over an old content: the cut may be lost or not.
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "older")
		put(t, m, "/f", "new")
	}, "older", "", "new", "\x00\x00\x00")
	// A removal.
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "old")
		require.NoError(t, m.Remove("/f"))
	}, "old", "missing")
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "old")
		require.NoError(t, m.Remove("/f"))
		require.NoError(t, m.SyncDir("/"))
	}, "missing")
	// A rename of a file that was not synced, the classical mistake.
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "old")
		put(t, m, "/f.tmp", "new")
		require.NoError(t, m.Rename("/f.tmp", "/f"))
		require.NoError(t, m.SyncDir("/"))
	}, "", "new", "\x00\x00\x00")
	// A rename done right but for SyncDir.
	f(func(t *testing.T, m *MemFS) {
		putSync(t, m, "/f", "old")
		require.NoError(t, writeFileSync(m, "/f.tmp", []byte("new")))
		require.NoError(t, m.Rename("/f.tmp", "/f"))
	}, "old", "new")
}

func TestCrashTearsPagesAtSectors(t *testing.T) {
	m := NewMem()
	old, fresh := strings.Repeat("o", 3*PageSize), strings.Repeat("n", 3*PageSize)
	putSync(t, m, "/f", old)
	f, err := m.OpenReadWrite("/f")
	require.NoError(t, err)
	mapping := mustMap(t, f, 3*PageSize, true)
	copy(mapping.Bytes(), fresh)
	torn, mixed := 0, 0
	for seed := range uint64(seeds) {
		got := get(t, m.CrashClone(seed), "/f")
		require.Len(t, got, 3*PageSize)
		for at := 0; at < len(got); at += sectorSize {
			sector := got[at : at+sectorSize]
			require.True(t, sector == old[:sectorSize] || sector == fresh[:sectorSize])
		}
		for at := 0; at < len(got); at += PageSize {
			if page := got[at : at+PageSize]; page != old[:PageSize] && page != fresh[:PageSize] {
				torn++
			}
		}
		if got[0] != got[PageSize] || got[PageSize] != got[2*PageSize] {
			mixed++
		}
	}
	require.Positive(t, torn)
	require.Positive(t, mixed)

	require.NoError(t, mapping.Sync(PageSize, PageSize))
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/f")[PageSize : 2*PageSize] },
		fresh[:PageSize])
	require.NoError(t, mapping.Unmap())
	require.NoError(t, f.Close())
}

// Mapping.Sync covers the bytes it was asked for and no others, although a disk would take the whole page.
func TestCrashMsyncIsExact(t *testing.T) {
	m := NewMem()
	putSync(t, m, "/f", "aabb")
	f, err := m.OpenReadWrite("/f")
	require.NoError(t, err)
	mapping := mustMap(t, f, 4, true)
	copy(mapping.Bytes(), "xxyy")
	require.NoError(t, mapping.Sync(0, 2))
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/f") }, "xxbb", "xxyy")
	require.NoError(t, mapping.Unmap())
	require.NoError(t, f.Close())
}

// A range sync persists the length only as far as the range reaches.
func TestCrashMsyncPersistsLength(t *testing.T) {
	m := NewMem()
	putSync(t, m, "/f", "")
	f, err := m.OpenReadWrite("/f")
	require.NoError(t, err)
	require.NoError(t, f.Allocate(0, 4*PageSize))
	mapping := mustMap(t, f, 4*PageSize, true)
	mapping.Bytes()[PageSize] = 1
	require.NoError(t, mapping.Sync(PageSize, 1))
	lengths := make(map[int]bool)
	for seed := range uint64(seeds) {
		got := get(t, m.CrashClone(seed), "/f")
		lengths[len(got)] = true
		require.Equal(t, byte(1), got[PageSize])
	}
	require.Equal(t, PageSize+1, slices.Min(slices.Collect(maps.Keys(lengths))))
	require.Equal(t, 4*PageSize, slices.Max(slices.Collect(maps.Keys(lengths))))
	require.NoError(t, mapping.Unmap())
	require.NoError(t, f.Close())
}

func TestCrashNamesInOrder(t *testing.T) {
	m := NewMem()
	for _, name := range []string{"1", "2", "3"} {
		put(t, m, "/"+name, "")
	}
	list := func(c *MemFS) string {
		names, err := c.List("/")
		require.NoError(t, err)
		return strings.Join(names, " ")
	}
	requireOutcomes(t, m, list, "", "1", "1 2", "1 2 3")
	require.NoError(t, m.SyncDir("/"))
	require.NoError(t, m.Rename("/1", "/0"))
	require.NoError(t, m.Remove("/2"))
	requireOutcomes(t, m, list, "1 2 3", "0 2 3", "0 3")
}

func TestCrashRenameBetweenDirectories(t *testing.T) {
	m := NewMem()
	require.NoError(t, MkdirAllSync(m, "/a"))
	require.NoError(t, MkdirAllSync(m, "/b"))
	put(t, m, "/a/f", "")
	require.NoError(t, m.SyncDir("/a"))
	put(t, m, "/b/before", "")
	require.NoError(t, m.Rename("/a/f", "/b/f"))
	put(t, m, "/a/after", "")
	look := func(c *MemFS) string {
		a, err := c.List("/a")
		require.NoError(t, err)
		b, err := c.List("/b")
		require.NoError(t, err)
		return strings.Join(a, " ") + "|" + strings.Join(b, " ")
	}
	requireOutcomes(t, m, look, "f|", "f|before", "|before f", "after|before f")
	require.NoError(t, m.SyncDir("/b")) // takes the removal from /a along
	requireOutcomes(t, m, look, "|before f", "after|before f")
}

func TestCrashNewDirectoryNeedsItsParent(t *testing.T) {
	m := NewMem()
	require.NoError(t, m.MkdirAll("/a/b"))
	require.NoError(t, writeFileSync(m, "/a/b/f", []byte("x")))
	require.NoError(t, m.SyncDir("/a/b"))
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/a/b/f") }, "missing", "x")
	require.NoError(t, MkdirAllSync(m, "/a/b")) // exists, and its own name becomes durable
	require.NoError(t, MkdirAllSync(m, "/a"))
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/a/b/f") }, "x")
}

func TestCrashRelaxedNames(t *testing.T) {
	m := NewMemWith(MemOptions{RelaxedNames: true})
	require.NoError(t, m.MkdirAll("/a/b"))
	require.NoError(t, writeFileSync(m, "/a/b/f", []byte("x")))
	put(t, m, "/a/b/later", "")
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/a/b/f") }, "x")
	requireOutcomes(t, m, func(c *MemFS) string { return get(t, c, "/a/b/later") }, "", "missing")
	require.NoError(t, m.MkdirAll("/c/d"))
	require.NoError(t, m.SyncDir("/c/d"))
	requireOutcomes(t, m, func(c *MemFS) string {
		_, err := c.Stat("/c/d")
		return fmt.Sprint(err == nil)
	}, "true")
}

func TestCrashCloneIsAFunctionOfTheSeed(t *testing.T) {
	m := NewMem()
	for i := range 20 {
		require.NoError(t, m.MkdirAll(fmt.Sprintf("/d%d", i%4)))
		put(t, m, fmt.Sprintf("/d%d/%d", i%4, i), strings.Repeat("x", 10000))
	}
	for seed := range uint64(20) {
		require.Equal(t, dump(t, m.CrashClone(seed)), dump(t, m.CrashClone(seed)))
	}
	require.Equal(t, dump(t, m), dump(t, m.CloneAll()))
}

func TestCrashCloneIsIndependent(t *testing.T) {
	m := NewMemWith(MemOptions{LimitBytes: 1 << 20})
	putSync(t, m, "/f", "one")
	m.SetUsage(&DiskUsage{UsedRatio: 0.5})
	clone := m.CrashClone(1)
	put(t, m, "/f", "two")
	require.Equal(t, "one", get(t, clone, "/f"))
	put(t, clone, "/f", "three")
	require.Equal(t, "two", get(t, m, "/f"))
	require.EqualValues(t, PageSize, clone.UsedBytes())
	require.EqualValues(t, 1<<20, clone.space.limitBytes())
	usage, err := clone.Usage("/")
	require.NoError(t, err)
	require.InDelta(t, 0.5, usage.UsedRatio, 0)
	// A second crash of the clone starts from what the first one left.
	again := clone.CrashClone(3)
	require.Contains(t, []string{"one", "", "three", "\x00\x00\x00\x00\x00"}, get(t, again, "/f"))
}

// dump lists every path with its content.
func dump(t require.TestingT, fsys FS) map[string]string {
	all := make(map[string]string)
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fsys.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			at := strings.TrimSuffix(dir, "/") + "/" + name
			info, err := fsys.Stat(at)
			require.NoError(t, err)
			if info.IsDir() {
				all[at] = "directory"
				walk(at)
				continue
			}
			data, err := ReadFile(fsys, at)
			require.NoError(t, err)
			all[at] = string(data)
		}
	}
	walk("/")
	return all
}

// A random script of writes, stores, cuts and syncs against one durably named file: after a crash every
// sector holds what the last sync left there, what is visible now, or zeros where the file had been cut or
// has grown; and what no operation touched since the sync is there for certain.
func TestCrashPropertyOneFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		f, err := m.Create("/f")
		require.NoError(t, err)
		require.NoError(t, m.SyncDir("/"))
		var synced, visible []byte
		lowest := 0 // the smallest length since the sync
		const most = 4 * PageSize
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				off := rapid.IntRange(0, most-1).Draw(t, "off")
				data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")},
					rapid.IntRange(1, most-off).Draw(t, "len"))
				_, err := f.WriteAt(data, int64(off))
				require.NoError(t, err)
				visible = append(visible, make([]byte, max(0, off+len(data)-len(visible)))...)
				copy(visible[off:], data)
			case 1:
				size := rapid.IntRange(0, most).Draw(t, "size")
				require.NoError(t, f.Truncate(int64(size)))
				lowest = min(lowest, size)
				visible = append(bytes.Clone(visible), make([]byte, max(0, size-len(visible)))...)[:size]
			case 2:
				require.NoError(t, f.Sync())
				synced, lowest = bytes.Clone(visible), len(visible)
			case 3:
				clone := m.CrashClone(rapid.Uint64().Draw(t, "seed"))
				got, err := ReadFile(clone, "/f")
				require.NoError(t, err)
				requireCrashImage(t, got, synced, visible, lowest)
				names, err := clone.List("/")
				require.NoError(t, err)
				require.Equal(t, []string{"f"}, names)
			}
		}
		require.NoError(t, f.Close())
	})
}

func requireCrashImage(t *rapid.T, got, synced, visible []byte, lowest int) {
	longest := max(len(synced), len(visible))
	require.LessOrEqual(t, len(got), longest)
	require.GreaterOrEqual(t, len(got), min(lowest, len(synced)))
	if lowest >= len(synced) { // no cut: the length is between the two
		require.GreaterOrEqual(t, len(got), len(synced))
		require.LessOrEqual(t, len(got), len(visible))
	}
	padded := func(data []byte, at int) []byte {
		sector := make([]byte, sectorSize)
		if at < len(data) {
			copy(sector, data[at:])
		}
		return sector
	}
	for at := 0; at < len(got); at += sectorSize {
		end := min(at+sectorSize, len(got)) - at
		sector := padded(got, at)[:end]
		old, now := padded(synced, at), padded(visible, at)
		choices := [][]byte{old[:end], now[:end]}
		if at+sectorSize > lowest { // the cut may have zeroed what lies behind it, and mixes at its sector
			cut := bytes.Clone(old)
			clear(cut[max(0, lowest-at):])
			kept := bytes.Clone(now)
			copy(kept[max(0, lowest-at):], old[max(0, lowest-at):])
			choices = append(choices, cut[:end], kept[:end])
		}
		found := slices.ContainsFunc(choices, func(c []byte) bool { return bytes.Equal(c, sector) })
		require.True(t, found, "sector at %d of %d bytes", at, len(got))
	}
}
