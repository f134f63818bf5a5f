package persist

import (
	"bytes"
	"io"
	"log/slog"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

type table struct {
	Offsets map[string]int64 `json:"offsets"`
}

const file = "/config/t.json"

func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newFS(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/config"))
	return fsys
}

func write(t *testing.T, fsys vfs.FS, name, text string) {
	require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte(text), false))
}

func names(t *testing.T, fsys vfs.FS) (out []string) {
	all, err := fsys.List("/config")
	require.NoError(t, err)
	for _, n := range all {
		out = append(out, path.Base(n))
	}
	return out
}

// kept are the contents of the files that were kept aside.
func kept(t *testing.T, fsys vfs.FS) (out []string) {
	for _, n := range names(t, fsys) {
		if strings.Contains(n, ".damaged-") {
			data, err := vfs.ReadFile(fsys, "/config/"+n)
			require.NoError(t, err)
			out = append(out, string(data))
		}
	}
	return out
}

func TestSaveAndLoad(t *testing.T) {
	fsys := newFS(t)
	var got table
	found, err := Load(fsys, file, &got, silent())
	require.NoError(t, err)
	require.False(t, found)

	for i := range int64(3) {
		require.NoError(t, Save(fsys, file, &table{map[string]int64{"a": i}}))
	}
	found, err = Load(fsys, file, &got, silent())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, int64(2), got.Offsets["a"])
	require.Equal(t, []string{"t.json", "t.json.bak"}, names(t, fsys))
	var backup table
	_, err = Load(fsys, file+".bak", &backup, silent())
	require.NoError(t, err)
	require.Equal(t, int64(1), backup.Offsets["a"], "the backup is the state before")
}

// B18 (a) to (c): the backup is in force, the damage is kept aside, and it never becomes a backup itself.
func TestDamagedFileFallsBackToItsBackup(t *testing.T) {
	const good = `{"offsets":{"a":7}}`
	f := func(t *testing.T, damaged string) {
		fsys := newFS(t)
		if damaged != "missing" {
			write(t, fsys, file, damaged)
		}
		write(t, fsys, file+".bak", good)
		var got table
		var log bytes.Buffer
		found, err := Load(fsys, file, &got, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, map[string]int64{"a": 7}, got.Offsets)
		require.Contains(t, log.String(), file, "the operator is told which file")
		if damaged == "missing" {
			require.Empty(t, kept(t, fsys))
		} else {
			require.Equal(t, []string{damaged}, kept(t, fsys))
		}
		require.NoError(t, Save(fsys, file, &table{map[string]int64{"a": 8}}))
		data, err := vfs.ReadFile(fsys, file+".bak")
		require.NoError(t, err)
		require.Equal(t, good, string(data), "the backup of the next save is the state in force, not the damage")
	}
	for name, damaged := range map[string]string{
		"NULs of equal length":       strings.Repeat("\x00", len(good)),
		"rubbish behind valid JSON":  good + `7}}}`,
		"an old tail":                `{"offsets":{}}` + `ets":{"a":1,"b":2}}`,
		"cut short":                  good[:len(good)-3],
		"empty":                      "",
		"blanks only":                "  \n",
		"no JSON at all":             "offsets=7",
		"another type":               `[1,2,3]`,
		"a table of something else":  `{"offsets":"x"}`,
		"a number that does not fit": `{"offsets":{"a":99999999999999999999}}`,
		"missing":                    "missing",
	} {
		t.Run(name, func(t *testing.T) { f(t, damaged) })
	}
}

// A file that was allocated longer than its text is whole: fastjson reads the NULs as blanks, Java's too.
func TestNULsBehindTheText(t *testing.T) {
	fsys := newFS(t)
	write(t, fsys, file, `{"offsets":{"a":7}}`+"\x00\x00\x00")
	var got table
	found, err := Load(fsys, file, &got, silent())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, map[string]int64{"a": 7}, got.Offsets)
}

// A value that was read half before the damage leaves no trace in what the backup gives.
func TestBackupIsNotMixedWithTheDamage(t *testing.T) {
	fsys := newFS(t)
	write(t, fsys, file, `{"offsets":{"gone":1},"offsets":{"gone":2},`)
	write(t, fsys, file+".bak", `{"offsets":{"a":7}}`)
	var got table
	_, err := Load(fsys, file, &got, silent())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 7}, got.Offsets)
}

// B18 (d).
func TestBothDamaged(t *testing.T) {
	fsys := newFS(t)
	write(t, fsys, file, "\x00\x00")
	write(t, fsys, file+".bak", "{")
	var got table
	found, err := Load(fsys, file, &got, silent())
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, file)
	require.False(t, found)
	require.Zero(t, got)
	require.ElementsMatch(t, []string{"\x00\x00", "{"}, kept(t, fsys))

	require.NoError(t, Save(fsys, file, &table{}))
	require.NoError(t, Save(fsys, file, &table{}))
	require.ElementsMatch(t, []string{"\x00\x00", "{"}, kept(t, fsys), "saving keeps the originals")
}

// What cannot be kept aside is not overwritten: Load says so with another error.
func TestWhatCannotBeKeptAside(t *testing.T) {
	mem := newFS(t)
	write(t, mem, file, "\x00\x00")
	var got table
	full := errorfs.Wrap(mem, errorfs.MustParse(`(create "*.damaged-*" err ENOSPC)`))
	_, err := Load(full, file, &got, silent())
	require.ErrorIs(t, err, ErrDamaged, "it is moved when it cannot be copied")
	require.Equal(t, []string{"\x00\x00"}, kept(t, mem))

	mem = newFS(t)
	write(t, mem, file, "\x00\x00")
	broken := errorfs.Wrap(mem, errorfs.MustParse(`(create "*.damaged-*" err ENOSPC) (rename err EIO)`))
	_, err = Load(broken, file, &got, silent())
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, file)
}

// B18 (e) and power cuts: whatever moment is taken, the file or its backup is a state that was saved, whole.
func TestEveryCrashLeavesASavedState(t *testing.T) {
	fsys := newFS(t)
	require.NoError(t, fsys.SyncDir("/"))
	last := int64(-1)
	check := func(crashed *vfs.MemFS, acked int64) {
		var got table
		_, err := Load(crashed, file, &got, silent())
		require.NoError(t, err)
		if acked >= 0 {
			require.GreaterOrEqual(t, got.Offsets["n"], acked, "an acknowledged state is there")
			require.Len(t, got.Offsets, int(100-got.Offsets["n"])+1)
		}
	}
	var seed uint64
	for n := range int64(100) { // shrinking: the old content is always the longer one
		watched := errorfs.Wrap(fsys, errorfs.Func(func(op errorfs.Op) error {
			if op.Kind&errorfs.OpChange != 0 {
				seed++
				check(fsys.CrashClone(seed), last)
			}
			return nil
		}))
		m := map[string]int64{"n": n}
		for i := n; i < 100; i++ {
			m[strings.Repeat("k", int(i)+1)] = i
		}
		require.NoError(t, Save(watched, file, &table{m}))
		last = n
	}
	require.Greater(t, seed, uint64(500))
}
