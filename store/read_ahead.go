package store

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"skylark/internal/vfs"
)

const (
	// coldReaders is the number of threads that ask the disk for cold ranges.
	coldReaders = 2
	// maxColdRanges is how many ranges wait for them; one more is read by whoever needs it. 32 bytes each.
	maxColdRanges = 1024
	// readAheadBytes is how far ahead of a consumer that reads on the disk is asked, readAheadStepBytes what one system
	// call asks for: the kernel reads no more than the device's read_ahead_kb, which is 128 KiB by default, and forgets
	// the rest.
	readAheadBytes     = 512 << 10
	readAheadStepBytes = 128 << 10
	// A waiter looks after firstColdWait, then in steps twice as long up to maxColdWait each; after coldPatience it faults
	// the range in itself.
	firstColdWait = 100 * time.Microsecond
	maxColdWait   = 2 * time.Millisecond
	coldPatience  = 100 * time.Millisecond
)

// readAheadService brings cold parts of the log and of the queues into the page cache without anybody waiting inside a
// system call: a thread that waits there keeps its P of the Go scheduler until sysmon takes it away, which lasts from 20 µs
// to 10 ms, and of those there are as few as CPUs. So the disk is only asked (madvise MADV_WILLNEED, which starts the reads
// and returns), by a few threads of lower I/O priority, and who needs the bytes looks with mincore until they are there.
//
// A consumer that catches up meets this wait once at its beginning: each piece of 256 KiB that it finds in memory has the
// pieces up to readAheadBytes later asked for, so the next pulls are served on the event loop.
//
// Figures, and what was tried instead: docs/performance.md "Cold reads".
type readAheadService struct {
	ranges  chan coldRange
	readers sync.WaitGroup
	off     atomic.Bool // only what is needed is read

	mu      sync.Mutex
	serving bool
}

// coldRange is [from, to) of a file, with a reference.
type coldRange struct {
	mf       *mappedFile
	from, to int64
}

func newReadAheadService() *readAheadService {
	return &readAheadService{ranges: make(chan coldRange, maxColdRanges)}
}

func (r *readAheadService) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serving = true
	for range coldReaders {
		r.readers.Add(1)
		go r.run()
	}
}

// close ends the readers when they have asked for what waits.
func (r *readAheadService) close() {
	r.mu.Lock()
	r.serving = false
	close(r.ranges)
	r.mu.Unlock()
	r.readers.Wait()
}

// ask has [from, to) of mf read soon; false when too much waits, or nobody serves. The caller holds a reference.
func (r *readAheadService) ask(mf *mappedFile, from, to int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.serving || !mf.Acquire() {
		return false
	}
	select {
	case r.ranges <- coldRange{mf, from, to}:
		return true
	default:
		mf.Release()
		return false
	}
}

func (r *readAheadService) run() {
	defer r.readers.Done()
	runtime.LockOSThread() // never unlocked: the thread ends with its priority
	vfs.LowerIOPriority()
	for c := range r.ranges {
		c.read()
		c.mf.Release()
	}
}

func (c *coldRange) read() {
	for at := c.from; at < c.to; at += readAheadStepBytes {
		if err := c.mf.willNeed(at, min(readAheadStepBytes, c.to-at)); err != nil {
			return // who needs it sees it
		}
	}
}
