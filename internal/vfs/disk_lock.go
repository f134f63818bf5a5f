package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockTable holds the record locks of this process. Two traits of POSIX locks make it necessary:
//
//   - They belong to the process, so a second F_SETLK from the same process succeeds. The table makes it
//     ErrLocked.
//   - Closing any descriptor of the file drops them. Lock therefore looks at the table before it opens the
//     file, and diskFile.Close parks such descriptors here until the lock is released. Somebody who opens a
//     locked file with package os and closes it still drops the lock.
//
// An open-file-description lock has neither trait, but mixing is what counts: Java's FileLock is a POSIX
// lock, and only the same kind tells in F_GETLK who holds it (`lslocks` then names us as it names the JVM).
type lockTable struct {
	mu   sync.Mutex
	held map[fileID]*diskLock
}

var locks = lockTable{held: make(map[fileID]*diskLock)}

// diskLock is one held lock.
type diskLock struct {
	id fileID
	f  *os.File
	// parked are descriptors whose Close would have dropped the lock. Their number is how often the locked
	// file was opened meanwhile, which the store does once.
	parked []*os.File
	closed bool
}

// Lock implements FS.
func (diskFS) Lock(name string) (io.Closer, error) { return locks.lock(name) }

func (t *lockTable) lock(name string) (io.Closer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if info, err := os.Stat(name); err == nil {
		id, err := idOf(info)
		if err != nil {
			return nil, err
		}
		if t.held[id] != nil {
			return nil, lockError(name, fmt.Errorf("held by this process: %w", ErrLocked))
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	l, err := t.lockOpen(f)
	if err != nil {
		return nil, lockError(name, errors.Join(err, t.closeLocked(f)))
	}
	return l, nil
}

// lockOpen takes the lock on f. The caller holds mu and closes f on failure.
func (t *lockTable) lockOpen(f *os.File) (*diskLock, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	id, err := idOf(info)
	if err != nil {
		return nil, err
	}
	if t.held[id] != nil { // the name was moved onto a file we hold since lock looked
		return nil, fmt.Errorf("held by this process: %w", ErrLocked)
	}
	err = setLock(f, unix.F_WRLCK)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	l := &diskLock{id: id, f: f}
	t.held[id] = l
	return l, nil
}

// setLock sets or clears the record lock on byte 0, the range of Java's tryLock(0, 1, false).
func setLock(f *os.File, kind int16) error {
	record := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: 0, Len: 1}
	return withDescriptor(f, func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &record)
	})
}

// Close releases the lock. A second call is fs.ErrClosed.
func (l *diskLock) Close() error {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if l.closed {
		return lockError(l.f.Name(), fs.ErrClosed)
	}
	l.closed = true
	delete(locks.held, l.id)
	errs := []error{setLock(l.f, unix.F_UNLCK), l.f.Close()}
	for _, f := range l.parked {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// closeFile closes f, or parks it when that would drop a lock.
func (t *lockTable) closeFile(f *os.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeLocked(f)
}

func (t *lockTable) closeLocked(f *os.File) error {
	if len(t.held) == 0 {
		return f.Close()
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	id, err := idOf(info)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if l := t.held[id]; l != nil {
		l.parked = append(l.parked, f)
		return nil
	}
	return f.Close()
}

func lockError(name string, err error) error {
	return &fs.PathError{Op: "lock", Path: name, Err: err}
}
