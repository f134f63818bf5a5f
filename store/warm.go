package store

import (
	"errors"
	"time"

	"skylark/internal/vfs"
)

// unlockDelay is how long a file stays locked in memory after the writer left it (Java: 6 s), for its readers' sake.
const unlockDelay = 6 * time.Second

// warm populates a new file to its end and locks it in memory (Java warmMappedFile and mlock, warmMapedFileEnable). What
// it brings in may be written back and write-protected by the kernel before the writer comes, seconds or hours later, so
// mappedFile.populated does not move: the populateAheadService goes over the pages again, which is cheap by now.
//
// With SYNC_FLUSH the zeros go to the disk, FlushLeastPagesWhenWarmMapedFile pages at a time, as in Java: see prewrite.
func (s *allocateMappedFileService) warm(mf *mappedFile) {
	began := s.clock.Now()
	for pos := mf.populated.Load(); pos < mf.size; {
		if s.stopping() {
			return
		}
		switch {
		case s.o.FlushDiskType == SyncFlush:
			pos = min(pos+int64(s.o.FlushLeastPagesWhenWarmMapedFile)*vfs.PageSize, mf.size)
			prewrite(mf, pos, s.queue.log)
		case mf.buffered:
			pos = min(pos+populateChunk, mf.size)
			populateAhead(mf, pos, false, s.queue.log)
		default:
			n := min(populateChunk, mf.size-pos)
			if err := mf.populate(pos, n); err != nil {
				s.queue.log.Warn("commit log file not warmed", "file", mf.path, "err", err)
				return
			}
			pos += n
		}
	}
	s.lock(mf)
	s.queue.log.Info("commit log file warmed", "file", mf.path, "sizeBytes", mf.size, "elapsed", s.clock.Now().Sub(began))
}

// lock pins the pages of a file; write buffers are pinned already. A refusal is said once: each file would meet it again.
func (s *allocateMappedFileService) lock(mf *mappedFile) {
	if mf.buffered || s.lockRefused {
		return
	}
	err := mf.view.Load().mapping.Lock(0, mf.size)
	if err == nil {
		mf.locked.Store(true)
		return
	}
	s.lockRefused = true
	advice := ""
	if errors.Is(err, vfs.ErrMemoryLock) {
		advice = "; raise RLIMIT_MEMLOCK (ulimit -l) to lock them"
	}
	s.queue.log.Warn("commit log files are warmed but not locked in memory"+advice, "file", mf.path, "sizeBytes", mf.size,
		"err", err)
}

func (s *allocateMappedFileService) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// unlockLater lets the kernel have the pages of a file again that the writer has left.
func (cl *commitLog) unlockLater(mf *mappedFile) {
	if !mf.locked.CompareAndSwap(true, false) {
		return
	}
	cl.o.Clock.AfterFunc(unlockDelay, func() {
		if !mf.Acquire() {
			return // unmapped, and so unlocked
		}
		defer mf.Release()
		if err := mf.view.Load().mapping.Unlock(0, mf.size); err != nil {
			cl.o.Log.Warn("commit log file not unlocked", "file", mf.path, "err", err)
		}
	})
}
