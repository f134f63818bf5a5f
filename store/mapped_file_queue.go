package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"skylark/internal/vfs"
)

// badFileError names a file of a mappedFileQueue that cannot be what its name says.
type badFileError struct {
	path      string
	sizeBytes int64
	reason    string
}

// Error implements error.
func (e *badFileError) Error() string {
	return fmt.Sprintf("store: %s (%d bytes): %s", e.path, e.sizeBytes, e.reason)
}

// Unwrap makes IsCorrupt true.
func (e *badFileError) Unwrap() error { return ErrCorrupt }

// offsetRange is [from, to) in a queue.
type offsetRange struct{ from, to int64 }

// mappedFileQueue is a directory of equally long files that form one endless run of bytes (Java MappedFileQueue): the
// CommitLog, and each ConsumeQueue. Readers find a file without a lock: files is a copy-on-write list. Changes of the
// list hold mu. Appending is for one writer at a time, flushing locks flushMu.
type mappedFileQueue struct {
	fs       vfs.FS
	log      *slog.Logger
	dir      string
	fileSize int64
	reserve  bool // files get all their blocks when they are made

	// create makes the next file; the CommitLog takes it from its AllocateMappedFileService.
	create func(filePath string, from int64) (*mappedFile, error)

	mu    sync.Mutex
	files atomic.Pointer[[]*mappedFile]
	live  atomic.Int64 // mappings that exist

	// With a transient store pool commit moves the end that readers see; see committing.
	buffers        bool // set before the services start
	commitMu       sync.Mutex
	commitFrom     int64        // start of the first file that is not all committed; guarded by commitMu
	committedWhere atomic.Int64 // everything below is in the files, and readable

	flushMu      sync.Mutex
	flushedWhere atomic.Int64 // everything below is durable
	// storeTimestamp is that of the last record below flushedWhere when everything was flushed, ms.
	storeTimestamp atomic.Int64
}

// newMappedFileQueue describes the files in dir; load or the first append brings them in.
func newMappedFileQueue(o *Options, dir string, fileSize int64, reserve bool) *mappedFileQueue {
	q := &mappedFileQueue{fs: o.FS, log: o.Log, dir: dir, fileSize: fileSize, reserve: reserve}
	q.create = q.createFile
	q.files.Store(new([]*mappedFile))
	return q
}

// list is the files in order; it must not be changed.
func (q *mappedFileQueue) list() []*mappedFile { return *q.files.Load() }

// offsetFileName is the name of the file that starts at an offset (Java UtilAll.offset2FileName).
func offsetFileName(offset int64) string { return fmt.Sprintf("%020d", offset) }

// createFile makes the file that starts at from.
func (q *mappedFileQueue) createFile(filePath string, from int64) (*mappedFile, error) {
	if err := q.fs.MkdirAll(q.dir); err != nil {
		return nil, fmt.Errorf("store: directory %s: %w", q.dir, err)
	}
	return createMappedFile(q.fs, filePath, from, q.fileSize, q.reserve, &q.live)
}

// foundFile is a file of the directory before it is mapped.
type foundFile struct {
	path string
	from int64
	size int64
}

// load maps all files of the directory; a missing directory is an empty queue. Empty files at the end are removed, a
// last file that is too short (a crash between its creation and its growth) is grown with zeros; repaired tells that
// one of both happened. Any other wrong length or name is a *badFileError: it names the file, and nothing is mapped.
// Every file counts as full and flushed; recovery finds the true end.
func (q *mappedFileQueue) load() (repaired bool, err error) {
	found, err := q.scan()
	if err != nil {
		return false, err
	}
	for len(found) > 0 && found[len(found)-1].size == 0 {
		last := found[len(found)-1]
		q.log.Warn("empty last file removed", "file", last.path)
		if err := q.fs.Remove(last.path); err != nil {
			return repaired, fmt.Errorf("store: remove empty file %s: %w", last.path, err)
		}
		found, repaired = found[:len(found)-1], true
	}
	if n := len(found); n > 0 && found[n-1].size < q.fileSize {
		if err := q.grow(&found[n-1]); err != nil {
			return repaired, err
		}
		repaired = true
	}
	files := make([]*mappedFile, 0, len(found))
	for _, f := range found {
		mf, err := q.openFound(f)
		if err != nil {
			for _, opened := range files {
				opened.releaseNow() // who tries again may cut them
			}
			return repaired, err
		}
		files = append(files, mf)
	}
	q.files.Store(&files)
	q.flushedWhere.Store(q.maxOffset())
	return repaired, nil
}

func (q *mappedFileQueue) openFound(f foundFile) (*mappedFile, error) {
	if f.size != q.fileSize {
		return nil, &badFileError{f.path, f.size, fmt.Sprintf("length is not the configured %d bytes", q.fileSize)}
	}
	if f.from%q.fileSize != 0 {
		return nil, &badFileError{f.path, f.size, fmt.Sprintf("name is not a multiple of %d", q.fileSize)}
	}
	return openMappedFile(q.fs, f.path, f.from, q.fileSize, !q.reserve, &q.live)
}

// scan lists the directory in offset order.
func (q *mappedFileQueue) scan() ([]foundFile, error) {
	names, err := q.fs.List(q.dir)
	if err != nil {
		if ignoreNotExist(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("store: list %s: %w", q.dir, err)
	}
	found := make([]foundFile, 0, len(names))
	for _, name := range names {
		filePath := path.Join(q.dir, name)
		info, err := q.fs.Stat(filePath)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		if info.IsDir() {
			continue
		}
		from, err := strconv.ParseInt(name, 10, 64)
		if err != nil || from < 0 {
			q.log.Warn("file with a foreign name ignored", "file", filePath)
			continue
		}
		found = append(found, foundFile{filePath, from, info.Size()})
	}
	slices.SortFunc(found, func(a, b foundFile) int { return int(min(max(a.from-b.from, -1), 1)) })
	return found, nil
}

// grow extends a short last file with zeros.
func (q *mappedFileQueue) grow(f *foundFile) error {
	q.log.Warn("short last file grown with zeros", "file", f.path, "sizeBytes", f.size, "wantBytes", q.fileSize)
	file, err := q.fs.OpenReadWrite(f.path)
	if err != nil {
		return fmt.Errorf("store: grow %s: %w", f.path, err)
	}
	if err := errors.Join(file.Truncate(q.fileSize), file.Close()); err != nil {
		return fmt.Errorf("store: grow %s: %w", f.path, err)
	}
	f.size = q.fileSize
	return nil
}

// holes are the ranges between two files that have no file.
func (q *mappedFileQueue) holes() []offsetRange {
	var holes []offsetRange
	files := q.list()
	for i := 1; i < len(files); i++ {
		if end := files[i-1].fileFrom + q.fileSize; end != files[i].fileFrom {
			holes = append(holes, offsetRange{end, files[i].fileFrom})
		}
	}
	return holes
}

// find is the file that holds offset, nil when there is none. No lock, no allocation; the caller acquires the file.
func (q *mappedFileQueue) find(offset int64) *mappedFile {
	files := q.list()
	if len(files) == 0 || offset < files[0].fileFrom {
		return nil
	}
	// Without holes the index follows from the offset.
	if i := (offset - files[0].fileFrom) / q.fileSize; i < int64(len(files)) && files[i].contains(offset) {
		return files[i]
	}
	i := sort.Search(len(files), func(i int) bool { return files[i].fileFrom > offset }) - 1
	if i >= 0 && files[i].contains(offset) {
		return files[i]
	}
	return nil
}

// after is the first file that starts at offset or later, nil when there is none: the way over a hole.
func (q *mappedFileQueue) after(offset int64) *mappedFile {
	files := q.list()
	i := sort.Search(len(files), func(i int) bool { return files[i].fileFrom >= offset })
	if i == len(files) {
		return nil
	}
	return files[i]
}

// slice is [offset, offset+n) of the written part, all in one file; the caller owns one reference of mf when ok.
func (q *mappedFileQueue) slice(offset, n int64) (b []byte, mf *mappedFile, ok bool) {
	mf = q.find(offset)
	if mf == nil {
		return nil, nil, false
	}
	b, ok = mf.slice(offset-mf.fileFrom, n)
	return b, mf, ok
}

// first and last are the ends of the list, nil when it is empty.
func (q *mappedFileQueue) first() *mappedFile {
	if files := q.list(); len(files) > 0 {
		return files[0]
	}
	return nil
}

func (q *mappedFileQueue) last() *mappedFile {
	if files := q.list(); len(files) > 0 {
		return files[len(files)-1]
	}
	return nil
}

// minOffset is where the first file starts, 0 without files.
func (q *mappedFileQueue) minOffset() int64 {
	if mf := q.first(); mf != nil {
		return mf.fileFrom
	}
	return 0
}

// maxOffset is the end of what readers see, 0 without files (Java getMaxOffset): the end of what was written, or, with
// write buffers, of what was committed.
func (q *mappedFileQueue) maxOffset() int64 {
	if q.buffers {
		return q.committedWhere.Load()
	}
	return q.wroteEnd()
}

// wroteEnd is the end of what was written, 0 without files (Java getMaxWrotePosition).
func (q *mappedFileQueue) wroteEnd() int64 {
	if mf := q.last(); mf != nil {
		return mf.end()
	}
	return 0
}

// useBuffers makes commit decide what readers see. Recovery is over and nothing is written yet.
func (q *mappedFileQueue) useBuffers() {
	q.committedWhere.Store(q.wroteEnd())
	q.commitFrom = q.committedWhere.Load()
	if mf := q.last(); mf != nil {
		q.commitFrom = mf.fileFrom
	}
	q.buffers = true
}

// commit writes everything from the write buffers to the files and shows it to readers. Files without a buffer, those
// for which the pool had none, wait for it as well: readers must not see what lies behind something they do not see. On
// an error committedWhere stays before the bytes that are not in the files.
func (q *mappedFileQueue) commit() error {
	if !q.buffers {
		return nil
	}
	q.commitMu.Lock()
	defer q.commitMu.Unlock()
	files := q.list()
	first := sort.Search(len(files), func(i int) bool { return files[i].fileFrom >= q.commitFrom })
	for i, mf := range files[first:] {
		if i > 0 {
			q.commitFrom = mf.fileFrom
		}
		if mf.buffered && !mf.committed() {
			if !mf.Acquire() {
				return errFileGone
			}
			err := mf.commit()
			mf.Release()
			if err != nil {
				return err
			}
		}
		read := mf.readPosition()
		q.committedWhere.Store(mf.fileFrom + read)
		if read < mf.size {
			break
		}
	}
	return nil
}

// appendable is the file for the next need bytes. Without any file it makes the one that contains startOffset; when the
// last has less than need bytes left it makes the one behind. The writer calls it.
func (q *mappedFileQueue) appendable(startOffset, need int64) (*mappedFile, error) {
	last := q.last()
	from := startOffset - startOffset%q.fileSize
	if last != nil {
		if last.size-last.wrotePosition.Load() >= need {
			return last, nil
		}
		from = last.fileFrom + q.fileSize
	}
	mf, err := q.create(path.Join(q.dir, offsetFileName(from)), from)
	if err != nil {
		return nil, err
	}
	q.add(mf)
	return mf, nil
}

// add puts a new file at the end of the list. An empty queue starts with it: what lies before it counts as flushed.
func (q *mappedFileQueue) add(mf *mappedFile) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.list()
	if len(old) == 0 {
		q.flushedWhere.Store(mf.fileFrom)
		q.committedWhere.Store(mf.fileFrom)
	}
	files := append(slices.Clone(old), mf)
	q.files.Store(&files)
}

// flush makes written bytes durable. leastPages > 0 leaves a last part of fewer dirty pages alone; 0 flushes all. On an
// error flushedWhere stays before the bytes whose fate is unknown.
func (q *mappedFileQueue) flush(leastPages int) error {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	for {
		where := q.flushedWhere.Load()
		mf := q.find(where)
		if mf == nil {
			if mf = q.after(where); mf == nil {
				return nil
			}
		}
		timestamp := mf.readTimestamp()
		full := mf.readPosition() == mf.size
		if !full && leastPages > 0 && mf.dirtyPages() < int64(leastPages) || !mf.Acquire() {
			return nil
		}
		err := mf.flush()
		flushed := mf.fileFrom + mf.flushedPosition.Load()
		mf.Release()
		if err != nil {
			return err
		}
		q.flushedWhere.Store(flushed)
		if leastPages == 0 && timestamp != 0 {
			q.storeTimestamp.Store(timestamp)
		}
		if !full {
			return nil
		}
	}
}

// setEnd declares everything below offset as written and flushed and everything behind it as unused: recovery, when it
// has found the end and knows that the bytes behind it are zero. Files behind are deleted.
func (q *mappedFileQueue) setEnd(offset int64) error {
	return q.endAt(offset, func(mf *mappedFile, pos int64) error {
		mf.setPosition(pos)
		return nil
	})
}

// truncateDirty is setEnd with the bytes behind offset made zero on the disk; for recovery (see mappedFile.cut).
func (q *mappedFileQueue) truncateDirty(offset int64) error {
	return q.endAt(offset, (*mappedFile).cut)
}

func (q *mappedFileQueue) endAt(offset int64, end func(mf *mappedFile, pos int64) error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keep, drop []*mappedFile
	for _, mf := range q.list() {
		if mf.fileFrom > offset || (mf.fileFrom == offset && len(keep) > 0) {
			drop = append(drop, mf)
		} else {
			keep = append(keep, mf)
		}
	}
	q.files.Store(&keep)
	var errs []error
	for _, mf := range drop {
		errs = append(errs, mf.destroy())
	}
	if len(drop) > 0 {
		errs = append(errs, q.fs.SyncDir(q.dir))
	}
	for _, mf := range keep {
		if mf.contains(offset) {
			errs = append(errs, end(mf, offset-mf.fileFrom))
		} else {
			mf.setPosition(mf.size)
		}
	}
	q.flushedWhere.Store(min(offset, q.maxOffset()))
	return errors.Join(errs...)
}

// deleteLeading deletes files from the front as long as expired says so, at most limit and never the last one.
// deleted names them.
func (q *mappedFileQueue) deleteLeading(limit int, expired func(mf *mappedFile) bool) (deleted []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	files := q.list()
	n := 0
	for n < len(files)-1 && n < limit && files[n].committed() && expired(files[n]) {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	keep := slices.Clone(files[n:])
	q.files.Store(&keep)
	for _, mf := range files[:n] {
		deleted = append(deleted, mf.path)
		err = errors.Join(err, mf.destroy())
	}
	// A file that came back after a crash would be one that the queues and the index know nothing of any more.
	if syncErr := q.fs.SyncDir(q.dir); syncErr != nil {
		err = errors.Join(err, fmt.Errorf("store: %w", syncErr))
	}
	return deleted, err
}

// destroy deletes all files and the directory.
func (q *mappedFileQueue) destroy() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, mf := range q.list() {
		errs = append(errs, mf.destroy())
	}
	q.files.Store(new([]*mappedFile))
	q.flushedWhere.Store(0)
	if err := q.fs.RemoveAll(q.dir); err != nil {
		errs = append(errs, fmt.Errorf("store: delete %s: %w", q.dir, err))
	}
	return errors.Join(errs...)
}

// close drops the references of the queue; mappings go with their last reader.
func (q *mappedFileQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, mf := range q.list() {
		mf.releaseNow()
	}
	q.files.Store(new([]*mappedFile))
}
