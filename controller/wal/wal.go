package wal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"skylark/internal/vfs"
)

// DefaultSegmentBytes is where a segment ends and the next one begins.
const DefaultSegmentBytes = 4 << 20

// Identity tells whose log it is.
type Identity struct {
	Group string   `json:"group"` // controllerDLegerGroup
	Self  string   `json:"self"`  // controllerDLegerSelfId
	Peers []string `json:"peers"` // ids of all controllers of the group, sorted
}

// Options of a log. FS and Dir are required.
type Options struct {
	FS           vfs.FS
	Dir          string
	SegmentBytes int64 // DefaultSegmentBytes
	Identity     Identity
	Log          *slog.Logger
}

// Recovered is what a directory holds.
type Recovered struct {
	// Found is false for a new directory.
	Found     bool
	Identity  Identity // as it was written last
	Snapshot  raftpb.Snapshot
	HardState raftpb.HardState
	Entries   []raftpb.Entry // behind the snapshot, without gaps
	// TornBytes were cut off at the end.
	TornBytes int64
}

// WAL is an open directory. Its methods are called by one goroutine at a time.
type WAL struct {
	o         Options
	lock      io.Closer
	segments  []segment // in order; the last one is written
	file      vfs.File  // of the last one; nil: the next Append makes a segment
	size      int64     // of file
	sequence  uint64    // of the next batch
	last      uint64    // index of the last entry
	hardState raftpb.HardState
	snapshots []snapFile // ascending
	failed    error
}

// segment is one file.
type segment struct {
	name       string
	lastBefore uint64 // index of the last entry before it
}

// Open reads a directory, makes it if it is missing, and prepares to append. A directory in use is vfs.ErrLocked.
func Open(o Options) (*WAL, *Recovered, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := vfs.MkdirAllSync(o.FS, o.Dir); err != nil {
		return nil, nil, fmt.Errorf("wal: %w", err)
	}
	lock, err := o.FS.Lock(path.Join(o.Dir, "lock"))
	if err != nil {
		return nil, nil, fmt.Errorf("wal: %s: %w", o.Dir, err)
	}
	w := &WAL{o: o, lock: lock, sequence: 1}
	rec, err := w.recover()
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, rec, nil
}

// Append makes a vote and entries durable before it returns. Entries replace those from the first one's index on. Nothing
// is written when there is neither.
func (w *WAL) Append(hs raftpb.HardState, entries []raftpb.Entry) error {
	if raft.IsEmptyHardState(hs) && len(entries) == 0 {
		return w.failed
	}
	b := w.begin()
	if !raft.IsEmptyHardState(hs) {
		w.hardState = hs
		b.message(recHardState, &hs)
	}
	for i := range entries {
		b.message(recEntry, &entries[i])
	}
	if err := w.write(b); err != nil {
		return err
	}
	if n := len(entries); n > 0 {
		w.last = entries[n-1].Index
	}
	return nil
}

// begin starts a batch; the first of a segment tells what recovery needs when all before it are gone.
func (w *WAL) begin() *batch {
	b := newBatch()
	if w.file == nil || w.size >= w.o.SegmentBytes {
		w.identity(b)
		b.numbers(recLastBefore, w.last)
		if !raft.IsEmptyHardState(w.hardState) {
			b.message(recHardState, &w.hardState)
		}
	}
	return b
}

// SaveIdentity makes Options.Identity durable; every segment begins with it anyway.
func (w *WAL) SaveIdentity() error {
	b := w.begin()
	if len(b.buf) == batchHeader {
		w.identity(b)
	}
	return w.write(b)
}

func (w *WAL) identity(b *batch) {
	content, err := json.Marshal(w.o.Identity)
	if err != nil {
		panic("BUG: wal: identity does not encode: " + err.Error())
	}
	b.record(recIdentity, content)
}

func (b *batch) message(kind byte, m interface{ Marshal() ([]byte, error) }) {
	content, err := m.Marshal()
	if err != nil {
		panic("BUG: wal: " + err.Error()) // of values that raft made
	}
	b.record(kind, content)
}

func (w *WAL) write(b *batch) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.writeBatch(b.finish(w.sequence)); err != nil {
		w.failed = fmt.Errorf("wal: %w", err)
		return w.failed
	}
	w.sequence++
	return nil
}

func (w *WAL) writeBatch(data []byte) error {
	fresh := w.file == nil || w.size >= w.o.SegmentBytes
	if fresh {
		if err := w.nextSegment(); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt(data, w.size); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.size += int64(len(data))
	if fresh {
		return w.o.FS.SyncDir(w.o.Dir)
	}
	return nil
}

func (w *WAL) nextSegment() error {
	if w.file != nil {
		if err := w.file.Close(); err != nil {
			return err
		}
		w.file = nil
	}
	name := fmt.Sprintf("%016x.wal", w.sequence)
	f, err := w.o.FS.Create(path.Join(w.o.Dir, name))
	if err != nil {
		return err
	}
	w.file, w.size = f, 0
	w.segments = append(w.segments, segment{name, w.last})
	return nil
}

// SaveSnapshot keeps a snapshot and drops what it makes superfluous. reset tells that it came from the leader: the log is
// void and goes on behind it. hs is written with it.
func (w *WAL) SaveSnapshot(snap raftpb.Snapshot, reset bool, hs raftpb.HardState) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.writeSnapshot(snap); err != nil {
		w.failed = fmt.Errorf("wal: %w", err)
		return w.failed
	}
	if reset {
		b := w.begin()
		b.numbers(recReset, snap.Metadata.Index, snap.Metadata.Term)
		if !raft.IsEmptyHardState(hs) {
			w.hardState = hs
			b.message(recHardState, &hs)
		}
		if err := w.write(b); err != nil {
			return err
		}
		w.last = snap.Metadata.Index
	}
	if err := w.dropOld(); err != nil {
		w.failed = fmt.Errorf("wal: %w", err)
		return w.failed
	}
	return nil
}

// dropOld keeps two snapshots and the segments that the older of them needs.
func (w *WAL) dropOld() error {
	for len(w.snapshots) > keptSnapshots {
		if err := w.remove(w.snapshots[0].name); err != nil {
			return err
		}
		w.snapshots = w.snapshots[1:]
	}
	if len(w.snapshots) < keptSnapshots {
		return nil
	}
	for len(w.segments) > 1 && w.segments[1].lastBefore <= w.snapshots[0].index {
		if err := w.remove(w.segments[0].name); err != nil {
			return err
		}
		w.segments = w.segments[1:]
	}
	return nil
}

// remove is durable before the next one: segments go from the oldest on, so a gap in them is damage.
func (w *WAL) remove(name string) error {
	if err := w.o.FS.Remove(path.Join(w.o.Dir, name)); err != nil {
		return err
	}
	return w.o.FS.SyncDir(w.o.Dir)
}

// Err is why the log cannot be written any more, nil while it can.
func (w *WAL) Err() error { return w.failed }

// Close gives the directory free. Everything is durable already.
func (w *WAL) Close() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
		w.lock = nil
	}
	if w.failed == nil {
		w.failed = errors.New("wal: closed")
	}
	return err
}
