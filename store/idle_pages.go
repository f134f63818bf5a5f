package store

import "skylark/internal/vfs"

const (
	// idlePagesInterval is how often the log is looked through for pages that nobody uses.
	idlePagesInterval = 30_000 // ms
	// idlePagesSeconds after it was last read a part of the log leaves the process.
	idlePagesSeconds = 30
	// idleTailBytes behind the end of the log are left alone: they are being written, flushed, dispatched and read.
	idleTailBytes = 64 << 20
	// idleStepBytes is the most that one system call takes out of the page table: some hundred microseconds.
	idleStepBytes = 16 << 20
)

// dropIdlePages takes what nobody has read lately out of the process's page table (MADV_DONTNEED). The pages stay in the
// page cache, also those that are not on the disk yet, and a reader finds them there again, 16 with one minor fault of a
// microsecond. Without it whatever was once written or read through a mapping counts as memory of the process for as long
// as the kernel has it: its resident size is that of the log, and whoever looks for the largest process to kill finds it.
func (s *MessageStore) dropIdlePages(nowMillis int64) {
	end := s.cl.files.wroteEnd() - idleTailBytes
	for _, mf := range s.cl.files.list() {
		if mf.fileFrom >= end {
			return
		}
		if mf.locked.Load() || !mf.Acquire() { // locked pages are to stay
			continue
		}
		mf.dropIdle(min(mf.size, end-mf.fileFrom), nowMillis)
		mf.Release()
	}
}

// dropIdle does so for the whole chunks of [0, end). The caller holds a reference.
func (mf *mappedFile) dropIdle(end, nowMillis int64) {
	oldest := uint32(nowMillis/1000) - idlePagesSeconds
	end = min(end, mf.flushedPosition.Load()) / residencyChunkBytes * residencyChunkBytes
	from := int64(0) // of a run of chunks that nobody has read
	drop := func(to int64) {
		for ; from < to; from += idleStepBytes {
			_ = mf.view.Load().mapping.Advise(from, min(idleStepBytes, to-from), vfs.AdviseDontNeed) // a hint
		}
	}
	read := mf.cache.all.Load() // nil: nobody has
	for at := int64(0); at < end; at += residencyChunkBytes {
		if read != nil && (*read)[at/residencyChunkBytes].seen.Load() > oldest {
			drop(at)
			from = at + residencyChunkBytes
		}
	}
	drop(end)
}
