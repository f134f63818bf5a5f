package store

import (
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"skylark/internal/vfs"
)

const (
	// firstPopulateWindow is how far ahead of the writer pages are faulted in at first. Every time the writer asks for
	// more it doubles, up to Options.PopulateAheadBytes: an idle broker holds 1 MiB of unused pages, a busy one 16.
	firstPopulateWindow = populateChunk
	// spareFileShare is the part of a file that has to be used before the next one is made.
	spareFileShare = 4
)

// populateAheadService keeps pages ahead of the write position in memory and writable, so that the writer, who may be an
// event loop, meets no page fault. It also asks for the next file in time. The writer compares its position with one
// number, wakeAt, and sends one wake-up when it passes it: once per step, not once per message.
//
// Per message: one atomic load. Per MiB at full speed: one wake-up, 16 writes of zeros and 4 madvise calls (see
// populateAhead). While a slave catches up its log is written with system calls (see copyPace), and only the next file is
// asked for.
type populateAheadService struct {
	alloc     *allocateMappedFileService
	following *atomic.Bool                // the log begins where the master's does
	bulk      *atomic.Bool                // nobody stores into the mapping
	active    *atomic.Pointer[mappedFile] // the file being written
	o         *Options
	limit     int64 // largest window, bytes
	window    int64 // owned by run, as is what follows
	fast      bool  // the log grows by zeroRate or more
	lookedAt  time.Time
	lookedEnd int64 // of the log, at lookedAt

	// wakeAt is the position in the log at which the service has to look again; MaxInt64 while it is awake.
	wakeAt atomic.Int64
	wakeup chan struct{}
	stop   chan struct{}
	done   chan struct{}
}

func newPopulateAheadService(alloc *allocateMappedFileService, active *atomic.Pointer[mappedFile],
	following, bulk *atomic.Bool, o *Options) *populateAheadService {
	s := &populateAheadService{alloc: alloc, following: following, bulk: bulk, active: active, o: o,
		limit: max(o.PopulateAheadBytes, 1), wakeup: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	s.wakeAt.Store(math.MaxInt64)
	return s
}

func (s *populateAheadService) start() {
	go s.run()
	s.wake()
}

// passed is called by the writer with its new position in the log.
func (s *populateAheadService) passed(end int64) {
	if end >= s.wakeAt.Load() {
		s.wakeAt.Store(math.MaxInt64)
		s.wake()
	}
}

// wake makes the service look at once: a new file was begun.
func (s *populateAheadService) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *populateAheadService) run() {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case <-s.wakeup:
		}
		mf := s.active.Load()
		if mf == nil {
			if !s.following.Load() {
				s.alloc.request(0)
			}
			continue
		}
		if !mf.Acquire() {
			continue
		}
		s.leave(mf)
		s.work(mf)
		mf.Release()
	}
}

// leave ends what was done for the file before the active one.
func (s *populateAheadService) leave(active *mappedFile) {
	files := s.alloc.queue.list()
	i := slices.Index(files, active) - 1
	if i < 0 || !files[i].Acquire() {
		return
	}
	files[i].stopZeros()
	files[i].Release()
}

// work populates until the writer is far enough behind, and sets the next wake-up.
func (s *populateAheadService) work(mf *mappedFile) {
	if s.bulk.Load() && !mf.buffered {
		s.requestOnly(mf)
		return
	}
	s.window = min(max(firstPopulateWindow, 2*s.window), s.limit)
	s.measure(mf.end())
	for {
		pos := mf.wrotePosition.Load()
		ahead(mf, min(pos+s.window, mf.size), s.fast, s.o)
		next := mf.fileFrom + mf.size
		if pos >= mf.size/spareFileShare {
			s.alloc.request(next)
		}
		if spare := s.alloc.ready.Load(); spare != nil && pos+s.window > mf.size && spare.Acquire() {
			ahead(spare, min(pos+s.window-mf.size, spare.size), s.fast, s.o)
			spare.Release()
		}
		at := s.nextWake(mf, pos)
		if at == math.MaxInt64 {
			return // the roll to the next file wakes us
		}
		if s.wakeLater(mf, at) {
			return
		}
	}
}

// measure tells from the end of the log now how fast it grows.
func (s *populateAheadService) measure(end int64) {
	now := s.o.Clock.Now()
	took, grown := now.Sub(s.lookedAt), end-s.lookedEnd
	s.fast = grown > 0 && float64(grown) >= float64(s.o.zeroRate)*took.Seconds()
	s.lookedAt, s.lookedEnd = now, end
}

// requestOnly asks for the next file in time, and populates nothing.
func (s *populateAheadService) requestOnly(mf *mappedFile) {
	s.window = 0
	if at := mf.size / spareFileShare; mf.wrotePosition.Load() < at && s.wakeLater(mf, at) {
		return
	}
	s.alloc.request(mf.fileFrom + mf.size)
}

// wakeLater has the writer wake the service when it passes at; false: it is there already.
func (s *populateAheadService) wakeLater(mf *mappedFile, at int64) bool {
	s.wakeAt.Store(mf.fileFrom + at)
	return mf.wrotePosition.Load() < at || !s.wakeAt.CompareAndSwap(mf.fileFrom+at, math.MaxInt64)
}

// nextWake is the smallest position behind pos at which there is something to do.
func (s *populateAheadService) nextWake(mf *mappedFile, pos int64) int64 {
	at := int64(math.MaxInt64)
	consider := func(mark int64) {
		if mark > pos && mark < at {
			at = mark
		}
	}
	step := s.step()
	if populated := mf.populated.Load(); populated < mf.size {
		consider(max(populated-s.window+step, pos+1))
	}
	consider(mf.size / spareFileShare)
	if into := max(mf.size-s.window, pos) + step; into < mf.size { // the window reaches into the next file
		consider(into)
	}
	return at
}

// step is how much is populated at a time: little, because it takes a core from those who send and read. Blocks are
// written ahead in larger pieces.
func (s *populateAheadService) step() int64 {
	if s.o.FlushDiskType == SyncFlush {
		return s.window / 2
	}
	return min(populateChunk, s.window/2)
}

// ahead makes the pages up to end ready for the writer and, when puts wait for flushes, the blocks ready for those. fast:
// the log grows fast, see populateAhead.
func ahead(mf *mappedFile, end int64, fast bool, o *Options) {
	if o.FlushDiskType == SyncFlush && !o.noPrewrite {
		prewrite(mf, end, o.Log)
	}
	populateAhead(mf, end, fast, o.Log)
}

// populateAhead faults pages in up to end. A refusal is no error: the writer then meets the faults itself.
//
// A page fault in a part of the file that has no pages yet would have the kernel make as many as the device's
// read_ahead_kb says and clear them, up to 8 MiB and 10 ms in one go, in which nobody else gets the core. So a log file has
// no read-ahead (startZeros). With fast, zeros are written before the faults, zeroPiece at a time: the page cache takes
// them in folios of that size, no page is cleared only to be overwritten, and nothing takes longer than half a millisecond.
// A folio goes to the disk whole each time some of it was flushed and more is put into it, which counts only where little
// is put: then single pages are brought in, populateChunk at a time.
func populateAhead(mf *mappedFile, end int64, fast bool, log *slog.Logger) {
	for fast && mf.zeroAhead(end, log) {
	}
	for {
		from := mf.populated.Load()
		if from >= end {
			return
		}
		n := min(end-from, populateChunk)
		mf.fault(from, n, log)
		mf.populated.CompareAndSwap(from, from+n)
	}
}

func (mf *mappedFile) fault(from, n int64, log *slog.Logger) {
	if err := mf.populate(from, n); err != nil {
		log.Debug("pages not populated", "file", mf.path, "err", err)
	}
}

// prewrite puts the zeros of [mf.prewritten, end) on the disk, without touching what was written there meanwhile. A block
// that was only reserved changes its state with its first bytes, and a flush then waits for a commit of the file system's
// journal; one that has been written before needs none. Measured with groups of 32 records of 1.2 KiB: median flush
// 293 µs instead of 420, 72 µs of CPU instead of 93.
func prewrite(mf *mappedFile, end int64, log *slog.Logger) {
	from := mf.prewritten.Load()
	if from >= end {
		return
	}
	if err := mf.withFile(func(f vfs.File) error { return f.Prewrite(from, end-from) }); err != nil {
		log.Warn("blocks of a commit log file not written ahead", "file", mf.path, "err", err)
	}
	mf.prewritten.CompareAndSwap(from, end)
}

// pagesTouched is how many pages a write of [from, to) touches that one that ended at from did not.
func pagesTouched(from, to int64) int64 {
	return (to+vfs.PageSize-1)/vfs.PageSize - (from+vfs.PageSize-1)/vfs.PageSize
}

func (s *populateAheadService) close() {
	close(s.stop)
	<-s.done
}
