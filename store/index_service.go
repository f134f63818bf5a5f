package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/vfs"
)

const (
	indexDirName = "index"
	// indexFileNameDigits is the length of a name: yyyyMMddHHmmssSSS.
	indexFileNameDigits = 17
	// indexBatchKeys is how many keys are written at once at most; 80 KB.
	indexBatchKeys = 4096
	// indexRetryInterval is how long a failed write of the index waits for another try.
	indexRetryInterval = time.Second
	// indexCloseTimeout is how long close goes on indexing; what is left then waits for the next start.
	indexCloseTimeout = 5 * time.Second
	// maxIndexSteps bounds the entries one query reads along chains: half a second.
	maxIndexSteps = 1 << 20
)

// indexService keeps the IndexFiles (Java IndexService): which records have a key.
//
// It is not part of the dispatch, as it is in Java, but follows it: a goroutine of its own walks the records that already
// have their ConsumeQueue entries. So a consumer never waits for a page of the index, a disk that is full stops the index
// and not the delivery, and whatever is missing after a crash is made up for in the background, however much it is. The
// price is that each record is parsed twice (0.1 µs), and that a message may be found by its key a moment after it can be
// consumed.
//
// # Locks
//
// mu guards the list of files, their headers and slots: the service holds it for writing during a batch, queries for
// reading. ioMu keeps a file open while the flusher syncs it. Order: ioMu, mu.
type indexService struct {
	o          *Options
	log        *slog.Logger
	fs         vfs.FS
	dir        string
	cl         *commitLog
	flags      *runningFlags
	checkpoint *storeCheckpoint
	// limit is how far the dispatch has come.
	limit func() PhyOffset

	mu        sync.RWMutex
	files     []*indexFile // oldest first
	indexedTo PhyOffset    // every record before it is in the index

	ioMu       sync.Mutex
	savedMarks []indexMark // guarded by ioMu
	savedTo    atomic.Int64
	namesDirty bool // guarded by ioMu

	// What load found, for begin.
	loaded          queueMarks
	clean, complete bool
	// marksMoved: see consumeQueueTable.
	marksMoved bool

	cutTo     atomic.Int64 // see cut; 0 = nothing to do
	position  atomic.Int64 // indexedTo for those who must not wait for mu
	walker    logWalker
	keys      []indexKey
	topic     []byte // of the last key, and the hash of it with its '#'
	topicHash int32
	deadline  time.Time // owned by run: set at the stop
	signal    dirtySignal
	pace      indexPace
	started   bool
	stop      chan struct{}
	done      chan struct{}
}

func newIndexService(o *Options, cl *commitLog, flags *runningFlags, checkpoint *storeCheckpoint,
	limit func() PhyOffset) *indexService {
	return &indexService{o: o, log: o.Log, fs: o.FS, dir: path.Join(o.RootDir, indexDirName), cl: cl, flags: flags,
		checkpoint: checkpoint, limit: limit, walker: logWalker{cl: cl, o: o}, signal: newDirtySignal(),
		pace: newIndexPace(), stop: make(chan struct{}), done: make(chan struct{})}
}

// load opens the files that can be trusted and deletes the others; what they held is indexed again by and by. The end of
// the log must be known.
//
// After a clean stop all files count. After a crash a file counts if it was full and flushed, or up to its mark; Java
// deletes the file that was being filled and loses its keys.
func (x *indexService) load(clean bool, marks queueMarks) error {
	names, err := x.fs.List(x.dir)
	if ignoreNotExist(err) != nil {
		return fmt.Errorf("store: %w", err)
	}
	x.loaded, x.complete, x.clean = marks, true, clean
	for _, name := range names {
		if len(name) != indexFileNameDigits {
			x.log.Warn("file with a foreign name ignored", "file", path.Join(x.dir, name))
			continue
		}
		f := newIndexFile(x.o, path.Join(x.dir, name))
		if x.complete {
			if x.complete, err = x.loadFile(f); err != nil {
				return err
			}
			if x.complete || f.file != nil {
				x.files = append(x.files, f)
				continue
			}
		}
		x.log.Warn("index file removed, its keys are indexed again", "file", f.path)
		if err := f.destroy(); err != nil {
			return fmt.Errorf("store: remove %s: %w", f.path, err)
		}
	}
	return x.begin(x.cl.maxOffset())
}

// begin sets where indexing begins. The log ends at end; 0 means that there is no log and no use for an index. Entries
// that point behind the end do no harm: a query looks whether the record has the key.
func (x *indexService) begin(end PhyOffset) error {
	if end == 0 {
		for _, f := range x.files {
			if err := f.destroy(); err != nil {
				return fmt.Errorf("store: remove index file: %w", err)
			}
		}
		x.files = nil
	}
	x.indexedTo = x.startPosition(end)
	x.walker.at, x.walker.written = x.indexedTo, end
	x.position.Store(int64(x.indexedTo))
	x.savedTo.Store(int64(x.indexedTo))
	x.savedMarks = x.lastMark()
	x.marksMoved = x.loaded.present && x.loaded.indexedTo > x.indexedTo
	x.loaded = queueMarks{}
	return nil
}

// loadFile tells whether all of a file can be trusted. A file that was restored to its mark is open and not complete.
func (x *indexService) loadFile(f *indexFile) (complete bool, err error) {
	if err := f.load(); err != nil {
		if IsCorrupt(err) {
			x.log.Warn("index file of a wrong length", "err", err)
			return false, nil
		}
		return false, err
	}
	if x.clean || x.finished(f) {
		return true, nil
	}
	i := slices.IndexFunc(x.loaded.index, func(m indexMark) bool { return m.name == f.name() })
	if i < 0 {
		return false, nil
	}
	if err := f.restore(x.loaded.index[i]); err != nil {
		x.log.Warn("index file cannot be restored", "err", err)
		return false, f.close()
	}
	return false, nil
}

// finished tells that a file was full and on the disk before the crash. With marks those are the files before the marked
// one. Times alone are not enough: a file that is built again after a crash ends at the time it ended at before.
func (x *indexService) finished(f *indexFile) bool {
	if n := len(x.loaded.index); x.loaded.present {
		return n > 0 && f.full() && f.name() < x.loaded.index[n-1].name
	}
	return f.full() && f.header.endTimestamp <= x.checkpoint.indexMsgTimestamp.Load()
}

// startPosition is the offset below which every record is in the index.
func (x *indexService) startPosition(end PhyOffset) PhyOffset {
	from, marks := x.cl.minOffset(), &x.loaded
	own := marks.present && (!x.clean || marks.logEnd == end) // else Java's broker was here meanwhile
	switch {
	case len(x.files) == 0:
		if own && len(marks.index) == 0 && x.complete {
			from = max(from, marks.indexedTo) // nothing had a key
		}
	case x.clean && !own:
		from = end // Java indexes everything before it stops
	default:
		// The last record may have more keys than those that found room; it is indexed once more.
		last := x.files[len(x.files)-1]
		from = max(from, PhyOffset(last.header.endPhyOffset))
		if n := len(marks.index); own && n > 0 && marks.index[n-1].name == last.name() {
			from = max(from, marks.indexedTo)
		}
	}
	return min(from, end)
}

// start begins to index, unless MessageIndexEnable is off.
func (x *indexService) start() {
	if !x.o.MessageIndexEnable {
		return
	}
	x.started = true
	go x.run()
}

// wake tells that the dispatch went on.
func (x *indexService) wake() { x.signal.raise() }

// behind is how many bytes of dispatched records are not indexed.
func (x *indexService) behind() int64 {
	if !x.started {
		return 0
	}
	return max(0, int64(x.limit())-x.position.Load())
}

func (x *indexService) work() bool { return x.cutTo.Load() != 0 || x.behind() > 0 }

func (x *indexService) run() {
	defer close(x.done)
	defer x.walker.release()
	for x.signal.await(x.work, x.stop) {
		x.rewind()
		x.gather()
		if !x.indexBatch() {
			return
		}
		x.pace.reached(x.position.Load())
	}
}

// indexBatch indexes one batch of records; false at the stop while the disk refuses.
func (x *indexService) indexBatch() bool {
	x.collect()
	for {
		rest, err := x.append(x.keys)
		x.keys = x.keys[:copy(x.keys, rest)] // the array stays
		if err == nil {
			x.mu.Lock()
			x.indexedTo = x.walker.at
			x.mu.Unlock()
			x.position.Store(int64(x.walker.at))
			x.flags.clear(flagIndexFileError)
			break
		}
		if x.flags.set(flagIndexFileError, err) {
			x.log.Error("index cannot be written; puts are refused until it can", "err", err)
			x.o.Listener.WriteError(err)
		}
		if !x.pause() {
			return false
		}
	}
	select {
	case <-x.stop:
		if x.deadline.IsZero() {
			x.deadline = x.o.Clock.Now().Add(indexCloseTimeout)
		}
		return x.o.Clock.Now().Before(x.deadline)
	default:
		return true
	}
}

// pause waits for the next try; false at the stop.
func (x *indexService) pause() bool {
	timer := make(chan struct{})
	t := x.o.Clock.AfterFunc(indexRetryInterval, func() { close(timer) })
	defer t.Stop()
	select {
	case <-timer:
		return true
	case <-x.stop:
		return false
	}
}

// collect gathers the keys of the next records.
func (x *indexService) collect() {
	x.keys = x.keys[:0]
	end := x.limit()
	var d dispatchRecord
	for len(x.keys) < indexBatchKeys {
		ok, err := x.walker.next(end, &d)
		if err != nil {
			x.log.Error("damaged record not indexed", "err", err)
			continue
		}
		if !ok {
			x.walker.at = max(x.walker.at, min(end, x.cl.minOffset()))
			break
		}
		if d.indexed() {
			x.addKeys(&d)
		}
	}
}

// addKeys adds UNIQ_KEY and each of KEYS.
func (x *indexService) addKeys(d *dispatchRecord) {
	if uniq := propertyValue(d.properties, uniqKeyPattern); len(uniq) > 0 {
		x.addKey(d, uniq)
	}
	for key := range eachKey(propertyValue(d.properties, keysPattern)) {
		x.addKey(d, key)
	}
}

func (x *indexService) addKey(d *dispatchRecord, key []byte) {
	if string(d.topic) != string(x.topic) || x.topicHash == 0 {
		x.topic = append(append(x.topic[:0], d.topic...), '#')
		x.topicHash = codec.JavaHashBytes(x.topic)
		x.topic = x.topic[:len(d.topic)]
	}
	x.keys = append(x.keys, indexKey{indexHashOn(x.topicHash, key), int64(d.phyOffset), d.storeTimestamp})
}

// eachKey ranges over the keys of a KEYS property.
func eachKey(keys []byte) func(yield func(key []byte) bool) {
	return func(yield func(key []byte) bool) {
		for len(keys) > 0 {
			key := keys
			if at := slices.Index(keys, codec.KeySeparator[0]); at >= 0 {
				key, keys = keys[:at], keys[at+1:]
			} else {
				keys = nil
			}
			if len(key) > 0 && !yield(key) {
				return
			}
		}
	}
}

// indexHash is the hash of "topic#key": Java's, made positive (Integer.MIN_VALUE becomes 0).
func indexHash(text []byte) int32 { return indexHashOn(0, text) }

// indexHashOn is indexHash of a text of which the beginning has the hash h.
func indexHashOn(h int32, text []byte) int32 {
	h = codec.JavaHashOn(h, text)
	if h < 0 {
		h = -h
	}
	return max(h, 0)
}

// append writes keys, rolling to new files. On an error it returns those that are not written.
func (x *indexService) append(keys []indexKey) (rest []indexKey, err error) {
	for len(keys) > 0 {
		f, err := x.appendable()
		if err != nil {
			return keys, err
		}
		x.mu.Lock()
		n, err := f.append(keys)
		x.mu.Unlock()
		if err != nil {
			return keys, err
		}
		keys = keys[n:]
	}
	return keys, nil
}

// appendable is the file with room, made if there is none.
func (x *indexService) appendable() (*indexFile, error) {
	var last *indexFile
	if n := len(x.files); n > 0 { // only this goroutine adds files, and nobody deletes the last
		last = x.files[n-1]
	}
	if last != nil && !last.full() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err := last.open(); err != nil {
			return nil, fmt.Errorf("store: open index file %s: %w", last.path, errors.Join(err, last.close()))
		}
		return last, nil
	}
	x.ioMu.Lock()
	defer x.ioMu.Unlock()
	var endPhyOffset, endTimestamp int64
	name := x.o.Clock.Now().Local().Format("20060102150405.000")
	name = name[:14] + name[15:]
	if last != nil {
		if err := x.finish(last); err != nil {
			return nil, err
		}
		endPhyOffset, endTimestamp = last.header.endPhyOffset, last.header.endTimestamp
		name = max(name, nextIndexName(last.name()))
	}
	if err := x.fs.MkdirAll(x.dir); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	f := newIndexFile(x.o, path.Join(x.dir, name))
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := f.create(endPhyOffset, endTimestamp); err != nil {
		return nil, err
	}
	x.namesDirty = true
	x.files = append(slices.Clone(x.files), f)
	return f, nil
}

// nextIndexName is a name that sorts behind another: a clock set back must not change the order of the files.
func nextIndexName(name string) string {
	b := []byte(name)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < '9' {
			b[i]++
			break
		}
		b[i] = '0'
	}
	return string(b)
}

// finish makes a full file durable and closes it. The checkpoint says so: after a crash the file counts as whole.
func (x *indexService) finish(f *indexFile) error {
	if f.file == nil {
		return nil
	}
	if err := errors.Join(x.syncNames(), f.file.Sync()); err != nil {
		return fmt.Errorf("store: flush index file %s: %w", f.path, err)
	}
	x.checkpoint.indexMsgTimestamp.Store(f.header.endTimestamp)
	if err := x.checkpoint.flush(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return f.close()
}

// syncNames makes the names of new files durable. The caller holds ioMu.
func (x *indexService) syncNames() error {
	if !x.namesDirty {
		return nil
	}
	if err := errors.Join(x.fs.SyncDir(x.dir), x.fs.SyncDir(path.Dir(x.dir))); err != nil {
		return err
	}
	x.namesDirty = false
	return nil
}

// flush makes everything indexed so far durable; marks says how much that is.
func (x *indexService) flush() error {
	x.ioMu.Lock()
	defer x.ioMu.Unlock()
	x.mu.RLock()
	to, marks := x.indexedTo, x.lastMark()
	var file vfs.File
	if n := len(x.files); n > 0 {
		file = x.files[n-1].file
	}
	x.mu.RUnlock()
	if int64(to) == x.savedTo.Load() {
		return nil
	}
	if file != nil {
		if err := errors.Join(x.syncNames(), file.Sync()); err != nil {
			return fmt.Errorf("store: flush index: %w", err)
		}
	}
	x.savedMarks = marks
	x.savedTo.Store(int64(to))
	return nil
}

// lastMark describes the file being filled. The caller holds mu or is alone.
func (x *indexService) lastMark() []indexMark {
	n := len(x.files)
	if n == 0 {
		return nil
	}
	f := x.files[n-1]
	return []indexMark{{f.name(), f.header.count, f.header.beginTimestamp, f.header.endTimestamp,
		f.header.beginPhyOffset, f.header.endPhyOffset}}
}

// marks is what the last flush made durable.
func (x *indexService) marks() ([]indexMark, PhyOffset) {
	x.ioMu.Lock()
	defer x.ioMu.Unlock()
	return x.savedMarks, PhyOffset(x.savedTo.Load())
}

// unsaved tells that a flush has something to do.
func (x *indexService) unsaved() bool { return x.started && x.position.Load() != x.savedTo.Load() }

// query calls found with records that have a key of this hash and may have been stored in [begin, end], newest first,
// until it returns false. end of the index: store time and offset of the last indexed record.
func (x *indexService) query(hash int32, begin, end int64, found func(phyOffset int64) bool,
) (lastTimestamp, lastPhyOffset int64, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if n := len(x.files); n > 0 {
		lastTimestamp, lastPhyOffset = x.files[n-1].header.endTimestamp, x.files[n-1].header.endPhyOffset
	}
	steps, more := maxIndexSteps, true
	visit := func(phyOffset int64) bool {
		more = found(phyOffset)
		return more
	}
	for i := len(x.files) - 1; i >= 0 && more; i-- {
		f := x.files[i]
		if f.header.matches(begin, end) {
			if err := f.walk(hash, begin, end, &steps, visit); err != nil {
				return lastTimestamp, lastPhyOffset, err
			}
		}
		if f.header.beginTimestamp < begin {
			break
		}
	}
	return lastTimestamp, lastPhyOffset, nil
}

// deleteExpired deletes the leading files, never the last, whose records all lie before minPhy.
func (x *indexService) deleteExpired(minPhy int64) (deleted []string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for n < len(x.files)-1 && x.files[n].header.endPhyOffset < minPhy {
		deleted = append(deleted, x.files[n].path)
		err = errors.Join(err, x.files[n].destroy())
		n++
	}
	x.files = slices.Clone(x.files[n:])
	return deleted, err
}

// close stops the service when what was dispatched is indexed, or after indexCloseTimeout. The files stay open for a last
// flush and release.
func (x *indexService) close() {
	close(x.stop)
	if x.started {
		<-x.done
	}
}

// release closes the files.
func (x *indexService) release() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
