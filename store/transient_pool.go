package store

import (
	"fmt"
	"log/slog"
	"sync"

	"skylark/internal/vfs"
)

// transientStorePool lends write buffers to CommitLog files (Java TransientStorePool, transientStorePoolEnable): the
// writer copies records into memory outside of the heap, the commit service writes them to the file in large pieces.
// The writer then never touches a page of the page cache, which the kernel may write-protect or be short of.
//
// # What it costs
//
// Each buffer is as long as a CommitLog file, but takes memory only as far as it was ever written: the pool hands out
// the buffer that came back last, so a broker whose disk keeps up uses two of them (the active file's and the spare's),
// 2 GiB with the default sizes, and all TransientStorePoolSize only while commits fall behind. Java fills all of them at
// the start. The buffers are locked in memory as far as RLIMIT_MEMLOCK allows; beyond it one warning is logged.
type transientStorePool struct {
	sizeBytes int64
	log       *slog.Logger

	mu     sync.Mutex
	free   []*writeBuffer
	closed bool
}

// writeBuffer is memory for one file.
type writeBuffer struct {
	memory *vfs.Memory
	// populated is how far its pages were faulted in while another file had it.
	populated int64
}

// newTransientStorePool reserves the address space of count buffers.
func newTransientStorePool(count int, sizeBytes int64, log *slog.Logger) (*transientStorePool, error) {
	p := &transientStorePool{sizeBytes: sizeBytes, log: log}
	lock := true
	for range count {
		memory, err := vfs.NewMemory(sizeBytes)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("store: transient store pool of %d times %d bytes: %w", count, sizeBytes, err)
		}
		p.free = append(p.free, &writeBuffer{memory: memory})
		if !lock {
			continue
		}
		if err := memory.Lock(); err != nil {
			lock = false
			log.Warn("write buffers are not locked in memory, raise RLIMIT_MEMLOCK (ulimit -l) to lock them", "buffers",
				count, "sizeBytes", sizeBytes, "err", err)
		}
	}
	return p, nil
}

// borrow is a buffer, nil if there is none.
func (p *transientStorePool) borrow() *writeBuffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 || p.closed {
		return nil
	}
	b := p.free[n-1]
	p.free = p.free[:n-1]
	return b
}

// giveBack takes a buffer that no file uses any more.
func (p *transientStorePool) giveBack(b *writeBuffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.release(b)
		return
	}
	p.free = append(p.free, b)
}

// available is how many buffers can be borrowed (Java availableBufferNums).
func (p *transientStorePool) available() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

// close frees the buffers; those that are lent go when they come back.
func (p *transientStorePool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, b := range p.free {
		p.release(b)
	}
	p.free = nil
}

func (p *transientStorePool) release(b *writeBuffer) {
	if err := b.memory.Free(); err != nil {
		panic("store: BUG: " + err.Error()) // freed twice
	}
}
