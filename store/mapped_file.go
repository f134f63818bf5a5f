package store

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"sync"
	"sync/atomic"

	"skylark/internal/vfs"
)

// Sizes of the pieces in which a sparse file (a ConsumeQueue) gets blocks: the first, and how much larger each next one
// makes the reserved part. A 6 MB file takes five steps, and a queue of a few messages 64 KiB of disk.
const (
	firstReserveBytes = 64 << 10
	reserveGrowth     = 4
)

// errFileFull answers an append that does not fit into the rest of the file.
var errFileFull = errors.New("store: mapped file is full")

// mappedFile is one file of a mappedFileQueue (Java DefaultMappedFile): fixed size, named by the offset of its first
// byte, read and written through shared mappings. The descriptor is closed once a mapping exists; sendfile has its own.
//
// # Lifetime
//
// refs counts the queue that owns the file (one) and every reader of its bytes. Deleting a file unlinks it at once and
// drops the owner's reference; the mappings go with the last Release. Bytes may be touched only while a reference is
// held, because touching an unmapped page kills the process.
//
// # Positions
//
// One writer at a time appends: it copies behind wrotePosition and then moves it, so whoever loads wrotePosition may
// read everything before it. flushedPosition <= wrotePosition is durable. Every byte behind wrotePosition is zero:
// recovery guarantees it (see cut), because a stale record left there could be taken for a new one after the next crash.
// With a write buffer there is committedPosition between the two, and it is what readers look at: see readPosition.
//
// # No SIGBUS
//
// A store into a page without a block raises SIGBUS when the disk is full. So the writable mapping ends at reserved,
// below which every byte has a block: all of a commit log file from its creation on, a growing part of a ConsumeQueue
// file (thousands of queues with few entries must not cost 6 MB of disk each). Files found at the start are mapped
// read-only until somebody appends. When the reserved part grows, a larger mapping of the same pages takes over as the
// current view; readers may still be in the old one, so that one stays until the file goes: address space, not memory.
type mappedFile struct {
	fs       vfs.FS
	path     string
	fileFrom int64 // offset of the first byte in the queue
	size     int64

	wrotePosition   atomic.Int64
	flushedPosition atomic.Int64
	// populated is the end of the pages, of the write buffer if there is one, that were faulted in ahead of the writer.
	populated atomic.Int64
	// prewritten is the end of the blocks whose zeros are on the disk (see prewrite).
	prewritten atomic.Int64
	// aheadMu orders zeros that are written ahead with a writer that got there first (see claim).
	aheadMu sync.Mutex
	zeros   vfs.File // where they are written, nil: they are not; guarded by aheadMu
	// storeTimestamp is that of the last record written, ms.
	storeTimestamp atomic.Int64

	// A file with a write buffer (see transientStorePool): the writer copies into it, readers see what commit wrote.
	buffered           bool                        // had one from the beginning; set before the file is shared
	buffer             atomic.Pointer[writeBuffer] // nil once everything is in the file
	pool               *transientStorePool
	out                vfs.File // where commit writes; owned by the committer, then by the last Release
	committedPosition  atomic.Int64
	committedTimestamp atomic.Int64 // storeTimestamp of a record before committedPosition
	contentEnd         int64        // of a full file: where its bytes end; published by wrotePosition

	locked atomic.Bool // its pages are locked in memory (warmMapedFileEnable)

	cache residencyCache // which parts are in memory
	desc  descriptor     // for sendfile

	refs atomic.Int64
	view atomic.Pointer[mappedView]
	live *atomic.Int64 // mappings of the queue that exist; tests want it to reach zero
	// sparse files are mapped without read-ahead: it would fill memory with pages of zeros, read_ahead_kb of them
	// (8 MiB here, 2 ms) at the first touch of each of thousands of queues.
	sparse bool

	reserved int64         // end of the writable view, 0 while mapped read-only; owned by the writer
	old      []*mappedView // earlier views; owned by the writer, then by the last Release
}

// mappedView is one mapping of [0, len(bytes)).
type mappedView struct {
	mapping vfs.Mapping
	bytes   []byte
}

// createMappedFile makes a file of size zero bytes. With reserve it gets all its blocks now and its length is durable;
// without it stays sparse. On failure nothing is left behind; a full disk is syscall.ENOSPC.
func createMappedFile(fs vfs.FS, path string, from, size int64, reserve bool, live *atomic.Int64) (*mappedFile, error) {
	mf := &mappedFile{fs: fs, path: path, fileFrom: from, size: size, sparse: !reserve, live: live}
	f, err := fs.Create(path) // what a crash brought back under this name is stale
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	switch {
	case err != nil:
	case reserve:
		if err = mf.reserve(size); err == nil {
			err = mf.withFile(vfs.File.Sync)
		}
	default:
		err = mf.reserve(1)
	}
	if err != nil {
		if mf.view.Load() != nil {
			err = errors.Join(err, mf.unmapViews())
		}
		err = errors.Join(err, ignoreNotExist(fs.Remove(path)))
		return nil, fmt.Errorf("store: create %s of %d bytes: %w", path, size, err)
	}
	mf.refs.Store(1)
	return mf, nil
}

// openMappedFile maps an existing file of exactly size bytes for reading, all of them taken as written and flushed.
func openMappedFile(fs vfs.FS, path string, from, size int64, sparse bool, live *atomic.Int64) (*mappedFile, error) {
	mf := &mappedFile{fs: fs, path: path, fileFrom: from, size: size, sparse: sparse, live: live}
	err := mf.withFile(func(f vfs.File) error { return mf.mapView(f, size, false) })
	if err != nil {
		return nil, fmt.Errorf("store: map %s: %w", path, err)
	}
	mf.refs.Store(1)
	mf.setPosition(size)
	return mf, nil
}

// withFile opens the file for one operation.
func (mf *mappedFile) withFile(op func(f vfs.File) error) error {
	f, err := mf.fs.OpenReadWrite(mf.path)
	if err != nil {
		return err
	}
	return errors.Join(op(f), f.Close())
}

// mapView makes a mapping of [0, size) the current view.
func (mf *mappedFile) mapView(f vfs.File, size int64, writable bool) error {
	mapping, err := f.Map(size, writable)
	if err != nil {
		return err
	}
	mf.live.Add(1)
	if mf.sparse {
		_ = mapping.Advise(0, size, vfs.AdviseRandom) // a hint
	}
	if v := mf.view.Load(); v != nil {
		mf.old = append(mf.old, v)
	}
	mf.view.Store(&mappedView{mapping: mapping, bytes: mapping.Bytes()})
	return nil
}

// reserve gives [0, end), and some more of a sparse file, blocks and a writable mapping.
func (mf *mappedFile) reserve(end int64) error {
	if end <= mf.reserved {
		return nil
	}
	target := max(firstReserveBytes, mf.reserved)
	for target < end {
		target *= reserveGrowth
	}
	target = min(target, mf.size)
	err := mf.withFile(func(f vfs.File) error {
		if err := f.Allocate(0, target); err != nil {
			return err
		}
		return mf.mapView(f, target, true)
	})
	if err != nil {
		return fmt.Errorf("store: reserve %s up to %d: %w", mf.path, target, err)
	}
	mf.reserved = target
	return nil
}

// Acquire takes a reference; false means that the file is gone.
func (mf *mappedFile) Acquire() bool {
	for {
		refs := mf.refs.Load()
		if refs <= 0 {
			return false
		}
		if mf.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

// Release gives a reference back (zerocopy.Owner). The last one unmaps in a goroutine of its own: taking a GiB of
// pages out of the page table lasts milliseconds, and the last reader may be an event loop. It happens once a file.
func (mf *mappedFile) Release() {
	switch refs := mf.refs.Add(-1); {
	case refs == 0:
		go mf.unmap()
	case refs < 0:
		panic("store: BUG: reference of " + mf.path + " released twice")
	}
}

// releaseNow is Release that has unmapped when it returns, if it was the last reference. Close uses it: whoever opens the
// directory next must be able to cut the file.
func (mf *mappedFile) releaseNow() {
	if mf.refs.Add(-1) == 0 {
		mf.unmap()
	}
}

func (mf *mappedFile) unmap() {
	mf.desc.close()
	mf.aheadMu.Lock()
	mf.closeZeros()
	mf.aheadMu.Unlock()
	_ = mf.dropBuffer() // a file given up with its buffer: what was not committed is lost, and that was said
	if err := mf.unmapViews(); err != nil {
		// A second unmap is what the reference count rules out, and the kernel has no other reason.
		panic("store: BUG: " + err.Error())
	}
}

func (mf *mappedFile) unmapViews() error {
	var errs []error
	views := mf.old
	if v := mf.view.Load(); v != nil { // nil after a cut that failed
		views = append(views, v)
	}
	for _, v := range views {
		errs = append(errs, v.mapping.Unmap())
		mf.live.Add(-1)
	}
	mf.old = nil
	mf.view.Store(nil)
	return errors.Join(errs...)
}

// data is the mapped part, which has at least the written bytes; the caller holds a reference.
func (mf *mappedFile) data() []byte { return mf.view.Load().bytes }

// end is the offset in the queue behind the last written byte.
func (mf *mappedFile) end() int64 { return mf.fileFrom + mf.wrotePosition.Load() }

// full tells that nothing can be appended any more.
func (mf *mappedFile) full() bool { return mf.wrotePosition.Load() == mf.size }

// contains tells whether the byte at a queue offset belongs to this file.
func (mf *mappedFile) contains(offset int64) bool {
	return offset >= mf.fileFrom && offset < mf.fileFrom+mf.size
}

// slice is [pos, pos+n) of the written part; ok is false when that is not all written or the file is gone. The
// caller owns one reference then.
func (mf *mappedFile) slice(pos, n int64) (b []byte, ok bool) {
	if pos < 0 || n < 0 || pos+n > mf.readPosition() || !mf.Acquire() {
		return nil, false
	}
	return mf.data()[pos : pos+n : pos+n], true
}

// append copies b behind the written part. errFileFull: it does not fit. One writer at a time; no allocation, and no
// system call but when a sparse file needs its next blocks.
func (mf *mappedFile) append(b []byte) error {
	pos := mf.wrotePosition.Load()
	next := pos + int64(len(b))
	if next > mf.size {
		return errFileFull
	}
	if next > mf.reserved {
		if err := mf.reserve(next); err != nil {
			return err
		}
	}
	copy(mf.data()[pos:next], b)
	mf.wrotePosition.Store(next)
	return nil
}

// setPosition declares [0, pos) as written and flushed.
func (mf *mappedFile) setPosition(pos int64) {
	mf.wrotePosition.Store(pos)
	mf.flushedPosition.Store(pos)
	mf.populated.Store(pos)
	mf.prewritten.Store(pos)
}

// cut makes pos the end and every byte behind it zero, without reading or writing them: the file is shortened and
// grown again, and mapped read-only until the next append. This is for recovery, while nobody else has a reference.
// The new end is durable when cut returns.
func (mf *mappedFile) cut(pos int64) error { return mf.cutFile(pos, vfs.File.Sync) }

// cutLazily is cut whose new end is durable only after the next sync of the file.
func (mf *mappedFile) cutLazily(pos int64) error {
	return mf.cutFile(pos, func(vfs.File) error { return nil })
}

func (mf *mappedFile) cutFile(pos int64, sync func(f vfs.File) error) error {
	if refs := mf.refs.Load(); refs != 1 {
		panic(fmt.Sprintf("store: BUG: cut of %s with %d references", mf.path, refs))
	}
	err := mf.unmapViews()
	if err == nil {
		mf.reserved = 0
		err = mf.withFile(func(f vfs.File) error {
			if err := f.Truncate(pos); err != nil {
				return err
			}
			if err := errors.Join(f.Truncate(mf.size), sync(f)); err != nil {
				return err
			}
			return mf.mapView(f, mf.size, false)
		})
	}
	if err != nil {
		return fmt.Errorf("store: cut %s at %d: %w", mf.path, pos, err)
	}
	mf.setPosition(pos)
	return nil
}

// clearTail moves the end back to pos while the store runs; what was written behind it is zeroed, on the disk too.
// Nobody may append or flush meanwhile.
func (mf *mappedFile) clearTail(pos int64) error {
	wrote := mf.wrotePosition.Load()
	if pos >= wrote {
		return nil
	}
	if err := mf.reserve(wrote); err != nil { // a file of an earlier run is mapped read-only
		return err
	}
	mf.wrotePosition.Store(pos)
	mf.flushedPosition.Store(min(pos, mf.flushedPosition.Load()))
	v := mf.view.Load()
	clear(v.bytes[pos:wrote])
	if err := v.mapping.Sync(pos, wrote-pos); err != nil {
		return fmt.Errorf("store: clear %s from %d: %w", mf.path, pos, err)
	}
	return nil
}

// flush makes everything written, or committed, so far durable and moves flushedPosition. One flusher at a time.
func (mf *mappedFile) flush() error {
	from, to := mf.flushedPosition.Load(), mf.readPosition()
	if from >= to {
		return nil
	}
	if err := mf.view.Load().mapping.Sync(from, to-from); err != nil {
		return fmt.Errorf("store: flush %s [%d,%d): %w", mf.path, from, to, err)
	}
	mf.flushedPosition.Store(to)
	return nil
}

// dirtyPages counts the pages between the flushed and the readable position, as Java does.
func (mf *mappedFile) dirtyPages() int64 {
	return mf.readPosition()/vfs.PageSize - mf.flushedPosition.Load()/vfs.PageSize
}

// resident tells whether all of [pos, pos+n) is in memory. Unknown counts as resident: where the system cannot say,
// assuming "cold" would send every read to the slow path.
func (mf *mappedFile) resident(pos, n int64) bool {
	in, err := mf.view.Load().mapping.Resident(pos, n)
	return err != nil || in
}

// populate faults the pages of [pos, pos+n) in for writing; those of the write buffer, if there is one: the system call
// that commits makes the file's own.
func (mf *mappedFile) populate(pos, n int64) error {
	if mf.buffered {
		if b := mf.buffer.Load(); b != nil {
			return b.memory.Populate(pos, n)
		}
		return nil
	}
	return mf.view.Load().mapping.Advise(pos, n, vfs.AdvisePopulateWrite)
}

// prefetch faults the pages of [pos, pos+n) in for reading; it waits for the disk.
func (mf *mappedFile) prefetch(pos, n int64) error {
	return mf.view.Load().mapping.Advise(pos, n, vfs.AdvisePopulateRead)
}

// destroy unlinks the file and drops the owner's reference; readers keep the bytes until they release theirs.
func (mf *mappedFile) destroy() error {
	err := ignoreNotExist(mf.fs.Remove(mf.path))
	mf.Release()
	if err != nil {
		return fmt.Errorf("store: delete %s: %w", mf.path, err)
	}
	return nil
}

// ignoreNotExist is err unless it says that the file is missing.
func ignoreNotExist(err error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	return err
}
