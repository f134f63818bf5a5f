package store

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strconv"
	"syscall"

	"skylark/internal/vfs"
)

const (
	lockFileName  = "lock"
	abortFileName = "abort"
	// lockContent is what we write into it. Java writes "lock" at every start and never reads it.
	lockContent     = "LOCK"
	javaLockContent = "lock"
)

// lockDirectory takes the file `lock` of a store as Java does: a record lock on byte 0, a word of four bytes inside. A
// store in use, by us or by Java, is ErrLocked. foreign tells that Java's broker was the last one here.
func lockDirectory(fs vfs.FS, rootDir string) (l io.Closer, foreign bool, err error) {
	name := path.Join(rootDir, lockFileName)
	l, err = fs.Lock(name)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, false, fmt.Errorf("%w: %s: %w", ErrLocked, name, err)
	}
	if err != nil {
		return nil, false, fmt.Errorf("store: lock %s: %w", name, err)
	}
	f, err := fs.OpenReadWrite(name)
	if err == nil {
		var word [len(lockContent)]byte
		if n, _ := f.ReadAt(word[:], 0); string(word[:n]) == javaLockContent {
			foreign = true
		}
		_, err = f.WriteAt([]byte(lockContent), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("store: write %s: %w", name, err), l.Close())
	}
	return l, foreign, nil
}

// abortFile is the file that exists while a store runs: whoever finds it at a start knows that the last run did not end
// well (Java's `abort`: the process id in decimal).
type abortFile struct {
	fs   vfs.FS
	path string
}

func newAbortFile(fs vfs.FS, rootDir string) abortFile {
	return abortFile{fs: fs, path: path.Join(rootDir, abortFileName)}
}

func (a abortFile) exists() (bool, error) {
	_, err := a.fs.Stat(a.path)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Aborted tells that the last run on a directory did not end by Close, or has not ended.
func Aborted(fs vfs.FS, rootDir string) (bool, error) { return newAbortFile(fs, rootDir).exists() }

// write makes the file, durably: a power cut right after the start must leave it.
func (a abortFile) write() error {
	return vfs.WriteFileAtomic(a.fs, a.path, []byte(strconv.Itoa(syscall.Getpid())), false)
}

func (a abortFile) remove() error {
	if err := ignoreNotExist(a.fs.Remove(a.path)); err != nil {
		return err
	}
	return a.fs.SyncDir(path.Dir(a.path))
}
