package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMemEqualsDisk runs one random script on the disk and on MemFS. Every call must answer the same: the
// same bytes, lengths and names, and an error of the same class. Excepted are the two documented
// differences of MemFS: a writable mapping over a hole (the script reserves first) and a larger mapping
// beside a live smaller one (then both go without).
func TestMemEqualsDisk(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(base, "run")
		require.NoError(rt, err)
		defer os.RemoveAll(root)
		mem := NewMem()
		require.NoError(rt, mem.MkdirAll(root))
		p := &pair{t: rt, root: root, disk: OS, mem: mem}
		defer p.closeAll()
		rt.Repeat(map[string]func(*rapid.T){
			"open":      p.open,
			"close":     p.close,
			"write":     p.write,
			"read":      p.read,
			"truncate":  p.truncate,
			"allocate":  p.allocate,
			"sync":      p.sync,
			"map":       p.mapFile,
			"store":     p.store,
			"unmap":     p.unmap,
			"remove":    p.remove,
			"removeall": p.removeAll,
			"rename":    p.rename,
			"mkdir":     p.mkdir,
			"":          p.check,
		})
	})
}

// pair is both file systems and what is open on them.
type pair struct {
	t         *rapid.T
	root      string
	disk, mem FS
	files     []openPair
	mappings  []mappingPair
}

type openPair struct{ disk, mem File }

type mappingPair struct {
	disk, mem Mapping
	writable  bool
}

const maxScriptFile = 5 * PageSize

func (p *pair) path(t *rapid.T, label string) string {
	names := []string{"a", "b", "d", "d/a", "d/e", "d/e/a", "a/x", "missing/x", "."}
	return p.root + "/" + rapid.SampledFrom(names).Draw(t, label)
}

// class names what an error is, without paths and wording.
func class(err error) string {
	for _, known := range []error{ErrLocked, ErrMapped, ErrMapRange, ErrHole, io.EOF, fs.ErrClosed} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, fs.ErrPermission):
		return "permission"
	}
	return "other"
}

func (p *pair) same(t *rapid.T, disk, mem error) bool {
	require.Equal(t, class(disk), class(mem), "disk: %v, mem: %v", disk, mem)
	return disk == nil
}

func (p *pair) open(t *rapid.T) {
	name := p.path(t, "name")
	call := rapid.SampledFrom([]string{"open", "openrw", "create"}).Draw(t, "call")
	by := func(fsys FS) (File, error) {
		switch call {
		case "open":
			return fsys.Open(name)
		case "openrw":
			return fsys.OpenReadWrite(name)
		default:
			return fsys.Create(name)
		}
	}
	disk, diskErr := by(p.disk)
	mem, memErr := by(p.mem)
	if p.same(t, diskErr, memErr) {
		require.Equal(t, disk.Name(), mem.Name())
		p.files = append(p.files, openPair{disk, mem})
	}
}

// file picks an open file, or skips the step.
func (p *pair) file(t *rapid.T) openPair {
	if len(p.files) == 0 {
		t.Skip("nothing is open")
	}
	return p.files[rapid.IntRange(0, len(p.files)-1).Draw(t, "file")]
}

func (p *pair) close(t *rapid.T) {
	f := p.file(t)
	p.same(t, f.disk.Close(), f.mem.Close())
	if rapid.Bool().Draw(t, "forget") { // else it stays as a closed file to call
		p.files = without(p.files, f)
	}
}

func (p *pair) write(t *rapid.T) {
	f := p.file(t)
	off := rapid.Int64Range(-1, maxScriptFile-1).Draw(t, "off")
	data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
	n, diskErr := f.disk.WriteAt(data, off)
	m, memErr := f.mem.WriteAt(data, off)
	p.same(t, diskErr, memErr)
	require.Equal(t, n, m)
}

func (p *pair) read(t *rapid.T) {
	f := p.file(t)
	off := rapid.Int64Range(-1, maxScriptFile).Draw(t, "off")
	size := rapid.IntRange(1, 2*PageSize).Draw(t, "size") // package os does not look at an empty call
	disk, mem := make([]byte, size), make([]byte, size)
	n, diskErr := f.disk.ReadAt(disk, off)
	m, memErr := f.mem.ReadAt(mem, off)
	p.same(t, diskErr, memErr)
	require.Equal(t, n, m)
	require.Equal(t, disk, mem)
}

func (p *pair) truncate(t *rapid.T) {
	f := p.file(t)
	size := rapid.Int64Range(-1, maxScriptFile).Draw(t, "size")
	p.same(t, f.disk.Truncate(size), f.mem.Truncate(size))
}

func (p *pair) allocate(t *rapid.T) {
	f := p.file(t)
	off := rapid.Int64Range(-1, maxScriptFile-1).Draw(t, "off")
	n := rapid.Int64Range(0, maxScriptFile-max(off, 0)).Draw(t, "n")
	p.same(t, f.disk.Allocate(off, n), f.mem.Allocate(off, n))
}

func (p *pair) sync(t *rapid.T) {
	if len(p.mappings) > 0 && rapid.Bool().Draw(t, "mapping") {
		m := p.mapping(t)
		off := rapid.Int64Range(-1, maxScriptFile).Draw(t, "off")
		n := rapid.Int64Range(-1, maxScriptFile).Draw(t, "n")
		p.same(t, m.disk.Sync(off, n), m.mem.Sync(off, n))
		return
	}
	f := p.file(t)
	p.same(t, f.disk.Sync(), f.mem.Sync())
}

func (p *pair) mapFile(t *rapid.T) {
	f := p.file(t)
	writable := rapid.Bool().Draw(t, "writable")
	size := rapid.Int64Range(0, maxScriptFile).Draw(t, "size")
	if info, err := f.disk.Stat(); err == nil && writable && info.Size() > 0 {
		p.same(t, f.disk.Allocate(0, info.Size()), f.mem.Allocate(0, info.Size()))
		size = min(size, info.Size()+1)
	}
	disk, diskErr := f.disk.Map(size, writable)
	mem, memErr := f.mem.Map(size, writable)
	if diskErr == nil && errors.Is(memErr, ErrMapRange) && len(p.mappings) > 0 {
		require.NoError(t, disk.Unmap())
		t.Skip("a larger mapping beside a smaller one")
	}
	if p.same(t, diskErr, memErr) {
		require.Equal(t, len(disk.Bytes()), len(mem.Bytes()))
		require.Equal(t, cap(disk.Bytes()), cap(mem.Bytes()))
		p.mappings = append(p.mappings, mappingPair{disk, mem, writable})
	}
}

func (p *pair) mapping(t *rapid.T) mappingPair {
	if len(p.mappings) == 0 {
		t.Skip("nothing is mapped")
	}
	return p.mappings[rapid.IntRange(0, len(p.mappings)-1).Draw(t, "mapping")]
}

func (p *pair) store(t *rapid.T) {
	m := p.mapping(t)
	if !m.writable {
		t.Skip("read-only")
	}
	off := rapid.IntRange(0, len(m.disk.Bytes())-1).Draw(t, "off")
	data := rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "data")
	copy(m.disk.Bytes()[off:], data)
	copy(m.mem.Bytes()[off:], data)
	advice := Advice(rapid.IntRange(int(AdviseNormal)-1, int(AdvisePopulateRead)+1).Draw(t, "advice"))
	p.same(t, m.disk.Advise(int64(off), 1, advice), m.mem.Advise(int64(off), 1, advice))
}

func (p *pair) unmap(t *rapid.T) {
	m := p.mapping(t)
	p.same(t, m.disk.Unmap(), m.mem.Unmap())
	p.same(t, m.disk.Unmap(), m.mem.Unmap())
	p.mappings = without(p.mappings, m)
}

func (p *pair) remove(t *rapid.T) {
	name := p.path(t, "name")
	if !strings.HasSuffix(name, ".") { // unlink of "." is its own error
		p.same(t, p.disk.Remove(name), p.mem.Remove(name))
	}
}

func (p *pair) removeAll(t *rapid.T) {
	name := p.path(t, "name")
	if !strings.HasSuffix(name, ".") {
		p.same(t, p.disk.RemoveAll(name), p.mem.RemoveAll(name))
	}
}

func (p *pair) rename(t *rapid.T) {
	from, to := p.path(t, "from"), p.path(t, "to")
	if !strings.HasSuffix(from, ".") && !strings.HasSuffix(to, ".") {
		p.same(t, p.disk.Rename(from, to), p.mem.Rename(from, to))
	}
}

func (p *pair) mkdir(t *rapid.T) {
	name := p.path(t, "name")
	p.same(t, p.disk.MkdirAll(name), p.mem.MkdirAll(name))
}

// check compares all names, lengths and contents, open handles and mappings.
func (p *pair) check(t *rapid.T) {
	require.Equal(t, p.list(t, p.disk, p.root), p.list(t, p.mem, p.root))
	for _, f := range p.files {
		disk, diskErr := f.disk.Stat()
		mem, memErr := f.mem.Stat()
		if p.same(t, diskErr, memErr) {
			require.Equal(t, disk.Size(), mem.Size())
		}
	}
	for _, m := range p.mappings {
		require.Equal(t, m.disk.Bytes(), m.mem.Bytes())
	}
	for _, name := range []string{"a", "d", "a/x", "missing/x"} {
		name = p.root + "/" + name
		_, diskErr := p.disk.List(name)
		_, memErr := p.mem.List(name)
		p.same(t, diskErr, memErr)
		_, diskErr = p.disk.Stat(name)
		_, memErr = p.mem.Stat(name)
		p.same(t, diskErr, memErr)
	}
}

func (p *pair) list(t *rapid.T, fsys FS, dir string) []string {
	names, err := fsys.List(dir)
	require.NoError(t, err)
	var all []string
	for _, name := range names {
		at := filepath.Join(dir, name)
		info, err := fsys.Stat(at)
		require.NoError(t, err)
		require.Equal(t, name, info.Name())
		if info.IsDir() {
			all = append(all, at+" "+info.Mode().String())
			all = append(all, p.list(t, fsys, at)...)
			continue
		}
		data, err := ReadFile(fsys, at)
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%s %s %q", at, info.Mode(), data))
	}
	return all
}

func (p *pair) closeAll() {
	for _, m := range p.mappings {
		_ = m.disk.Unmap()
		_ = m.mem.Unmap()
	}
	for _, f := range p.files {
		_ = f.disk.Close()
		_ = f.mem.Close()
	}
}

// without returns the list less one element.
func without[T comparable](list []T, gone T) []T {
	var kept []T
	for _, item := range list {
		if item != gone {
			kept = append(kept, item)
		}
	}
	return kept
}
