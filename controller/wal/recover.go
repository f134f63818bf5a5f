package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"skylark/internal/vfs"
)

func (w *WAL) recover() (*Recovered, error) {
	names, err := w.o.FS.List(w.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	rec := new(Recovered)
	var segments []string
	for _, name := range names { // sorted
		switch {
		case strings.HasSuffix(name, vfs.TempSuffix):
			if err := w.o.FS.Remove(path.Join(w.o.Dir, name)); err != nil {
				return nil, fmt.Errorf("wal: %w", err)
			}
		case strings.HasSuffix(name, ".wal"):
			segments = append(segments, name)
		default:
			if index, ok := snapIndex(name); ok {
				w.snapshots = append(w.snapshots, snapFile{name, index})
			}
		}
	}
	if err := w.loadSnapshot(rec); err != nil {
		return nil, err
	}
	for i, name := range segments {
		if err := w.readSegment(rec, name, i == 0, i == len(segments)-1); err != nil {
			return nil, err
		}
	}
	if err := w.settle(rec); err != nil {
		return nil, err
	}
	return rec, w.openLast()
}

// loadSnapshot takes the newest readable snapshot. Whether the log goes on behind an older one is seen later.
func (w *WAL) loadSnapshot(rec *Recovered) error {
	for i := len(w.snapshots) - 1; i >= 0; i-- {
		f := w.snapshots[i]
		snap, err := w.readSnapshot(f.name)
		if err == nil {
			rec.Snapshot, rec.Found, w.last = snap, true, snap.Metadata.Index
			w.snapshots = w.snapshots[:i+1]
			return nil
		}
		w.o.Log.Error("snapshot cannot be read, the one before is looked at", "file", path.Join(w.o.Dir, f.name), "error", err)
		if i == 0 {
			return fmt.Errorf("%w: %s: %w, and there is no other snapshot", ErrCorrupt, path.Join(w.o.Dir, f.name), err)
		}
		if err := w.o.FS.Rename(path.Join(w.o.Dir, f.name), path.Join(w.o.Dir, f.name+damagedSuffix)); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	return nil
}

// readSegment replays one file into rec.
func (w *WAL) readSegment(rec *Recovered, name string, first, last bool) error {
	file := path.Join(w.o.Dir, name)
	data, err := vfs.ReadFile(w.o.FS, file)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if first {
		if _, err := fmt.Sscanf(name, "%016x.wal", &w.sequence); err != nil {
			return fmt.Errorf("%w: %s: the name is no number", ErrCorrupt, file)
		}
	}
	seg := segment{name: name}
	at := 0
	for at < len(data) {
		sequence, records, size, ok := parseBatch(data[at:])
		if !ok || sequence != w.sequence {
			break
		}
		c, err := parseRecords(records)
		if err != nil {
			return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, file, at, err)
		}
		if at == 0 {
			seg.lastBefore = c.lastBefore
		}
		if err := rec.add(&c); err != nil {
			return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, file, at, err)
		}
		w.sequence++
		at += size
	}
	if at < len(data) {
		if !last || wholeBatchIn(data[at:], w.sequence) {
			return fmt.Errorf("%w: %s at %d, and there is more behind it", ErrCorrupt, file, at)
		}
		rec.TornBytes = int64(len(data) - at)
		w.o.Log.Warn("torn end of the controller's log cut off", "file", file, "offset", at, "bytes", rec.TornBytes)
	}
	if at == 0 {
		if !last {
			return fmt.Errorf("%w: %s is empty, and there is more behind it", ErrCorrupt, file)
		}
		if err := w.remove(name); err != nil { // power went when it was made
			return fmt.Errorf("wal: %w", err)
		}
		return nil
	}
	w.segments = append(w.segments, seg)
	w.size = int64(at)
	rec.Found = true
	return nil
}

// wholeBatchIn looks for a batch that was written later than the bad one at the beginning of data.
func wholeBatchIn(data []byte, sequence uint64) bool {
	magic := binary.BigEndian.AppendUint32(nil, batchMagic)
	for {
		i := bytes.Index(data, magic)
		if i < 0 {
			return false
		}
		if n, _, _, ok := parseBatch(data[i:]); ok && n >= sequence {
			return true
		}
		data = data[i+1:]
	}
}

// add takes over one batch.
func (rec *Recovered) add(c *contents) error {
	if c.identity != nil {
		rec.Identity = *c.identity
	}
	if !raft.IsEmptyHardState(c.hardState) {
		rec.HardState = c.hardState
	}
	if c.reset {
		if c.resetAt > rec.Snapshot.Metadata.Index {
			return fmt.Errorf("the log goes on behind a snapshot up to %d, the newest readable one ends at %d",
				c.resetAt, rec.Snapshot.Metadata.Index)
		}
		rec.Entries = nil
	}
	for i := range c.entries {
		rec.put(c.entries[i])
	}
	return nil
}

// put adds an entry; what stood at its index and behind is void. Entries that the snapshot holds are passed over.
func (rec *Recovered) put(e raftpb.Entry) {
	for n := len(rec.Entries); n > 0 && rec.Entries[n-1].Index >= e.Index; n-- {
		rec.Entries = rec.Entries[:n-1]
	}
	if e.Index > rec.Snapshot.Metadata.Index {
		rec.Entries = append(rec.Entries, e)
	}
}

// settle checks that the log follows the snapshot without a gap.
func (w *WAL) settle(rec *Recovered) error {
	meta := rec.Snapshot.Metadata
	next, term := meta.Index+1, meta.Term
	for i, e := range rec.Entries {
		if e.Term < term { // of before a snapshot from the leader, whose reset was not written any more
			rec.Entries = rec.Entries[:i]
			break
		}
		if e.Index != next {
			return fmt.Errorf("%w: %s: entry %d follows %d", ErrCorrupt, w.o.Dir, e.Index, next-1)
		}
		next, term = e.Index+1, e.Term
	}
	w.last = next - 1
	if rec.HardState.Term < meta.Term { // power went between the snapshot and the vote with it: nobody had this vote
		rec.HardState.Term, rec.HardState.Vote = meta.Term, 0
	}
	if rec.HardState.Commit < meta.Index {
		rec.HardState.Commit = meta.Index
	}
	if rec.HardState.Term < term {
		return fmt.Errorf("%w: %s: the last entry has term %d, the vote %d", ErrCorrupt, w.o.Dir, term, rec.HardState.Term)
	}
	if rec.HardState.Commit > w.last {
		return fmt.Errorf("%w: %s: entries up to %d are committed, the last one is %d", ErrCorrupt, w.o.Dir,
			rec.HardState.Commit, w.last)
	}
	w.hardState = rec.HardState
	return nil
}

// openLast opens the last segment for appending, without its torn end.
func (w *WAL) openLast() error {
	if len(w.segments) == 0 {
		return nil
	}
	f, err := w.o.FS.OpenReadWrite(path.Join(w.o.Dir, w.segments[len(w.segments)-1].name))
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	w.file = f
	info, err := f.Stat()
	if err == nil && info.Size() > w.size {
		if err = f.Truncate(w.size); err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}
