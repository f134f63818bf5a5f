package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"skylark/codec"
)

// dispatchRecord is what ConsumeQueues, index and consumers need to know of a record (Java DispatchRequest). The slices
// alias the CommitLog.
type dispatchRecord struct {
	topic          []byte
	queueID        int32
	queueOffset    QueueOffset
	phyOffset      PhyOffset
	size           int
	tagsCode       int64
	storeTimestamp int64
	sysFlag        int32
	properties     []byte
}

// consumable tells that consumers see the record: half messages and rollbacks stay out of the ConsumeQueues.
func (d *dispatchRecord) consumable() bool {
	state := d.sysFlag & codec.SysFlagTransactionMask
	return state == codec.SysFlagTransactionNone || state == codec.SysFlagTransactionCommit
}

// indexed tells that its keys go into the index; half messages do.
func (d *dispatchRecord) indexed() bool {
	return d.sysFlag&codec.SysFlagTransactionMask != codec.SysFlagTransactionRollback
}

// read is fill of a plain record at the start of b, without parsing what nobody behind the log asks for: a third of the
// time. false: it is another kind of record, or none; nothing is known of it then.
func (d *dispatchRecord) read(b []byte, p PhyOffset) bool {
	topicAt, propertiesAt, size, ok := plainRecord(b)
	if !ok {
		return false
	}
	be := binary.BigEndian
	*d = dispatchRecord{
		topic:          b[topicAt : propertiesAt-2 : propertiesAt-2],
		queueID:        int32(be.Uint32(b[12:])),
		queueOffset:    QueueOffset(be.Uint64(b[20:])),
		phyOffset:      p,
		size:           size,
		storeTimestamp: int64(be.Uint64(b[recordStoreTimestampAt:])),
		sysFlag:        int32(be.Uint32(b[recordSysFlagAt:])),
		properties:     b[propertiesAt:size:size],
	}
	return true
}

// plainRecord finds topic, properties and end of a plain record at the start of b. false: it is another kind of record, or
// none.
func plainRecord(b []byte) (topicAt, propertiesAt, size int, ok bool) {
	be := binary.BigEndian
	if len(b) < codec.MinRecordBytes {
		return 0, 0, 0, false
	}
	size, magic := codec.RecordSize(b)
	if magic != codec.MagicV1 || size < codec.MinRecordBytes || size > len(b) {
		return 0, 0, 0, false
	}
	const v6 = codec.SysFlagBornHostV6 | codec.SysFlagStoreHostV6
	if int32(be.Uint32(b[recordSysFlagAt:]))&v6 != 0 {
		return 0, 0, 0, false
	}
	body := int(int32(be.Uint32(b[recordBodyAt:])))
	topicAt = recordBodyAt + 4 + body + 1
	if body < 0 || topicAt > size {
		return 0, 0, 0, false
	}
	topic := int(int8(b[topicAt-1]))
	propertiesAt = topicAt + topic + 2
	if topic < 0 || propertiesAt > size || propertiesAt+int(int16(be.Uint16(b[propertiesAt-2:]))) != size {
		return 0, 0, 0, false
	}
	return topicAt, propertiesAt, size, true
}

// fill takes what it needs out of rec, whose bytes start at phyOffset p.
func (d *dispatchRecord) fill(rec *codec.Record, p PhyOffset, o *Options) {
	d.from(rec, p)
	d.setTagsCode(o)
}

func (d *dispatchRecord) from(rec *codec.Record, p PhyOffset) {
	*d = dispatchRecord{
		topic:          rec.Topic,
		queueID:        rec.QueueID,
		queueOffset:    rec.QueueOffset,
		phyOffset:      p,
		size:           rec.TotalSize,
		storeTimestamp: rec.StoreTimestamp,
		sysFlag:        rec.SysFlag,
		properties:     rec.Properties,
	}
}

// setTagsCode computes what the ConsumeQueue entry says of the tags.
func (d *dispatchRecord) setTagsCode(o *Options) {
	if !d.consumable() {
		return
	}
	if string(d.topic) == codec.ScheduleTopic {
		// A level that is not positive or no number leaves the tag's hash, as in Java.
		if level, err := strconv.Atoi(string(propertyValue(d.properties, delayPattern))); err == nil && level > 0 {
			d.tagsCode = o.DelayTagsCode(level, d.storeTimestamp)
			return
		}
	}
	if tags := propertyValue(d.properties, tagsPattern); len(tags) > 0 {
		d.tagsCode = codec.TagsCode(tags)
	}
}

// A property's name with its separator: what propertyValue looks for.
var (
	tagsPattern    = []byte(codec.PropTags + "\x01")
	keysPattern    = []byte(codec.PropKeys + "\x01")
	uniqKeyPattern = []byte(codec.PropUniqKey + "\x01")
	delayPattern   = []byte(codec.PropDelayTimeLevel + "\x01")
)

// propertyValue is codec.LookupProperty by substring search: 30 ns where walking the properties takes 300. nil when the
// property is missing or empty.
func propertyValue(props, pattern []byte) (value []byte) {
	for at := 0; ; {
		i := bytes.Index(props[at:], pattern)
		if i < 0 {
			return value
		}
		start := at + i
		at = start + len(pattern)
		if start > 0 && props[start-1] != codec.PropValueSeparator {
			continue // the end of a longer name, or part of a value
		}
		entry := props[at:]
		if end := bytes.IndexByte(entry, codec.PropValueSeparator); end >= 0 {
			entry = entry[:end]
		}
		if len(entry) > 0 {
			value = entry
		}
	}
}

// logWalker goes through the records of the CommitLog in order. It holds a reference of the file it is in, so the
// slices of the record it stands at stay valid until the next call.
type logWalker struct {
	cl *commitLog
	o  *Options
	at PhyOffset // of the next record
	mf *mappedFile
	// stay keeps the walker in its file, so that the slices of earlier records of it stay valid, too.
	stay bool
	// written is the end of the log when this process began to write: what lies before may have to come from the disk.
	written PhyOffset
	warmTo  PhyOffset // looked at for being in memory
	needs   PhyOffset // end of a record at at that the end of a walk has cut, see cuts
}

const (
	// walkAheadBytes are read in at once when a walk comes to a part of the log that is not in memory.
	walkAheadBytes = 1 << 20
	// walkHotBytes behind the end of the log are in memory, if this process wrote them.
	walkHotBytes = 64 << 20
)

// warm makes sure that no record of the next stretch causes a page fault, which would stop a thread of the scheduler.
// limit is the end of what can be read in the file.
func (w *logWalker) warm(pos, limit int64) {
	if w.at < w.warmTo || w.at >= w.written && int64(w.cl.maxOffset()-w.at) < walkHotBytes {
		return
	}
	n := min(walkAheadBytes, limit-pos)
	w.warmTo = w.at + PhyOffset(n)
	if w.mf.resident(pos, n) {
		return
	}
	if err := w.mf.prefetch(pos, n); err != nil {
		w.o.Log.Debug("no read-ahead", "file", w.mf.path, "err", err)
	}
}

// release lets go of the file. The walker can go on.
func (w *logWalker) release() {
	if w.mf != nil {
		w.mf.Release()
		w.mf = nil
	}
}

// enter makes the file that holds w.at current. Where a file is missing, because it expired or was lost, w.at moves to
// the start of the next one. false: there is nothing behind w.at.
func (w *logWalker) enter() bool {
	if w.mf != nil && w.mf.contains(int64(w.at)) {
		return true
	}
	if w.mf != nil && w.stay {
		return false
	}
	w.release()
	for {
		mf := w.cl.files.find(int64(w.at))
		if mf == nil {
			if mf = w.cl.files.after(int64(w.at)); mf == nil {
				return false
			}
			w.at = PhyOffset(mf.fileFrom)
		}
		if mf.Acquire() {
			w.mf = mf
			return true
		}
		w.at = PhyOffset(mf.fileFrom + mf.size) // deleted this moment
	}
}

// cuts tells that a walk to limit would end within the record at pos, and notes where that record ends: what is confirmed
// by others ends anywhere (ConfirmTo). wrote is the end of what can be read.
func (w *logWalker) cuts(pos, limit, wrote int64) bool {
	if wrote-pos < codec.BlankRecordBytes {
		return false
	}
	size, _ := codec.RecordSize(w.mf.data()[pos:wrote])
	if size <= 0 || int64(size) > wrote-pos || pos+int64(size) <= limit {
		return false
	}
	w.needs = w.at + PhyOffset(size)
	return true
}

// next reads the record at w.at into d, but for the tagsCode, and moves on; false: everything before end is done. What
// cannot be a record is an error, and what is in its file by now is left out: there is no way to find the next record.
func (w *logWalker) next(end PhyOffset, d *dispatchRecord) (bool, error) {
	for w.at < end && w.enter() && w.at < end {
		pos := int64(w.at) - w.mf.fileFrom
		limit := min(w.mf.readPosition(), int64(end)-w.mf.fileFrom)
		if pos >= limit {
			return false, nil
		}
		fileEnd := PhyOffset(w.mf.fileFrom + w.mf.size)
		if w.mf.size-pos < codec.BlankRecordBytes {
			w.at = fileEnd
			continue
		}
		if wrote := w.mf.readPosition(); limit < wrote && w.cuts(pos, limit, wrote) {
			return false, nil
		}
		w.warm(pos, limit)
		b := w.mf.data()[pos:limit:limit]
		if d.read(b, w.at) {
			w.at += PhyOffset(d.size)
			return true, nil
		}
		rec, err := codec.ParseRecord(b, false)
		if err != nil {
			bad := w.at
			w.at = PhyOffset(w.mf.fileFrom + limit)
			return false, fmt.Errorf("store: %s at %d: %w", w.mf.path, bad, err)
		}
		if rec.IsBlank() {
			w.at = fileEnd
			continue
		}
		d.from(&rec, w.at)
		w.at += PhyOffset(rec.TotalSize)
		return true, nil
	}
	return false, nil
}
