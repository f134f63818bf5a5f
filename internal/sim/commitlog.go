package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
	"skylark/zerocopy"
)

// Sizes of a simulated log: small, so that runs cross files.
const (
	logFileBytes = 8 << 10
	logDir       = "/b/commitlog"
)

// CommitLog stands for the store: real records in files of the simulated disk, and the queues that are made of them. It is
// a model in what package store has tests of its own for (mappings, allocation, dispatch), and true in what replication
// sees: bytes, record boundaries, what a crash leaves.
type CommitLog struct {
	h     *Host
	fs    vfs.FS
	files map[store.PhyOffset]vfs.File // by where they begin

	min   store.PhyOffset
	bytes []byte          // from min on: the page cache
	whole store.PhyOffset // end of the last whole record
	// synced is up to where the disk has it.
	synced store.PhyOffset

	queues    [][]entry // of all whole records
	confirm   store.PhyOffset
	shown     store.PhyOffset // to consumers: the records before it were confirmed at some time
	saved     store.PhyOffset // what the disk has of it
	following bool
	watch     func()
}

// entry is a message in a queue.
type entry struct {
	at   store.PhyOffset
	size int
	id   uint64
}

var _ zerocopy.Owner = noOwner{}

type noOwner struct{}

// Release implements zerocopy.Owner.
func (noOwner) Release() {}

// openLog reads what the disk has, cuts what is no record, and makes the queues.
func openLog(h *Host, queues int) (*CommitLog, error) {
	l := &CommitLog{h: h, fs: h.Disk(), files: map[store.PhyOffset]vfs.File{}, queues: make([][]entry, queues)}
	if err := vfs.MkdirAllSync(l.fs, logDir); err != nil {
		return nil, err
	}
	names, err := l.fs.List(logDir)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		from, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			l.min = store.PhyOffset(from)
		}
		b, err := vfs.ReadFile(l.fs, path.Join(logDir, name))
		if err != nil {
			return nil, err
		}
		if store.PhyOffset(from) != l.MaxPhyOffset() { // what is before it was not written
			break
		}
		l.bytes = append(l.bytes, b[:min(len(b), logFileBytes)]...)
	}
	l.whole = l.min
	if err := l.dispatch(); err != nil {
		h.w.Tracef("%s: the log ends at %d: %v", h.Name, l.whole, err)
	}
	l.saved = l.savedConfirm()
	l.confirm, l.shown = l.saved, l.saved
	if err := l.cut(l.whole); err != nil {
		return nil, err
	}
	return l, l.Sync()
}

// savedConfirm is up to where consumers were shown the log before the process began, a moment ago at least.
func (l *CommitLog) savedConfirm() store.PhyOffset {
	b, err := vfs.ReadFile(l.fs, confirmPath)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return store.PhyOffset(n)
}

// saveConfirm brings it to the disk.
func (l *CommitLog) saveConfirm() error {
	if l.shown == l.saved {
		return nil
	}
	l.saved = l.shown
	return vfs.WriteFileAtomic(l.fs, confirmPath, strconv.AppendInt(nil, int64(l.shown), 10), false)
}

// show gives consumers what is confirmed by now, whole records of it. They keep it, until it is cut.
func (l *CommitLog) show() {
	for to := l.ConfirmOffset(); l.shown < to; {
		end := l.next(max(l.shown, l.min))
		if end > to {
			return
		}
		l.shown = end
	}
}

// MinPhyOffset, and what follows, is as of store.MessageStore.
func (l *CommitLog) MinPhyOffset() store.PhyOffset { return l.min }

// MaxPhyOffset is the end.
func (l *CommitLog) MaxPhyOffset() store.PhyOffset { return l.min + store.PhyOffset(len(l.bytes)) }

// LogFileBytes is the length of files.
func (l *CommitLog) LogFileBytes() int64 { return logFileBytes }

// WatchLog sets who hears that there is more.
func (l *CommitLog) WatchLog(f func()) { l.watch = f }

// Following tells that the log is a slave's.
func (l *CommitLog) Following() bool { return l.following }

// ConfirmTo bounds what consumers see.
func (l *CommitLog) ConfirmTo(p store.PhyOffset) {
	l.confirm = p
	l.show()
}

// DispatchedWhere is up to where consumers were ever shown the log.
func (l *CommitLog) DispatchedWhere() store.PhyOffset { return l.shown }

// ConfirmOffset is up to where consumers see.
func (l *CommitLog) ConfirmOffset() store.PhyOffset { return min(l.confirm, l.whole) }

// DispatchBehindBytes is 0: queues are made at once.
func (l *CommitLog) DispatchBehindBytes() int64 { return 0 }

// ReadLog is a piece of one file.
func (l *CommitLog) ReadLog(from store.PhyOffset, maxBytes int) (zerocopy.Segment, bool) {
	if from < l.min || from >= l.MaxPhyOffset() || maxBytes <= 0 {
		return zerocopy.Segment{}, false
	}
	n := min(int(l.MaxPhyOffset()-from), maxBytes, logFileBytes-int(from%logFileBytes))
	at := int(from - l.min)
	return zerocopy.Segment{Bytes: bytes.Clone(l.bytes[at : at+n]), Owner: noOwner{}}, true
}

// Put appends a message as a master's store does.
func (l *CommitLog) Put(queue int, id uint64) (e entry, q store.QueueOffset, err error) {
	if l.following {
		return e, 0, store.ErrNotSlave
	}
	body := make([]byte, 8+int(id*2654435761%200))
	binary.BigEndian.PutUint64(body, id)
	rec, err := codec.AppendRecord(nil, &codec.Message{Topic: "t", QueueID: int32(queue), Body: body,
		BornTimestamp: l.h.Clock().Millis()})
	if err != nil {
		return e, 0, err
	}
	if rest := logFileBytes - int(l.MaxPhyOffset()%logFileBytes); rest < len(rec)+codec.BlankRecordBytes {
		blank := make([]byte, rest)
		if rest >= codec.BlankRecordBytes {
			binary.BigEndian.PutUint32(blank, uint32(rest))
			binary.BigEndian.PutUint32(blank[4:], codec.MagicBlank)
		}
		if err := l.write(blank); err != nil {
			return e, 0, err
		}
	}
	q = store.QueueOffset(len(l.queues[queue]))
	codec.PatchRecord(rec, q, l.MaxPhyOffset(), l.h.Clock().Millis())
	if err := l.write(rec); err != nil {
		return e, 0, err
	}
	if err := l.dispatch(); err != nil {
		l.h.w.Fail("%s: its own record: %w", l.h.Name, err)
	}
	l.show()
	l.grew()
	return l.queues[queue][q], q, nil
}

// End is behind the message.
func (e entry) End() store.PhyOffset { return e.at + store.PhyOffset(e.size) }

func (l *CommitLog) grew() {
	if l.watch != nil {
		l.watch()
	}
}

// file opens the file of a position.
func (l *CommitLog) file(p store.PhyOffset) (vfs.File, error) {
	from := p - p%logFileBytes
	if f := l.files[from]; f != nil {
		return f, nil
	}
	f, err := l.fs.OpenReadWrite(l.name(from))
	if err != nil {
		return nil, err
	}
	l.files[from] = f
	return f, l.fs.SyncDir(logDir)
}

func (l *CommitLog) name(from store.PhyOffset) string {
	return path.Join(logDir, fmt.Sprintf("%020d", from))
}

// write puts bytes of one file at the end.
func (l *CommitLog) write(b []byte) error {
	at := l.MaxPhyOffset()
	f, err := l.file(at)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, int64(at%logFileBytes)); err != nil {
		return err
	}
	l.bytes = append(l.bytes, b...)
	return nil
}

// Sync makes durable what is there.
func (l *CommitLog) Sync() error {
	end := l.MaxPhyOffset()
	for from := l.synced - l.synced%logFileBytes; from < end; from += logFileBytes {
		if f := l.files[from]; f != nil {
			if err := f.Sync(); err != nil {
				return err
			}
		}
	}
	l.synced = end
	return nil
}

// AppendLog puts bytes of the master's log.
func (l *CommitLog) AppendLog(at store.PhyOffset, b []byte) error {
	switch {
	case !l.following:
		return store.ErrNotSlave
	case len(l.bytes) == 0 && at%logFileBytes == 0:
		l.min, l.whole, l.synced = at, at, at
	case at != l.MaxPhyOffset():
		return fmt.Errorf("%w: at %d, end %d", store.ErrLogGap, at, l.MaxPhyOffset())
	}
	if int(at%logFileBytes)+len(b) > logFileBytes {
		return fmt.Errorf("%w: [%d,+%d) crosses the end of a file", store.ErrForeignLog, at, len(b))
	}
	if len(b) == 0 {
		return nil
	}
	if err := l.write(b); err != nil {
		return err
	}
	err := l.dispatch()
	l.show()
	l.grew()
	return err
}

// dispatch makes queue entries of the records that are whole by now.
func (l *CommitLog) dispatch() error {
	for {
		b := l.bytes[l.whole-l.min:]
		rest := logFileBytes - int(l.whole%logFileBytes)
		if rest < codec.BlankRecordBytes && len(b) >= rest {
			l.whole += store.PhyOffset(rest)
			continue
		}
		if len(b) < codec.BlankRecordBytes {
			return nil
		}
		size, magic := codec.RecordSize(b)
		if magic == codec.MagicBlank {
			if size != rest {
				return fmt.Errorf("%w: blank of %d bytes at %d", store.ErrForeignLog, size, l.whole)
			}
			if len(b) < rest {
				return nil
			}
			l.whole += store.PhyOffset(rest)
			continue
		}
		if size < codec.MinRecordBytes || size > rest || magic != codec.MagicV1 && magic != codec.MagicV2 {
			return fmt.Errorf("%w: no record at %d", store.ErrForeignLog, l.whole)
		}
		if len(b) < size {
			return nil
		}
		r, err := codec.ParseRecord(b[:size], true)
		if err != nil || r.PhyOffset != l.whole {
			return fmt.Errorf("%w: the record at %d: offset %d, %w", store.ErrForeignLog, l.whole, r.PhyOffset, errors.Join(err))
		}
		q := int(r.QueueID)
		if next := store.QueueOffset(len(l.queues[q])); r.QueueOffset != next && l.min == 0 {
			l.h.w.Fail("%s: the record at %d has queue offset %d, the next is %d", l.h.Name, l.whole, r.QueueOffset, next)
		}
		l.queues[q] = append(l.queues[q], entry{at: l.whole, size: size, id: binary.BigEndian.Uint64(r.Body)})
		l.whole += store.PhyOffset(size)
	}
}

// RecordStart is the last start of a record, or the end of the whole ones, at or before p.
func (l *CommitLog) RecordStart(p store.PhyOffset) (store.PhyOffset, error) {
	best := l.min
	if p >= l.whole {
		return l.whole, nil
	}
	for from := l.min; from <= p; { // records before p
		best = from
		from = l.next(from)
	}
	return best, nil
}

// next is the end of the whole record at from.
func (l *CommitLog) next(from store.PhyOffset) store.PhyOffset {
	rest := logFileBytes - int(from%logFileBytes)
	if rest >= codec.BlankRecordBytes {
		if n, magic := codec.RecordSize(l.bytes[from-l.min:]); magic != codec.MagicBlank {
			return from + store.PhyOffset(n)
		}
	}
	return from + store.PhyOffset(rest)
}

// TruncateLog cuts at p, durably.
func (l *CommitLog) TruncateLog(p store.PhyOffset) error {
	if p > l.MaxPhyOffset() || p < l.min {
		return fmt.Errorf("sim: truncate at %d, the log is [%d,%d)", p, l.min, l.MaxPhyOffset())
	}
	l.h.w.Tracef("%s: log cut at %d, was %d", l.h.Name, p, l.MaxPhyOffset())
	l.h.w.Check.cut(l, p)
	return l.cut(p)
}

func (l *CommitLog) cut(p store.PhyOffset) error {
	names, err := l.fs.List(logDir)
	if err != nil {
		return err
	}
	for i := len(names) - 1; i >= 0; i-- { // the last first: a crash in between leaves no hole
		from, _ := strconv.ParseInt(names[i], 10, 64)
		at := store.PhyOffset(from)
		switch {
		case at >= p:
			if f := l.files[at]; f != nil {
				_ = f.Close()
				delete(l.files, at)
			}
			if err := l.fs.Remove(l.name(at)); err != nil {
				return err
			}
			if err := l.fs.SyncDir(logDir); err != nil {
				return err
			}
		case at+logFileBytes > p:
			f, err := l.file(at)
			if err != nil {
				return err
			}
			if err := f.Truncate(int64(max(p-at, 0))); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
		}
	}
	l.bytes = l.bytes[: p-l.min : p-l.min]
	l.whole, l.synced, l.confirm, l.shown = min(l.whole, p), min(l.synced, p), min(l.confirm, p), min(l.shown, p)
	for q := range l.queues {
		for n := len(l.queues[q]); n > 0 && l.queues[q][n-1].End() > p; n-- {
			l.queues[q] = l.queues[q][:n-1]
		}
	}
	if l.shown < l.saved { // what will be there one day is not confirmed
		return l.saveConfirm()
	}
	return nil
}

// DropLog empties the log.
func (l *CommitLog) DropLog(bool) error {
	l.h.w.Tracef("%s: log dropped, was [%d,%d)", l.h.Name, l.min, l.MaxPhyOffset())
	l.h.w.Check.cut(l, l.min)
	if err := l.cut(l.min); err != nil {
		return err
	}
	l.min, l.whole, l.synced, l.shown, l.bytes = 0, 0, 0, 0, nil
	return l.saveConfirm()
}

// Follow makes it a slave's log.
func (l *CommitLog) Follow() {
	l.following = true
	l.confirm = min(l.confirm, l.whole)
}

// CutTail cuts what is not whole, and tells where the log ends.
func (l *CommitLog) CutTail() (store.PhyOffset, error) {
	if l.whole < l.MaxPhyOffset() {
		if err := l.TruncateLog(l.whole); err != nil {
			return 0, err
		}
	}
	return l.whole, nil
}

// Lead makes it a master's.
func (l *CommitLog) Lead() error {
	if !l.following {
		return nil
	}
	if _, err := l.CutTail(); err != nil {
		return err
	}
	l.following = false
	return nil
}

// Get is the message at a queue offset, if consumers may see it.
func (l *CommitLog) Get(queue int, q store.QueueOffset) (e entry, ok bool) {
	if q < 0 || int(q) >= len(l.queues[queue]) {
		return e, false
	}
	e = l.queues[queue][q]
	return e, e.End() <= l.shown
}

// has tells whether a message is where it was said to be.
func (l *CommitLog) has(m *message) bool {
	q := l.queues[m.queue]
	return int(m.offset) < len(q) && q[m.offset].id == m.id && q[m.offset].at == m.at
}
