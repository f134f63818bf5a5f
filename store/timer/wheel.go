package timer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"skylark/internal/vfs"
	"skylark/store"
)

// Layout of the file timerwheel (Java TimerWheel, Slot): wheelSlots slots of slotBytes, slot i for the times t with
// t/precision % wheelSlots = i.
//
//	0  int64  t/precision; 0 = never used
//	8  int64  position in the TimerLog of the first unit
//	16 int64  … of the last one; the units lead from the last to the first
//	24 int32  messages in the slot, less the ones that were recalled
//	28 int32  0
const (
	slotBytes = 32
	// halfSlots is how far ahead a message may lie, in steps of the precision; the other half keeps the past apart.
	halfSlots    = 7 * 24 * 3600
	wheelSlots   = 2 * halfSlots
	slotsPerPage = 128 // one page of the file
	pageBytes    = slotsPerPage * slotBytes
	// blankSlots keeps a roll away from the end of the wheel (Java TIMER_BLANK_SLOTS).
	blankSlots = 60
	none       = int64(-1) // no unit
)

// slot is what waits for one step of the precision.
type slot struct {
	step        int64 // time / precision, 0 = empty
	first, last int64
	num         int32
	magic       int32
}

// page is as many slots as fit into a page of the file; it exists while one of them is in use.
type page struct {
	slots [slotsPerPage]slot
	used  int
}

// wheel is the timer wheel in memory: only pages with waiting messages exist, so an idle wheel costs a table of
// pointers and a full one of two days 5.5 MiB. Slots that have been delivered are emptied, unlike Java's, so that
// time may go back and nothing is delivered twice. Not for concurrent use.
type wheel struct {
	precision int64
	size      int64 // slots, wheelSlots but in tests
	pages     []*page
	dirty     map[int]bool // pages that differ from the file
	waiting   int64        // sum of num
	used      int          // slots in use, of all pages
}

func newWheel(precisionMillis, slots int64) *wheel {
	return &wheel{precision: precisionMillis, size: slots, pages: make([]*page, slots/slotsPerPage), dirty: map[int]bool{}}
}

func (w *wheel) at(t int64) (p, i int) {
	n := int(t / w.precision % w.size)
	return n / slotsPerPage, n % slotsPerPage
}

// get is the slot of a time; false when nothing waits for it.
func (w *wheel) get(t int64) (slot, bool) {
	p, i := w.at(t)
	if pg := w.pages[p]; pg != nil && pg.slots[i].step == t/w.precision {
		return pg.slots[i], true
	}
	return slot{first: none, last: none}, false
}

// put stores the slot of a time, whatever was there.
func (w *wheel) put(t int64, s slot) {
	p, i := w.at(t)
	pg := w.pages[p]
	if pg == nil {
		pg = &page{}
		w.pages[p] = pg
	}
	old := &pg.slots[i]
	if old.step == 0 {
		pg.used++
		w.used++
	}
	s.step = t / w.precision
	w.waiting += int64(s.num) - int64(old.num)
	*old = s
	w.dirty[p] = true
}

// clear empties the slot of a time.
func (w *wheel) clear(t int64) {
	p, i := w.at(t)
	pg := w.pages[p]
	if pg == nil || pg.slots[i].step != t/w.precision {
		return
	}
	w.waiting -= int64(pg.slots[i].num)
	pg.slots[i] = slot{}
	pg.used--
	w.used--
	w.dirty[p] = true
}

// each visits the used slots in no order; f may clear the one it gets.
func (w *wheel) each(f func(t int64, s slot)) {
	for _, pg := range w.pages {
		if pg == nil || pg.used == 0 {
			continue
		}
		for i := range pg.slots {
			if s := pg.slots[i]; s.step != 0 {
				f(s.step*w.precision, s)
			}
		}
	}
}

// next is the first time from t on that has a slot in use, at most limit. However far limit is, it looks at each page once
// at most: a service that was never started is at time 0, and GET_BROKER_RUNTIME_INFO asks.
func (w *wheel) next(t, limit int64) int64 {
	switch {
	case w.used == 0:
		return limit
	case limit-t > w.size*w.precision: // more than one turn
		w.each(func(at int64, _ slot) {
			if at >= t {
				limit = min(limit, at)
			}
		})
		return limit
	}
	for t < limit {
		p, i := w.at(t)
		pg := w.pages[p]
		if pg == nil || pg.used == 0 {
			t += int64(slotsPerPage-i) * w.precision
			continue
		}
		if pg.slots[i].step == t/w.precision {
			return t
		}
		t += w.precision
	}
	return limit
}

// snapshot takes the pages that the file has to get, and forgets those that are empty.
func (w *wheel) snapshot() map[int][]byte {
	out := make(map[int][]byte, len(w.dirty))
	for p := range w.dirty {
		b := make([]byte, pageBytes)
		if pg := w.pages[p]; pg != nil {
			for i := range pg.slots {
				encodeSlot(b[i*slotBytes:], &pg.slots[i])
			}
			if pg.used == 0 {
				w.pages[p] = nil
			}
		}
		out[p] = b
	}
	clear(w.dirty)
	return out
}

func encodeSlot(b []byte, s *slot) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(s.step))
	be.PutUint64(b[8:], uint64(s.first))
	be.PutUint64(b[16:], uint64(s.last))
	be.PutUint32(b[24:], uint32(s.num))
	be.PutUint32(b[28:], uint32(s.magic))
}

func decodeSlot(b []byte) slot {
	be := binary.BigEndian
	return slot{step: int64(be.Uint64(b)), first: int64(be.Uint64(b[8:])), last: int64(be.Uint64(b[16:])),
		num: int32(be.Uint32(b[24:])), magic: int32(be.Uint32(b[28:]))}
}

// loadWheel reads the slots from readTime on out of the file; a missing or empty file is an empty wheel. What lies
// before has been delivered.
func loadWheel(fsys vfs.FS, name string, precisionMillis, slots, readTime int64) (*wheel, error) {
	w, wheelBytes := newWheel(precisionMillis, slots), slots*slotBytes
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("timer: %s: %w", name, err)
	}
	switch info.Size() {
	case 0:
		return w, nil
	case wheelBytes:
	default:
		return nil, fmt.Errorf("timer: %w: %s has %d bytes, a timer wheel has %d", store.ErrCorrupt, name, info.Size(),
			wheelBytes)
	}
	buf := make([]byte, 64*pageBytes)
	for at := int64(0); at < wheelBytes; at += int64(len(buf)) {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), wheelBytes-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("timer: %s at %d: %w", name, at, err)
		}
		w.take(buf[:n], int(at/slotBytes), readTime)
	}
	clear(w.dirty)
	return w, nil
}

// take keeps what waits of the slots from index on. A slot whose time does not belong to its index is damaged.
func (w *wheel) take(b []byte, index int, readTime int64) {
	for ; len(b) >= slotBytes; b, index = b[slotBytes:], index+1 {
		s := decodeSlot(b)
		t := s.step * w.precision
		if s.step <= 0 || t < readTime || s.last < 0 || s.step%w.size != int64(index) {
			continue
		}
		w.put(t, s)
	}
}

// wheelFile is the file timerwheel, made at the first flush.
type wheelFile struct {
	fs   vfs.FS
	name string
	size int64 // bytes
	f    vfs.File
}

// write stores pages and makes them durable.
func (w *wheelFile) write(pages map[int][]byte) error {
	if len(pages) == 0 {
		return nil
	}
	if w.f == nil {
		f, err := openSized(w.fs, w.name, w.size)
		if err != nil {
			return err
		}
		w.f = f
	}
	for p, b := range pages {
		if _, err := w.f.WriteAt(b, int64(p)*pageBytes); err != nil {
			return fmt.Errorf("timer: %s: %w", w.name, err)
		}
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("timer: %s: %w", w.name, err)
	}
	return nil
}

func (w *wheelFile) close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// openSized opens a file and makes it size bytes long if it is not.
func openSized(fsys vfs.FS, name string, size int64) (vfs.File, error) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		if err = f.Truncate(size); err == nil {
			if err = f.Sync(); err == nil {
				err = fsys.SyncDir(path.Dir(name))
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("timer: %s: %w", name, err), f.Close())
	}
	return f, nil
}
