package store

import (
	"sync/atomic"
	"time"

	"skylark/internal/vfs"
)

// residencyChunkBytes is the piece of a file whose presence in memory is remembered. A cold piece is read in whole.
const residencyChunkBytes = 256 << 10

// residencyCache remembers which pieces of a mapped file were in memory this second, so that a pull does not cost one
// mincore for every record: a page the kernel takes away within a second of its last use is rare, and costs a page fault
// on an event loop, not an error.
//
// Memory: 8 bytes a chunk, 32 KiB for 1 GiB, made when a file is first asked about.
type residencyCache struct {
	all atomic.Pointer[[]residencyChunk]
}

// residencyChunk is what is known of a chunk.
type residencyChunk struct {
	seen  atomic.Uint32 // the second it was found resident in
	asked atomic.Uint32 // the second the disk was last asked for it in
}

// resident tells whether the written bytes [pos, pos+n) of mf are in memory. The caller holds a reference.
func (c *residencyCache) resident(mf *mappedFile, pos, n, nowMillis int64) bool {
	chunks := c.chunks(mf.size)
	second := uint32(nowMillis / 1000)
	for end := pos + n; pos < end; {
		chunk := pos / residencyChunkBytes
		chunkEnd := (chunk + 1) * residencyChunkBytes
		if chunks[chunk].seen.Load() != second {
			from := chunk * residencyChunkBytes
			switch {
			case mf.resident(from, min(chunkEnd, mf.readPosition())-from):
				chunks[chunk].seen.Store(second)
			case !mf.resident(pos, min(end, chunkEnd)-pos):
				return false
			}
		}
		pos = chunkEnd
	}
	return true
}

// piece is the chunk at pos if all of it was in memory this second, else nothing.
func (c *residencyCache) piece(mf *mappedFile, pos, nowMillis int64) (from, to int64) {
	chunk := pos / residencyChunkBytes
	if c.chunks(mf.size)[chunk].seen.Load() != uint32(nowMillis/1000) {
		return 0, 0
	}
	return chunk * residencyChunkBytes, (chunk + 1) * residencyChunkBytes
}

// ahead asks for what a reader at pos, which is in memory, will need soon: the chunk readAheadBytes later, once a second.
func (c *residencyCache) ahead(r *readAheadService, mf *mappedFile, pos, nowMillis int64) {
	if r.off.Load() {
		return
	}
	from := pos/residencyChunkBytes*residencyChunkBytes + readAheadBytes
	n := min(residencyChunkBytes, mf.readPosition()-from)
	if n <= 0 {
		return
	}
	chunk, second := &c.chunks(mf.size)[from/residencyChunkBytes], uint32(nowMillis/1000)
	if chunk.seen.Load() == second || chunk.asked.Load() == second {
		return
	}
	if mf.resident(from, n) {
		chunk.seen.Store(second)
		return
	}
	chunk.asked.Store(second)
	r.ask(mf, from, from+n)
}

// fetch brings the chunks of [pos, pos+n) in; it waits for the disk.
func (c *residencyCache) fetch(r *readAheadService, mf *mappedFile, pos, n, nowMillis int64) error {
	chunks, second := c.chunks(mf.size), uint32(nowMillis/1000)
	for end := pos + n; pos < end; {
		chunk := pos / residencyChunkBytes
		from := chunk * residencyChunkBytes
		pos = from + residencyChunkBytes
		if chunks[chunk].seen.Load() == second {
			continue
		}
		if err := c.fetchChunk(r, mf, from, nowMillis); err != nil {
			return err
		}
		chunks[chunk].seen.Store(second)
	}
	return nil
}

// fetchChunk brings the chunk at from in, and has those behind it on their way.
func (c *residencyCache) fetchChunk(r *readAheadService, mf *mappedFile, from, nowMillis int64) error {
	wrote := mf.readPosition()
	n := min(residencyChunkBytes, wrote-from)
	to := min(from+readAheadBytes, wrote)
	if r.off.Load() {
		to = from + n
	}
	if r.ask(mf, from, to) {
		c.noteAsked(mf, from, to, nowMillis)
		waited := time.Duration(0)
		for wait := firstColdWait; waited < coldPatience; wait = min(2*wait, maxColdWait) {
			time.Sleep(wait)
			waited += wait
			if mf.resident(from, n) {
				return nil
			}
		}
	}
	return mf.prefetch(from, n)
}

func (c *residencyCache) noteAsked(mf *mappedFile, from, to, nowMillis int64) {
	chunks := c.chunks(mf.size)
	for ; from < to; from += residencyChunkBytes {
		chunks[from/residencyChunkBytes].asked.Store(uint32(nowMillis / 1000))
	}
}

func (c *residencyCache) chunks(size int64) []residencyChunk {
	if p := c.all.Load(); p != nil {
		return *p
	}
	chunks := make([]residencyChunk, (size+residencyChunkBytes-1)/residencyChunkBytes)
	c.all.CompareAndSwap(nil, &chunks)
	return *c.all.Load()
}

// willNeed starts to read [pos, pos+n) in and does not wait.
func (mf *mappedFile) willNeed(pos, n int64) error {
	return mf.view.Load().mapping.Advise(pos, n, vfs.AdviseWillNeed)
}
