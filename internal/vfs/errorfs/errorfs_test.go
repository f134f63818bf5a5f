package errorfs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pattern calls Inject n times with the same operation and writes "." for a pass and "x" for a failure.
func pattern(injector Injector, n int, op Op) string {
	out := ""
	for range n {
		if injector.Inject(op) != nil {
			out += "x"
		} else {
			out += "."
		}
	}
	return out
}

func TestRuleChoosesCalls(t *testing.T) {
	f := func(clauses, want string) {
		t.Helper()
		rules := MustParse("(sync " + clauses + " err EIO)")
		require.Equal(t, want, pattern(rules, len(want), Op{Kind: OpSync}))
	}
	f(``, "xxxxxx")
	f(`once`, "x.....")
	f(`times 2`, "xx....")
	f(`after 3`, "...xxx")
	f(`after 3 once`, "...x..")
	f(`nth 1`, "x.....")
	f(`nth 4`, "...x..")
	f(`every 2`, ".x.x.x")
	f(`after 1 every 2`, "..x.x.")
	f(`every 3 times 1`, "..x...")
	f(`prob 1 seed 7`, "xxxxxx")
	f(`prob 0.5 seed 7`, pattern(MustParse(`(sync prob 0.5 seed 7 err EIO)`), 40, Op{Kind: OpSync}))
}

func TestRuleMatchesKindAndPath(t *testing.T) {
	f := func(head string, op Op, want bool) {
		t.Helper()
		require.Equal(t, want, MustParse("("+head+" err EIO)").Inject(op) != nil)
	}
	f(`sync`, Op{Kind: OpSync, Path: "/x"}, true)
	f(`sync`, Op{Kind: OpMsync, Path: "/x"}, false)
	f(`sync|msync`, Op{Kind: OpMsync, Path: "/x"}, true)
	f(`any`, Op{Kind: OpUnmap}, true)
	f(`change`, Op{Kind: OpRead}, false)
	f(`change`, Op{Kind: OpRename}, true)
	f(`sync "*/commitlog/*"`, Op{Kind: OpSync, Path: "/data/store/commitlog/000"}, true)
	f(`sync "*/commitlog/*"`, Op{Kind: OpSync, Path: "/data/store/index/000"}, false)
	f(`rename "*.bak"`, Op{Kind: OpRename, Path: "/f.bak.tmp", NewPath: "/f.bak"}, true)
	f(`rename "*.tmp"`, Op{Kind: OpRename, Path: "/f.bak.tmp", NewPath: "/f.bak"}, true)
	f(`rename "*.json"`, Op{Kind: OpRename, Path: "/f.bak.tmp", NewPath: "/f.bak"}, false)
}

func TestMatchGlob(t *testing.T) {
	f := func(pattern, text string, want bool) {
		t.Helper()
		require.Equal(t, want, matchGlob(pattern, text))
	}
	f("", "", true)
	f("", "a", false)
	f("*", "", true)
	f("*", "/a/b", true)
	f("**", "x", true)
	f("a?c", "abc", true)
	f("a?c", "ac", false)
	f("*abc", "ababc", true)
	f("*ab*ab*", "abab", true)
	f("*ab*ab*", "aba", false)
	f("a*", "ba", false)
	f("/a/*/c", "/a/b/d/c", true)
}

func TestSeveralRules(t *testing.T) {
	rules := MustParse(`
		; the log loses its disk after two flushes, later the directory too
		(sync "*log*" after 2 err ENOSPC)
		(sync after 3 err EIO) ; sees the calls of the first rule as well
	`)
	f := func(path string, want error) {
		t.Helper()
		require.Equal(t, want, rules.Inject(Op{Kind: OpSync, Path: path}))
	}
	f("/log", nil)
	f("/log", nil)
	f("/log", syscall.ENOSPC)
	f("/log", syscall.ENOSPC)
	f("/index", syscall.EIO)
	require.Equal(t, 2, rules.Fired(0))
	require.Equal(t, 2, rules.Fired(1))
	require.NoError(t, MustParse("").Inject(Op{Kind: OpSync}))
}

func TestParseErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "errorfs: ")
	}
	f(`sync`, `byte 0, at "sync": want ( at`)
	f(`"(" sync)`, "want ( at")
	f(`""`, "want ( at")
	f(`(`, "want the kinds")
	f(`()`, `no operation is called ")"`)
	f(`("sync")`, "want the kinds")
	f(`(flush err EIO)`, `no operation is called "flush"`)
	f(`(sync|  err EIO)`, `no operation is called ""`)
	f(`(sync err EIO`, "want a clause or )")
	f(`(sync "a" "b" err EIO)`, "want a clause or )")
	f(`(sync "" err EIO)`, "empty pattern")
	f(`(sync "a err EIO)`, "string without an end")
	f(`(sync err EFOO)`, "no such error; there are EACCES EAGAIN")
	f(`(sync err)`, "want an argument")
	f(`(sync err "EIO")`, "want an argument")
	f(`(sync after x err EIO)`, "want a number from 0")
	f(`(sync after -1 err EIO)`, "want a number from 0")
	f(`(sync nth 0 err EIO)`, "want a number from 1")
	f(`(sync after 9223372036854775807 err EIO)`, "want a number")
	f(`(sync never err EIO)`, "no such clause")
	f(`(sync err EIO err EIO)`, "clause given twice")
	f(`(sync once times 2 err EIO)`, "exclude each other")
	f(`(sync nth 2 once err EIO)`, "nth excludes")
	f(`(sync)`, "rule does nothing")
	f(`(sync late)`, "rule does nothing")
	f(`(sync late delay 1s)`, "late and short need err")
	f(`(write late short 1 err EIO)`, "late and short exclude")
	f(`(sync short 1 err EIO)`, "short is for write alone")
	f(`(sync prob 2 seed 1 err EIO)`, "want a probability")
	f(`(sync prob NaN seed 1 err EIO)`, "want a probability")
	f(`(sync prob 0.5 err EIO)`, "want seed")
	f(`(sync prob 0.5 seed x err EIO)`, "want a number")
	f(`(sync delay 0s)`, "want a duration")
	f(`(sync call slow)`, `hook "slow"`)
	f(string(make([]byte, maxExpression+1)), "the limit is")
	require.Panics(t, func() { MustParse("(") })
}

// Property: Parse never panics, and what it accepts can be asked about any operation.
func FuzzParse(f *testing.F) {
	f.Add(`(sync|msync "*/commitlog/*" after 3 err EIO)`)
	f.Add(`(write "a?b" nth 2 short 10 err ENOSPC) ; comment` + "\n(any once late err EINJECTED)")
	f.Add(`(read every 2 prob 0.25 seed 9 times 4 err EOF)(open delay 5ms)`)
	f.Add(`(sync "\x00\"" err EIO)`)
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := Parse(text, WithSleep(func(time.Duration) {}))
		if err != nil {
			return
		}
		for bit := Kind(1); bit < kindEnd; bit <<= 1 {
			_ = rules.Inject(Op{Kind: bit, Path: "/a/commitlog/0", NewPath: text})
		}
	})
}

func TestDelayAndHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []Op
		rules := MustParse(`(sync "/f" once delay 3s)(write call watch err EIO)(read call veto)`,
			WithHook("watch", func(op Op) error {
				asked = append(asked, op)
				return nil
			}),
			WithHook("veto", func(Op) error { return io.ErrUnexpectedEOF }))
		fsys := Wrap(vfs.NewMem(), rules)
		file, err := fsys.Create("/f")
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, file.Sync())
		require.NoError(t, file.Sync())
		require.Equal(t, 3*time.Second, time.Since(start))
		_, err = file.WriteAt([]byte("abc"), 7)
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, []Op{{Kind: OpWrite, Path: "/f", Off: 7, N: 3}}, asked)
		_, err = file.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, file.Close())
	})
}

func TestShortAndLate(t *testing.T) {
	m := vfs.NewMem()
	fsys := Wrap(m, MustParse(`
		(write once short 3 err ENOSPC)
		(rename late err EIO)
		(create "/late" late err EIO)
		(map late err ENOMEM)
		(lock "/late" late err EIO)
		(stat late err EIO)`))
	file, err := fsys.Create("/f")
	require.NoError(t, err)
	n, err := file.WriteAt([]byte("abcdef"), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 3, n)
	n, err = file.WriteAt([]byte("de"), 3)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = file.Map(5, true)
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.NoError(t, file.Close())
	require.ErrorIs(t, fsys.Rename("/f", "/g"), syscall.EIO)
	data, err := vfs.ReadFile(m, "/g") // it happened
	require.NoError(t, err)
	require.Equal(t, "abcde", string(data))
	_, err = fsys.Create("/late")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = fsys.Lock("/late")
	require.ErrorIs(t, err, syscall.EIO)
	info, err := fsys.Stat("/g")
	require.ErrorIs(t, err, syscall.EIO)
	require.Nil(t, info)
	files, mappings := m.Handles() // nothing leaked
	require.Zero(t, files+mappings)
}

// Every operation passes when nothing is injected, and fails with the injected error when it is, under its
// own kind.
func TestEveryOperation(t *testing.T) {
	seen := make(map[Kind]bool)
	failing := Kind(0)
	m := vfs.NewMem()
	fsys := Wrap(m, Func(func(op Op) error {
		seen[op.Kind] = true
		require.NotEmpty(t, op.String())
		if op.Kind&failing != 0 {
			return ErrInjected
		}
		return nil
	}))
	file, err := fsys.OpenReadWrite("/f")
	require.NoError(t, err)
	require.NoError(t, file.Allocate(0, 10))
	require.NoError(t, vfs.WriteFileAtomic(m, "/r", nil, false))
	require.Equal(t, -1, file.Fd())
	require.Equal(t, "/f", file.Name())
	mapping, err := file.Map(10, true)
	require.NoError(t, err)
	require.Len(t, mapping.Bytes(), 10)

	drop := func(closer io.Closer, err error) error {
		if err == nil {
			err = closer.Close()
		}
		return err
	}
	calls := map[Kind]func() error{
		OpOpen:          func() error { return drop(fsys.Open("/f")) },
		OpOpenReadWrite: func() error { return drop(fsys.OpenReadWrite("/f")) },
		OpCreate:        func() error { return drop(fsys.Create("/g")) },
		OpRename:        func() error { return fsys.Rename("/r", "/h") },
		OpRemove:        func() error { return fsys.Remove("/g") },
		OpMkdir:         func() error { return fsys.MkdirAll("/d") },
		OpRemoveAll:     func() error { return fsys.RemoveAll("/d") },
		OpList:          func() error { _, err := fsys.List("/"); return err },
		OpStat:          func() error { _, err := file.Stat(); return err },
		OpChtimes:       func() error { return fsys.Chtimes("/f", time.Time{}) },
		OpSyncDir:       func() error { return fsys.SyncDir("/") },
		OpUsage:         func() error { _, err := fsys.Usage("/"); return err },
		OpLock:          func() error { return drop(fsys.Lock("/f")) },
		OpRead:          func() error { _, err := file.ReadAt(make([]byte, 1), 0); return err },
		OpWrite:         func() error { _, err := file.WriteAt([]byte("x"), 0); return err },
		OpTruncate:      func() error { return file.Truncate(10) },
		OpSync:          file.Sync,
		OpAllocate:      func() error { return file.Allocate(0, 10) },
		OpMsync:         func() error { return mapping.Sync(0, 10) },
		OpAdvise:        func() error { return mapping.Advise(0, 10, vfs.AdviseRandom) },
		OpResident:      func() error { _, err := mapping.Resident(0, 10); return err },
		OpPin:           func() error { return mapping.Lock(0, 10) },
		OpUnpin:         func() error { return mapping.Unlock(0, 10) },
	}
	for bit := Kind(1); bit < kindEnd; bit <<= 1 {
		if call := calls[bit]; call != nil {
			failing = bit
			require.ErrorIs(t, call(), ErrInjected, bit.String())
			failing = 0
			require.NoError(t, call(), bit.String())
		}
	}
	_, err = fsys.Stat("/f")
	require.NoError(t, err)

	// What gives something back is done even when it is reported as failed.
	failing = OpAny &^ OpLock
	require.ErrorIs(t, mapping.Unmap(), ErrInjected)
	require.ErrorIs(t, file.Close(), ErrInjected)
	lock, err := fsys.Lock("/f")
	require.NoError(t, err)
	require.ErrorIs(t, lock.Close(), ErrInjected)
	files, mappings := m.Handles()
	require.Zero(t, files+mappings)
	for bit := Kind(1); bit < kindEnd; bit <<= 1 {
		require.True(t, seen[bit] || bit == OpMap, bit.String())
	}
	var pathError *fs.PathError
	require.True(t, errors.As(fsys.SyncDir("/"), &pathError))
	require.Equal(t, "injected syncdir", pathError.Op)
}

func TestKindNames(t *testing.T) {
	for name, kind := range kindNames {
		require.Equal(t, name, kind.String())
	}
	require.Equal(t, "sync|msync", (OpSync | OpMsync).String())
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	rules := MustParse(`(sync times 100 prob 0.5 seed 1 err EIO)`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = pattern(rules, 200, Op{Kind: OpSync}) })
	}
	wg.Wait()
	require.Equal(t, 100, rules.Fired(0))
}
