package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"sync"

	"skylark/internal/vfs"
)

const (
	// extDirName is the tree beside consumequeue that holds the units.
	extDirName = "consumequeue_ext"
	// ExtHeaderBytes is the length of a unit without its bit map.
	ExtHeaderBytes = 20
	// maxExtUnitBytes is Java's limit of a unit.
	maxExtUnitBytes = math.MaxInt16
	// extEndBytes stay free at the end of a file (Java END_BLANK_DATA_LENGTH): room for the mark that the rest is unused.
	extEndBytes = 4
	// maxExtAddress is the largest tagsCode that is an address, maxExtOffset the position it stands for.
	maxExtAddress = math.MinInt32 - 1
	maxExtOffset  = maxExtAddress - math.MinInt64
	// extCheckBytes of a file are looked at for residency at once.
	extCheckBytes = 4 << 10
	// extSearchEntries bounds how far from the end of a queue recovery looks for its last address.
	extSearchEntries = 1024
)

// errExtFull answers a unit that cannot be stored: too large for a unit or for a file, or no address is left.
var errExtFull = errors.New("store: no room in ConsumeQueueExt")

// extAddress is the tagsCode that stands for a position in the files (Java decorate), extOffset the way back.
func extAddress(offset int64) int64  { return offset + math.MinInt64 }
func extOffset(address int64) int64  { return address - math.MinInt64 }
func extUnitBytes(bitMap []byte) int { return ExtHeaderBytes + len(bitMap) }

func (o *Options) extDefaults() {
	setDefault(&o.MappedFileSizeConsumeQueueExt, 48<<20)
	setDefault(&o.BitMapLengthConsumeQueueExt, 64)
}

// extUnit is what ConsumeQueueExt keeps of a message, all big-endian:
//
//	offset  size  field
//	0       2     length of the unit, 20 + n
//	2       8     tagsCode: what the ConsumeQueue entry would say
//	10      8     store time of the message, ms
//	18      2     n, 0 without a bit map
//	20      n     bit map: the bits of every SQL92 consumer whose condition the message fits (package filter)
//
// A unit does not cross files and the last 4 bytes of a file stay free; where the next one does not fit, a length of -1
// says that the rest is unused.
type extUnit struct {
	tagsCode       int64
	storeTimestamp int64
	bitMap         []byte // of a unit that was read: aliases the file
}

// appendTo appends the unit's bytes to b.
func (u *extUnit) appendTo(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, uint16(extUnitBytes(u.bitMap)))
	b = be.AppendUint64(b, uint64(u.tagsCode))
	b = be.AppendUint64(b, uint64(u.storeTimestamp))
	b = be.AppendUint16(b, uint16(len(u.bitMap)))
	return append(b, u.bitMap...)
}

// extUnitSize is the length of the unit at the start of b, 0 if none stands there: nothing was written, or not all of it
// reached the disk.
func extUnitSize(b []byte) int {
	if len(b) < ExtHeaderBytes {
		return 0
	}
	size := int(int16(binary.BigEndian.Uint16(b)))
	n := int(int16(binary.BigEndian.Uint16(b[18:])))
	if n < 0 || size != ExtHeaderBytes+n {
		return 0
	}
	return size
}

// decodeExtUnit reads the unit at the start of b; false if it is none.
func decodeExtUnit(b []byte) (u extUnit, ok bool) {
	size := extUnitSize(b)
	if size == 0 || size > len(b) {
		return u, false
	}
	u.tagsCode = int64(binary.BigEndian.Uint64(b[2:]))
	u.storeTimestamp = int64(binary.BigEndian.Uint64(b[10:]))
	u.bitMap = b[ExtHeaderBytes:size:size]
	return u, true
}

// consumeQueueExt keeps, beside one ConsumeQueue, what an entry of 20 bytes has no room for (Java ConsumeQueueExt, key
// enableConsumeQueueExt): each entry's tagsCode is then the address of a unit.
//
// Per unit written: the unit copied into a mapping, no system call but one for each step of reserved blocks, nothing
// allocated. Per unit read: no lock, nothing allocated, no copy.
//
// Units are there to save work. What is lost or cannot be read is made up for from the message itself: Java lets such a
// message pass and leaves it to the consumer. A unit is never taken for that of another message: the end of the files is
// always behind the unit of the queue's last entry, or new units go to a new file.
//
// The writer of the queue writes, the flusher of the queue flushes; the locks are the queue's.
type consumeQueueExt struct {
	o   *Options
	mfq *mappedFileQueue
	// startAt is where the first file goes when there is none.
	startAt int64
	// readyTo is the byte of the file set up to which pages behind the end are in memory; owned by the writer.
	readyTo int64
	// lastPhy is the record whose unit was written last, at lastAddress: an entry that is tried again does not get another.
	lastPhy, lastAddress int64
	refused              bool // the last unit could not be stored, and that was logged

	mu sync.Mutex
	// unsynced are files whose name or length may not be durable: they were made or cut since the last flush.
	unsynced []string
}

func extDir(rootDir, topic string) string { return path.Join(rootDir, extDirName, topic) }

// newConsumeQueueExt is nil unless Options.EnableConsumeQueueExt.
func newConsumeQueueExt(o *Options, topic string, queueID int32) *consumeQueueExt {
	if !o.EnableConsumeQueueExt {
		return nil
	}
	dir := path.Join(extDir(o.RootDir, topic), strconv.Itoa(int(queueID)))
	return &consumeQueueExt{o: o, mfq: newMappedFileQueue(o, dir, o.MappedFileSizeConsumeQueueExt, false), lastPhy: -1}
}

// put writes a record's unit and returns its address. An error leaves the entry with its plain tagsCode.
func (x *consumeQueueExt) put(phyOffset int64, unit []byte) (address int64, made bool, err error) {
	if phyOffset == x.lastPhy {
		return x.lastAddress, false, nil
	}
	mf, made, err := x.room(int64(len(unit)))
	if err != nil {
		return 0, made, err
	}
	offset := mf.end()
	if err := mf.append(unit); err != nil {
		return 0, made, err
	}
	x.lastPhy, x.lastAddress = phyOffset, extAddress(offset)
	if offset+2*int64(len(unit)) > x.readyTo {
		x.makeReady(mf)
	}
	return x.lastAddress, made, nil
}

// forget has the record that comes next get a unit of its own, whatever its place in the log. What was cut off the queue
// keeps its units: they may be read at this moment.
func (x *consumeQueueExt) forget() {
	if x != nil {
		x.lastPhy = -1
	}
}

// room is the file for a unit of n bytes; made tells that it is new. A last file without room is closed, as Java does.
func (x *consumeQueueExt) room(n int64) (mf *mappedFile, made bool, err error) {
	fileSize := x.mfq.fileSize
	if n > maxExtUnitBytes || n+extEndBytes > fileSize || x.mfq.wroteEnd() > maxExtOffset-n-fileSize {
		return nil, false, fmt.Errorf("%w: %s: a unit of %d bytes", errExtFull, x.mfq.dir, n)
	}
	if last := x.mfq.last(); last != nil && !last.full() {
		if last.size-last.wrotePosition.Load()-extEndBytes >= n {
			return last, false, nil
		}
		if err := closeExtFile(last); err != nil {
			return nil, false, err
		}
	}
	mf, err = x.mfq.appendable(x.startAt, n)
	if err != nil {
		return nil, false, err
	}
	x.sync(mf.path)
	return mf, true, nil
}

// sync has the next flush make files durable, with their names.
func (x *consumeQueueExt) sync(files ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unsynced = append(x.unsynced, files...)
}

// closeExtFile marks the rest of a file as unused.
func closeExtFile(mf *mappedFile) error {
	if err := mf.reserve(mf.size); err != nil {
		return err
	}
	if err := mf.append([]byte{0xff, 0xff}); err != nil {
		return err
	}
	mf.wrotePosition.Store(mf.size)
	return nil
}

// appendsAtOnce tells whether a unit of n bytes goes into pages that are in memory.
func (x *consumeQueueExt) appendsAtOnce(n int64) bool {
	last := x.mfq.last()
	return last != nil && last.size-last.wrotePosition.Load()-extEndBytes >= n && last.end()+n <= x.readyTo
}

// makeReady faults in pages behind the end of the last file, as many as hold units already.
func (x *consumeQueueExt) makeReady(mf *mappedFile) {
	pos := mf.wrotePosition.Load()
	n := min(max(pos, firstReadyBytes), maxReadyBytes)
	n = min((pos+n+vfs.PageSize)/vfs.PageSize*vfs.PageSize, mf.reserved) - pos
	if n > 0 && mf.populate(pos, n) == nil {
		x.readyTo = mf.fileFrom + pos + n
	}
}

// unit reads the unit at a position, without its bit map; it may wait for the disk, by a system call.
func (x *consumeQueueExt) unit(offset int64) (u extUnit, ok bool) {
	b, mf, ok := x.bytes(offset)
	if !ok {
		return u, false
	}
	defer mf.Release()
	u, ok = decodeExtUnit(b)
	u.bitMap = nil // of the file
	return u, ok
}

// bytes is what was written from a position on, at most the largest unit, with a reference of the file.
func (x *consumeQueueExt) bytes(offset int64) (b []byte, mf *mappedFile, ok bool) {
	mf = x.mfq.find(offset)
	if mf == nil {
		return nil, nil, false
	}
	pos := offset - mf.fileFrom
	b, ok = mf.slice(pos, min(maxExtUnitBytes, mf.readPosition()-pos))
	if !ok {
		return nil, nil, false
	}
	if n := int64(min(len(b), extCheckBytes)); !mf.resident(pos, n) {
		_ = mf.prefetch(pos, n) // else the fault reads it in
	}
	return b, mf, true
}

// extReader is where a Get reads units.
type extReader struct {
	x  *consumeQueueExt
	mf *mappedFile // with a reference
	to int64       // position in mf up to which pages are known to be in memory, from the last unit on
}

func (r *extReader) release() {
	if r.mf != nil {
		r.mf.Release()
		r.mf = nil
	}
}

// enter makes the file of a position current; false if there is none.
func (r *extReader) enter(offset int64) bool {
	if r.mf != nil && r.mf.contains(offset) {
		return true
	}
	r.release()
	if r.x == nil {
		return false
	}
	mf := r.x.mfq.find(offset)
	if mf == nil || !mf.Acquire() {
		return false
	}
	r.mf, r.to = mf, 0
	return true
}

// unit reads the unit at a position. The bit map is valid until the next call. here is false if it is not in memory and the
// request may not wait.
func (g *getter) unit(offset int64) (u extUnit, ok, here bool) {
	r := &g.ext
	if !r.enter(offset) {
		return u, false, true
	}
	pos := offset - r.mf.fileFrom
	wrote := r.mf.readPosition()
	for need := int64(ExtHeaderBytes); ; {
		if pos+need > wrote {
			return u, false, true
		}
		if pos+need > r.to || pos < r.to-extCheckBytes {
			n := min(max(need, extCheckBytes), wrote-pos)
			if !g.inMemory(r.mf, pos, n) {
				return u, false, false
			}
			r.to = pos + n
		}
		b := r.mf.data()[pos : pos+need : pos+need]
		size := int64(extUnitSize(b))
		if size <= need {
			u, ok = decodeExtUnit(b)
			return u, ok, true
		}
		need = size
	}
}

// load maps the files. One that is too short was lost in a crash: it is taken away, and its units are missed by nobody.
func (x *consumeQueueExt) load() error {
	if x == nil {
		return nil
	}
	for {
		_, err := x.mfq.load()
		var bad *badFileError
		if err == nil || !errors.As(err, &bad) || bad.sizeBytes >= x.mfq.fileSize {
			return err
		}
		x.mfq.log.Warn("short file of filter bits removed", "file", bad.path, "sizeBytes", bad.sizeBytes)
		if err := x.mfq.fs.Remove(bad.path); err != nil {
			return fmt.Errorf("store: remove %s: %w", bad.path, err)
		}
	}
}

// recoverExt finds the end of the units: behind that of the queue's last entry. If that cannot be read, or none of the
// last entries has one because units were not written for a while, nothing tells which bytes are in use, and the next
// unit goes to a new file.
func (cq *consumeQueue) recoverExt() error {
	x := cq.ext
	if x == nil {
		return nil
	}
	x.lastPhy, x.readyTo = -1, 0
	to := cq.maxOffset.Load()
	if to == 0 {
		return x.reset()
	}
	from := max(to-extSearchEntries, cq.firstStored())
	for q := to - 1; q >= from; q-- {
		e, ok := cq.entry(q)
		if !ok {
			break
		}
		if isExtAddress(e.tagsCode) {
			return x.endAfter(extOffset(e.tagsCode))
		}
	}
	return x.startFile(x.mfq.wroteEnd())
}

// endAfter makes the unit at offset the last one.
func (x *consumeQueueExt) endAfter(offset int64) error {
	b, mf, ok := x.bytes(offset)
	size := 0
	if ok {
		if size = extUnitSize(b); size > len(b) {
			size = 0
		}
		mf.Release()
	}
	if size == 0 {
		x.mfq.log.Warn("filter bits of the last entry are lost, new ones go to a new file", "dir", x.mfq.dir,
			"offset", offset)
		return x.startFile(offset + 1)
	}
	end := offset + int64(size)
	if last := x.mfq.last(); last.contains(end) && zeroPage(last, end-last.fileFrom) {
		return x.mfq.setEnd(end)
	}
	x.sync(mf.path)
	return x.mfq.endAt(end, (*mappedFile).cutLazily)
}

// startFile has the next unit go to a new file, at offset or behind it.
func (x *consumeQueueExt) startFile(offset int64) error {
	if offset > 0 {
		offset = (offset + x.mfq.fileSize - 1) / x.mfq.fileSize * x.mfq.fileSize
	}
	if last := x.mfq.last(); last != nil {
		end := last.fileFrom + last.size
		switch {
		case offset <= end && last.reserved > 0 && !last.full(): // written in this recovery
			return closeExtFile(last)
		case offset <= end:
			return x.mfq.setEnd(end)
		}
		// The files that the entries point to are gone. What is left would leave a hole, over which Java does not find files.
		if err := x.mfq.destroy(); err != nil {
			return err
		}
	}
	x.startAt = offset
	return nil
}

// reset removes the files.
func (x *consumeQueueExt) reset() error {
	if x == nil {
		return nil
	}
	x.startAt, x.readyTo, x.lastPhy = 0, 0, -1
	return x.mfq.destroy()
}

// deleteExpiredExt deletes leading files that no entry from minOffset on points into.
func (cq *consumeQueue) deleteExpiredExt(limit int) ([]string, error) {
	x := cq.ext
	if x == nil || len(x.mfq.list()) < 2 {
		return nil, nil
	}
	from, to := cq.minOffset.Load(), cq.maxOffset.Load()
	before := x.mfq.wroteEnd() // where no entry is left
	for q := from; q < to; q++ {
		if q-from == extSearchEntries {
			return nil, nil
		}
		if e, ok := cq.entry(q); ok && isExtAddress(e.tagsCode) {
			before = extOffset(e.tagsCode)
			break
		}
	}
	return x.mfq.deleteLeading(limit, func(mf *mappedFile) bool { return mf.fileFrom+mf.size <= before })
}

// flush makes all units durable, up to names and lengths of files; the directories above are the table's.
func (x *consumeQueueExt) flush() (err error) {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	files := x.unsynced
	x.unsynced = nil
	x.mu.Unlock()
	for _, name := range files {
		f, openErr := x.mfq.fs.Open(name)
		if openErr == nil {
			openErr = errors.Join(f.Sync(), f.Close())
		}
		err = errors.Join(err, ignoreNotExist(openErr))
	}
	if len(files) > 0 {
		err = errors.Join(err, syncDirs(x.mfq.fs, x.mfq.dir))
	}
	if err != nil {
		x.sync(files...)
		return fmt.Errorf("store: %w", err)
	}
	if x.mfq.flushedWhere.Load() < x.mfq.maxOffset() {
		return x.mfq.flush(0)
	}
	return nil
}

func (x *consumeQueueExt) syncParents() error {
	if x == nil || x.mfq.last() == nil {
		return nil
	}
	return syncParents(x.mfq)
}

// close lets go of the files.
func (x *consumeQueueExt) close() {
	if x != nil {
		x.mfq.close()
	}
}

// close lets go of the files of the queue.
func (cq *consumeQueue) close() {
	cq.mfq.close()
	cq.ext.close()
}

// unitBytes is the largest unit that appendWithUnit writes.
func (t *consumeQueueTable) unitBytes() int64 {
	return ExtHeaderBytes + int64(t.o.BitMapLengthConsumeQueueExt+7)/8
}

// appendWithUnit is consumeQueue.append with the unit of the record before its entry. The caller holds writeMu.
func (t *consumeQueueTable) appendWithUnit(cq *consumeQueue, e cqEntry, d *dispatchRecord) error {
	if e.end() <= cq.maxPhy.Load() {
		return nil
	}
	if err := cq.makePlace(int64(d.queueOffset)); err != nil {
		return err
	}
	x := cq.ext
	address, made, err := x.put(e.phyOffset, t.makeUnit(d))
	switch {
	case err == nil:
		e.tagsCode, x.refused = address, false
	case !x.refused:
		x.refused = true
		t.log.Warn("filter bits not stored, entries have their plain tags code", "dir", x.mfq.dir, "err", err)
	}
	if made {
		cq.namesDirty.Store(true)
	}
	return cq.appendEntry(e, int64(d.queueOffset))
}

// makeUnit is the unit of a record, valid until the next call.
func (t *consumeQueueTable) makeUnit(d *dispatchRecord) []byte {
	u := extUnit{tagsCode: d.tagsCode, storeTimestamp: d.storeTimestamp}
	t.unit = u.appendTo(t.unit[:0])
	if calc := t.o.CalcFilterBitMap; calc != nil {
		t.unit = calc(t.unit, d.topic, d.properties)
		n := len(t.unit) - ExtHeaderBytes
		if len(t.unit) > maxExtUnitBytes {
			t.unit, n = t.unit[:ExtHeaderBytes], 0
		}
		binary.BigEndian.PutUint16(t.unit, uint16(ExtHeaderBytes+n))
		binary.BigEndian.PutUint16(t.unit[18:], uint16(n))
	}
	return t.unit
}

// removeOrphanUnits removes units of queues that are gone: a queue of the same name would take them for its own.
func (t *consumeQueueTable) removeOrphanUnits() error {
	if !t.o.EnableConsumeQueueExt {
		return nil
	}
	root := path.Join(t.o.RootDir, extDirName)
	topics, err := t.fs.List(root)
	if ignoreNotExist(err) != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, topic := range topics {
		names, err := t.fs.List(path.Join(root, topic))
		if err != nil {
			continue // not a directory
		}
		for _, name := range names {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || t.find(topic, int32(id)) != nil {
				continue
			}
			if err := t.fs.RemoveAll(path.Join(root, topic, name)); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	return nil
}

// QueueUnit is what ConsumeQueueExt keeps of a message.
type QueueUnit struct {
	TagsCode       int64
	StoreTimestamp int64  // ms
	BitMap         []byte // empty without filter bits
}

// QueueUnit reads the unit of a message; false if there is none. It may wait for the disk.
func (s *MessageStore) QueueUnit(topic string, queueID int32, q QueueOffset) (QueueUnit, bool) {
	cq := s.queues.find(topic, queueID)
	if cq == nil || cq.ext == nil || int64(q) < cq.minOffset.Load() || int64(q) >= cq.maxOffset.Load() {
		return QueueUnit{}, false
	}
	e, ok := cq.entry(int64(q))
	if !ok || !isExtAddress(e.tagsCode) {
		return QueueUnit{}, false
	}
	b, mf, ok := cq.ext.bytes(extOffset(e.tagsCode))
	if !ok {
		return QueueUnit{}, false
	}
	defer mf.Release()
	u, ok := decodeExtUnit(b)
	return QueueUnit{u.tagsCode, u.storeTimestamp, bytes.Clone(u.bitMap)}, ok
}
