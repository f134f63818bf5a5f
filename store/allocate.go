package store

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"skylark/internal/clock"
)

const (
	// allocateTimeout is how long a put waits for the next file (Java AllocateMappedFileService.waitTimeOut).
	allocateTimeout = 5 * time.Second
	// allocateRetryInterval is how long a failure answers further puts at once: each try on a full disk costs some
	// milliseconds and a journal commit.
	allocateRetryInterval = 100 * time.Millisecond
	// populateChunk is what one madvise call faults in; 1 MiB takes about half a millisecond.
	populateChunk = 1 << 20
)

// allocateMappedFileService makes the next CommitLog file before it is needed (Java AllocateMappedFileService): blocks
// reserved, length durable, mapped, its first pages populated. Java asks for the next and the one after when a file is
// begun, as sparse files cost nothing; ours take their space, so there is one spare file at most, made when a quarter
// of the current one is used.
//
// With a transient store pool the file gets a write buffer. When the pool has none, it is written through its mapping,
// or, with FastFailIfNoBufferInStorePool, not made at all.
//
// With WarmMapedFileEnable the rest of its pages is populated and locked in memory as well (Java warmMappedFile), while
// the file is ready already: its predecessor takes long enough, and the very first file is not waited for.
type allocateMappedFileService struct {
	queue *mappedFileQueue
	clock clock.Clock
	o     *Options
	pool  *transientStorePool // nil without; set before start

	// ready is the spare file, for canAppend without a lock.
	ready atomic.Pointer[mappedFile]

	mu      sync.Mutex
	wanted  int64 // start of the file to make, -1 = none
	taken   int64 // start of the last file in use, -1 = none: that one and those before are never made again
	changed chan struct{}
	err     error // of the last attempt
	triedAt time.Time
	closed  bool

	lockRefused bool // files cannot be locked in memory; owned by run

	wakeup chan struct{}
	done   chan struct{}
}

func newAllocateMappedFileService(q *mappedFileQueue, o *Options) *allocateMappedFileService {
	return &allocateMappedFileService{queue: q, clock: o.Clock, o: o, wanted: -1, taken: -1, changed: make(chan struct{}),
		wakeup: make(chan struct{}, 1), done: make(chan struct{})}
}

// start begins to serve; last is the file in use, nil if there is none.
func (s *allocateMappedFileService) start(last *mappedFile) {
	if last != nil {
		s.taken = last.fileFrom
	}
	go s.run()
}

// request asks for the file that starts at from; it does nothing when that one is there or being made.
func (s *allocateMappedFileService) request(from int64) {
	if mf := s.ready.Load(); mf != nil && mf.fileFrom == from {
		return
	}
	s.mu.Lock()
	s.wanted = from
	s.mu.Unlock()
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// take is the spare file if it starts at from; it belongs to the caller then.
func (s *allocateMappedFileService) take(from int64) *mappedFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	mf := s.ready.Load()
	if mf == nil || mf.fileFrom != from {
		return nil
	}
	s.ready.Store(nil)
	s.taken = from
	return mf
}

// unfit says whether the file that starts at from is needed, and takes a spare file that starts elsewhere away.
func (s *allocateMappedFileService) unfit(from int64) (spare *mappedFile, needed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	spare = s.ready.Load()
	if from <= s.taken || spare != nil && spare.fileFrom == from {
		return nil, false
	}
	s.ready.Store(nil)
	return spare, true
}

// wait returns nil when the file that starts at from is ready or was taken by somebody else. Otherwise it is the error
// of making it, ErrClosed, or a timeout.
func (s *allocateMappedFileService) wait(from int64) error {
	timeout := make(chan struct{})
	defer s.clock.AfterFunc(allocateTimeout, func() { close(timeout) }).Stop()
	for first := true; ; first = false {
		s.mu.Lock()
		changed, err, closed, taken := s.changed, s.err, s.closed, s.taken
		recent := s.clock.Now().Sub(s.triedAt) < allocateRetryInterval
		s.mu.Unlock()
		mf := s.ready.Load()
		switch {
		case from <= taken || mf != nil && mf.fileFrom == from:
			return nil
		case closed:
			return ErrClosed
		case err != nil && (recent || !first):
			return err
		}
		s.request(from)
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("store: file %s was not made within %v", offsetFileName(from), allocateTimeout)
		}
	}
}

func (s *allocateMappedFileService) run() {
	defer close(s.done)
	for range s.wakeup {
		s.mu.Lock()
		from, closed := s.wanted, s.closed
		s.wanted = -1
		s.mu.Unlock()
		if closed {
			break
		}
		if from >= 0 {
			s.make(from)
		}
	}
	if mf := s.ready.Swap(nil); mf != nil {
		s.discard(mf)
	}
	s.announce(ErrClosed)
}

// make makes one file and says so.
func (s *allocateMappedFileService) make(from int64) {
	spare, needed := s.unfit(from)
	if !needed {
		s.announce(nil)
		return
	}
	if spare != nil {
		s.discard(spare)
	}
	mf, err := s.create(from)
	warm := err == nil && s.o.WarmMapedFileEnable && mf.Acquire()
	if err == nil {
		s.ready.Store(mf)
	}
	s.announce(err)
	if warm {
		s.warm(mf)
		mf.Release()
	}
}

func (s *allocateMappedFileService) create(from int64) (*mappedFile, error) {
	q := s.queue
	var buffer *writeBuffer
	if s.pool != nil {
		if buffer = s.pool.borrow(); buffer == nil && s.o.FastFailIfNoBufferInStorePool {
			return nil, errNoBuffer
		}
	}
	mf, err := q.createFile(path.Join(q.dir, offsetFileName(from)), from)
	if err != nil {
		if buffer != nil {
			s.pool.giveBack(buffer)
		}
		return nil, err
	}
	if err := q.fs.SyncDir(q.dir); err != nil {
		s.discard(mf)
		return nil, fmt.Errorf("store: sync directory %s: %w", q.dir, err)
	}
	if buffer != nil {
		if err := mf.useBuffer(buffer, s.pool); err != nil {
			s.pool.giveBack(buffer)
			s.discard(mf)
			return nil, err
		}
	}
	mf.startZeros(s.o)
	ahead(mf, min(mf.size, populateChunk), false, s.o)
	return mf, nil
}

// errNoBuffer answers a put when a file is not made because the transient store pool is empty.
var errNoBuffer = errors.New("store: no free buffer in the transient store pool and fastFailIfNoBufferInStorePool is set")

// deficient tells that the last file was not made for want of a buffer, and there still is none.
func (s *allocateMappedFileService) deficient() bool {
	if s.pool == nil || !s.o.FastFailIfNoBufferInStorePool || s.pool.available() > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.err, errNoBuffer)
}

// discard deletes a spare file that nobody needs: Java deletes its pre-allocated file at the stop too.
func (s *allocateMappedFileService) discard(mf *mappedFile) {
	if err := mf.destroy(); err != nil {
		s.queue.log.Warn("spare file not deleted", "err", err)
	}
}

// announce wakes everybody who waits.
func (s *allocateMappedFileService) announce(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.triedAt = err, s.clock.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// close stops the service and deletes the spare file.
func (s *allocateMappedFileService) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
	<-s.done
}
