package vfs

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// maxMemFile is the largest file of a MemFS (EFBIG beyond): a wild offset must not eat the machine.
	maxMemFile = 8 << 30
	// maxMemGrowth is the most a file's memory grows ahead of need.
	maxMemGrowth = 1 << 20
	// poisonLimit is the largest mapping whose memory is poisoned when it goes away; it costs a copy of the
	// file.
	poisonLimit = 16 << 20
	poisonByte  = 0xDB
)

// memPage is a page of a durable image. It never changes once it is in one, so crash clones share it.
type memPage [PageSize]byte

// memData is the content of a file.
//
// The volatile image is a list of extents that follow each other without a gap, each a whole number of
// pages. Growing adds an extent and moves nothing, so the first extent can be mapped; Map joins all into
// one when it needs more than the first and nothing is mapped. Bytes past size are zero.
//
// The durable image is a slice of pages in which nil is a page of zeros. lowSize is the smallest size since
// the last Sync: durable bytes beyond it belong to a content that was cut off, and after a crash the cut
// may have happened or not.
type memData struct {
	space *memSpace

	mu       sync.RWMutex
	extents  [][]byte
	size     int64
	reserved pageSet
	mtime    time.Time
	freed    bool

	durable     []*memPage
	durableSize int64
	lowSize     int64

	mapped map[int64]int // live mappings by size
}

func pagesIn(n int64) int64 { return (n + PageSize - 1) / PageSize }
func roundUp(n int64) int64 { return pagesIn(n) * PageSize }

func (d *memData) stat() (int64, time.Time) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.size, d.mtime
}

func (d *memData) setMtime(mtime time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mtime = mtime
}

// spans calls f with the pieces of memory that hold [off, off+n), which must be backed. The caller holds mu.
func (d *memData) spans(off, n int64, f func(piece []byte)) {
	base := int64(0)
	for _, extent := range d.extents {
		if n == 0 {
			return
		}
		length := int64(len(extent))
		if off < base+length {
			piece := extent[off-base:]
			piece = piece[:min(int64(len(piece)), n)]
			f(piece)
			off += int64(len(piece))
			n -= int64(len(piece))
		}
		base += length
	}
}

func (d *memData) backed() int64 {
	total := int64(0)
	for _, extent := range d.extents {
		total += int64(len(extent))
	}
	return total
}

// back makes memory for [0, size).
func (d *memData) back(size int64) {
	have := d.backed()
	if need := roundUp(size) - have; need > 0 {
		d.extents = append(d.extents, make([]byte, max(need, min(have, maxMemGrowth))))
	}
}

func (d *memData) readAt(p []byte, off int64) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(p) == 0 {
		return 0, nil
	}
	n := min(int64(len(p)), d.size-off)
	if n <= 0 {
		return 0, io.EOF
	}
	done := 0
	d.spans(off, n, func(piece []byte) { done += copy(p[done:], piece) })
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// writeAt writes as much as there is room for, like a disk that fills up.
func (d *memData) writeAt(p []byte, off int64, now time.Time) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := off + int64(len(p))
	if len(p) == 0 {
		return 0, nil
	}
	if end > maxMemFile || end < off {
		return 0, syscall.EFBIG
	}
	end, err := d.reserve(off, end, false)
	if end <= off {
		return 0, err
	}
	d.grow(end)
	d.mtime = now
	done := 0
	d.spans(off, end-off, func(piece []byte) { done += copy(piece, p[done:]) })
	return done, err
}

// reserve charges the pages of [off, end) and returns how far it got: the end, or the start of the page the
// partition had no room for, with ENOSPC. With all it is everything or nothing.
func (d *memData) reserve(off, end int64, all bool) (int64, error) {
	from, to := off/PageSize, pagesIn(end)
	if all {
		missing := int64(0)
		for page := from; page < to; page++ {
			if !d.reserved.has(page) {
				missing++
			}
		}
		if err := d.space.take(missing * PageSize); err != nil {
			return off, err
		}
		for page := from; page < to; page++ {
			d.reserved.add(page)
		}
		return end, nil
	}
	for page := from; page < to; page++ {
		if d.reserved.has(page) {
			continue
		}
		if err := d.space.take(PageSize); err != nil {
			return max(off, page*PageSize), err
		}
		d.reserved.add(page)
	}
	return end, nil
}

func (d *memData) grow(size int64) {
	if size > d.size {
		d.back(size)
		d.size = size
	}
}

func (d *memData) allocate(off, n int64, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off < 0 || n <= 0 {
		return syscall.EINVAL
	}
	end := off + n
	if end > maxMemFile || end < off {
		return syscall.EFBIG
	}
	if _, err := d.reserve(off, end, true); err != nil {
		return err
	}
	d.grow(end)
	d.mtime = now
	return nil
}

func (d *memData) truncate(size int64, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size < 0 {
		return syscall.EINVAL
	}
	if size > maxMemFile {
		return syscall.EFBIG
	}
	if size < d.size && size < d.maxMapped() {
		return fmt.Errorf("to %d bytes: %w", size, ErrMapped)
	}
	d.mtime = now
	if size >= d.size {
		d.grow(size)
		return nil
	}
	d.spans(size, d.size-size, func(piece []byte) { clear(piece) })
	d.size = size
	d.lowSize = min(d.lowSize, size)
	d.space.give(d.reserved.removeFrom(pagesIn(size)) * PageSize)
	d.dropExtents()
	return nil
}

// dropExtents lets go of memory past the end that is not mapped.
func (d *memData) dropExtents() {
	have := d.backed()
	for i := len(d.extents) - 1; i >= 0 && !(i == 0 && len(d.mapped) > 0); i-- {
		have -= int64(len(d.extents[i]))
		if have < d.size {
			break
		}
		d.extents[i] = nil
		d.extents = d.extents[:i]
	}
}

// release gives the space back after the last name and the last handle are gone.
func (d *memData) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.freed {
		d.freed = true
		d.space.give(d.reserved.count * PageSize)
	}
}

func (d *memData) maxMapped() int64 {
	largest := int64(0)
	for size := range d.mapped {
		largest = max(largest, size)
	}
	return largest
}

// mapRange returns the memory of [0, size) and counts a mapping.
func (d *memData) mapRange(size int64, writable bool) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size <= 0 || size > d.size {
		return nil, fmt.Errorf("%d of %d bytes: %w", size, d.size, ErrMapRange)
	}
	if writable {
		if hole := d.reserved.firstMissing(pagesIn(size)); hole >= 0 {
			return nil, fmt.Errorf("page at %d: %w", hole*PageSize, ErrHole)
		}
	}
	if int64(len(d.extents[0])) < size {
		if len(d.mapped) > 0 {
			return nil, fmt.Errorf("%d bytes while only %d can be mapped with the live mappings: %w",
				size, len(d.extents[0]), ErrMapRange)
		}
		whole := make([]byte, 0, d.backed())
		d.spans(0, d.backed(), func(piece []byte) { whole = append(whole, piece...) })
		d.extents = [][]byte{whole}
	}
	if d.mapped == nil {
		d.mapped = make(map[int64]int)
	}
	d.mapped[size]++
	return d.extents[0][:size:size], nil
}

// unmapRange undoes mapRange. After the last mapping of a small file its memory is poisoned; the content
// moves.
func (d *memData) unmapRange(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mapped[size]--; d.mapped[size] == 0 {
		delete(d.mapped, size)
	}
	if len(d.mapped) > 0 {
		return
	}
	if old := d.extents[0]; len(old) <= poisonLimit {
		d.extents[0] = bytes.Clone(old)
		for i := range old {
			old[i] = poisonByte
		}
	}
}

// syncAll makes content and size durable.
func (d *memData) syncAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.persistCut()
	d.persist(0, d.size)
	d.durableSize, d.lowSize = d.size, d.size
}

// syncRange makes the bytes of [off, off+n) durable, and the size as far as they reach.
func (d *memData) syncRange(off, n int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.persistCut()
	if d.persist(off, n) {
		d.mtime = now // the kernel stamps at the first store; this is the first we hear of it
	}
	d.durableSize = max(d.durableSize, off+n)
	d.lowSize = d.size
}

// persistCut applies a pending truncation to the durable image: a journal commits it before what came later.
func (d *memData) persistCut() {
	if d.lowSize < d.durableSize {
		d.durable = cutPages(d.durable, d.lowSize)
		d.durableSize = d.lowSize
	}
}

// cutPages returns the image with zeros from size on. It leaves its argument alone.
func cutPages(pages []*memPage, size int64) []*memPage {
	keep := min(pagesIn(size), int64(len(pages)))
	out := append([]*memPage(nil), pages[:keep]...)
	if tail := size % PageSize; tail != 0 && keep == pagesIn(size) && out[keep-1] != nil {
		cut := *out[keep-1]
		clear(cut[tail:])
		out[keep-1] = &cut
	}
	return out
}

// persist copies [off, off+n) of the volatile image to the durable one and tells whether anything differed.
func (d *memData) persist(off, n int64) bool {
	changed := false
	for end := off + n; off < end; {
		number := off / PageSize
		inPage := off - number*PageSize
		part := min(PageSize-inPage, end-off)
		old := pageOf(d.durable, number)
		fresh := old
		d.peek(fresh[inPage:inPage+part], off)
		if fresh != old {
			changed = true
			d.durable = setPage(d.durable, number, fresh)
		}
		off += part
	}
	return changed
}

// pageOf reads an image.
func pageOf(pages []*memPage, number int64) memPage {
	if number < int64(len(pages)) && pages[number] != nil {
		return *pages[number]
	}
	return memPage{}
}

// setPage changes an image in place and returns it.
func setPage(pages []*memPage, number int64, page memPage) []*memPage {
	for int64(len(pages)) <= number {
		pages = append(pages, nil)
	}
	pages[number] = nil
	if page != (memPage{}) {
		pages[number] = &page
	}
	return pages
}

// peek copies volatile bytes without the race detector looking, because the kernel's own reads in msync,
// fdatasync and write-back are not seen by it either: a flush of bytes that were published may run while
// other bytes of the same page are being stored. What is torn by that is torn on a disk as well.
func (d *memData) peek(dst []byte, off int64) {
	done := 0
	d.spans(off, int64(len(dst)), func(piece []byte) { done += copyUnseen(dst[done:], piece) })
}
