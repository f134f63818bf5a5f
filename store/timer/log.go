package timer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
)

// Layout of a unit of the TimerLog (Java TimerLog):
//
//	0  int32  52
//	4  int64  position of the unit before it in the slot, -1 none
//	12 int32  magic: 1, with magicRoll and magicDelete
//	16 int64  enqueue time, ms
//	24 int32  time of the slot - enqueue time, ms
//	28 int64  position of the message in the CommitLog
//	36 int32  its bytes
//	40 int32  hash of its real topic
//	44 int64  0
//
// Where a unit and a blank do not fit any more, a file ends in a blank: int32 bytes to the end, int64 0, int32
// blankMagic.
const (
	unitBytes  = 52
	blankBytes = 16
	blankMagic = 0xCBD43194

	magicDefault = 1
	magicRoll    = 1 << 1
	magicDelete  = 1 << 2

	// windowBytes is read at once: units of a slot lie close together.
	windowBytes = 64 << 10
)

// unit is one waiting message.
type unit struct {
	prev    int64
	magic   int32
	enqueue int64
	due     int64 // time of the slot, or of the next roll
	phy     codec.PhyOffset
	size    int32
	hash    int32
}

func (u *unit) rolls() bool   { return u.magic&magicRoll != 0 }
func (u *unit) deletes() bool { return u.magic&magicDelete != 0 }

func appendUnit(b []byte, u *unit) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, unitBytes)
	b = be.AppendUint64(b, uint64(u.prev))
	b = be.AppendUint32(b, uint32(u.magic))
	b = be.AppendUint64(b, uint64(u.enqueue))
	b = be.AppendUint32(b, uint32(int32(u.due-u.enqueue)))
	b = be.AppendUint64(b, uint64(u.phy))
	b = be.AppendUint32(b, uint32(u.size))
	b = be.AppendUint32(b, uint32(u.hash))
	return be.AppendUint64(b, 0)
}

// parseUnit is false for what cannot be a unit.
func parseUnit(b []byte) (u unit, ok bool) {
	be := binary.BigEndian
	u = unit{prev: int64(be.Uint64(b[4:])), magic: int32(be.Uint32(b[12:])), enqueue: int64(be.Uint64(b[16:])),
		phy: codec.PhyOffset(be.Uint64(b[28:])), size: int32(be.Uint32(b[36:])), hash: int32(be.Uint32(b[40:]))}
	u.due = u.enqueue + int64(int32(be.Uint32(b[24:])))
	return u, be.Uint32(b) == unitBytes && u.magic|0xF == 0xF && u.prev >= none && u.phy >= 0 && u.size > 0
}

// timerLog is the directory timerlog: files of equal size whose names are the position of their first byte. files, end and
// dirty are guarded by the owner; the files themselves may be read and synced while they are written.
type timerLog struct {
	fs       vfs.FS
	dir      string
	fileSize int64
	files    []*logFile
	end      int64 // where the next unit goes
}

type logFile struct {
	from  int64
	name  string
	f     vfs.File
	dirty bool // written since the last sync
}

// openLog opens the files that are there. A last file without content is removed, as Java does; any other length than
// fileSize is an error.
func openLog(fsys vfs.FS, dir string, fileSize int64) (*timerLog, error) {
	l := &timerLog{fs: fsys, dir: dir, fileSize: fileSize}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	for i, name := range names {
		full := path.Join(dir, name)
		info, err := fsys.Stat(full)
		if err == nil && info.IsDir() {
			continue
		}
		from, parseErr := strconv.ParseInt(name, 10, 64)
		switch {
		case err != nil:
		case info.Size() == 0 && i == len(names)-1:
			err = fsys.Remove(full)
		case parseErr != nil || info.Size() != fileSize || from%fileSize != 0 || l.hole(from):
			err = fmt.Errorf("%w: the file has %d bytes, mappedFileSizeTimerLog is %d", store.ErrCorrupt, info.Size(),
				fileSize)
		default:
			err = l.open(full, from)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("timer: %s: %w", full, err), l.close())
		}
	}
	if n := len(l.files); n > 0 {
		l.end = l.files[n-1].from + fileSize
	}
	return l, nil
}

func (l *timerLog) hole(from int64) bool {
	n := len(l.files)
	return n > 0 && l.files[n-1].from+l.fileSize != from
}

func (l *timerLog) open(name string, from int64) error {
	f, err := l.fs.OpenReadWrite(name)
	if err != nil {
		return err
	}
	l.files = append(l.files, &logFile{from: from, name: name, f: f})
	return nil
}

// file is the one with the byte at pos, nil if there is none.
func (l *timerLog) file(pos int64) *logFile {
	if len(l.files) == 0 || pos < l.files[0].from {
		return nil
	}
	if i := (pos - l.files[0].from) / l.fileSize; i < int64(len(l.files)) {
		return l.files[i]
	}
	return nil
}

// start is the position of the first byte.
func (l *timerLog) start() int64 {
	if len(l.files) == 0 {
		return l.end
	}
	return l.files[0].from
}

// room tells whether a unit fits behind pos in its file (Java: len + MIN_BLANK_LEN <= rest).
func (l *timerLog) room(pos int64) bool {
	rest := l.fileSize - pos%l.fileSize
	return unitBytes+blankBytes <= rest && l.file(pos) != nil
}

// plan tells what has to be done before a unit can be appended that does not fit any more: a blank in cur, if that is
// not nil, and the file from, unless have.
func (l *timerLog) plan() (cur *logFile, from int64, have bool) {
	from = (l.end + l.fileSize - 1) / l.fileSize * l.fileSize
	if l.end%l.fileSize != 0 {
		cur = l.file(l.end)
	}
	return cur, from, l.file(from) != nil
}

// blank marks the rest of a file as unused.
func (l *timerLog) blank(f *logFile, pos int64) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(f.from+l.fileSize-pos))
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, blankMagic)
	return f.write(b, pos)
}

// create makes the file that begins at from.
func (l *timerLog) create(from int64) (*logFile, error) {
	if err := vfs.MkdirAllSync(l.fs, l.dir); err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	name := path.Join(l.dir, fmt.Sprintf("%020d", from))
	f, err := openSized(l.fs, name, l.fileSize)
	if err != nil {
		return nil, err
	}
	return &logFile{from: from, name: name, f: f}, nil
}

// write stores bytes at a position of the log.
func (f *logFile) write(b []byte, pos int64) error {
	if _, err := f.f.WriteAt(b, pos-f.from); err != nil {
		return fmt.Errorf("timer: %s at %d: %w", f.name, pos-f.from, err)
	}
	return nil
}

// unsynced are the files with bytes that a power cut could take.
func (l *timerLog) unsynced() (files []*logFile) {
	for _, f := range l.files {
		if f.dirty {
			f.dirty = false
			files = append(files, f)
		}
	}
	return files
}

// lastUnit reads the last unit of a full file; false when it has none.
func (l *timerLog) lastUnit(f *logFile) (unit, bool, error) {
	b := make([]byte, unitBytes)
	last := (l.fileSize-blankBytes)/unitBytes*unitBytes - unitBytes
	if _, err := f.f.ReadAt(b, last); err != nil {
		return unit{}, false, fmt.Errorf("timer: %s at %d: %w", f.name, last, err)
	}
	u, ok := parseUnit(b)
	return u, ok, nil
}

// remove deletes the file of a part of the log that is not in its list any more.
func (l *timerLog) remove(f *logFile) error {
	if err := errors.Join(f.f.Close(), l.fs.Remove(f.name)); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

func (l *timerLog) close() (err error) {
	for _, f := range l.files {
		err = errors.Join(err, f.f.Close())
	}
	l.files = nil
	return err
}

// reader reads units, from the last to the first of a slot or forward, with one read for many. The files it was made
// of must stay open.
type reader struct {
	files    []*logFile
	fileSize int64
	buf      []byte
	from, to int64 // positions that buf holds
}

// use has the reader read the files that are there now.
func (r *reader) use(l *timerLog) {
	r.files, r.fileSize = append(r.files[:0], l.files...), l.fileSize
}

func (r *reader) file(pos int64) *logFile {
	if len(r.files) == 0 || pos < r.files[0].from {
		return nil
	}
	if i := (pos - r.files[0].from) / r.fileSize; i < int64(len(r.files)) {
		return r.files[i]
	}
	return nil
}

// back reads the unit at pos for somebody who goes on with earlier ones.
func (r *reader) back(pos int64) (unit, error) {
	return r.unit(pos, pos+unitBytes-windowBytes, pos+unitBytes)
}

// unit reads the one at pos, and with it [lo, hi) as far as it is in the file.
func (r *reader) unit(pos, lo, hi int64) (u unit, err error) {
	if pos < r.from || pos+unitBytes > r.to {
		f := r.file(pos)
		if f == nil || pos-f.from+unitBytes > r.fileSize {
			return u, fmt.Errorf("timer: %w: no unit at %d", store.ErrNotFound, pos)
		}
		lo, hi = max(lo, f.from), min(hi, f.from+r.fileSize)
		if cap(r.buf) < int(hi-lo) {
			r.buf = make([]byte, windowBytes)
		}
		r.from, r.to = 0, 0
		if _, err := f.f.ReadAt(r.buf[:hi-lo], lo-f.from); err != nil {
			return u, fmt.Errorf("timer: %s at %d: %w", f.name, lo-f.from, err)
		}
		r.from, r.to = lo, hi
	}
	u, ok := parseUnit(r.buf[pos-r.from:])
	if !ok {
		return u, fmt.Errorf("timer: %w: no unit at %d", store.ErrCorrupt, pos)
	}
	return u, nil
}
