package store

import "sync/atomic"

// residencyChunkBytes is the piece of a file whose presence in memory is remembered. A cold piece is read in whole, so
// it is also how far a reader of old data is read ahead.
const residencyChunkBytes = 256 << 10

// residencyCache remembers which pieces of a mapped file were in memory this second, so that a pull does not cost one
// mincore for every record: a page the kernel takes away within a second of its last use is rare, and costs a page fault
// on an event loop, not an error.
//
// Memory: 4 bytes a chunk, 16 KiB for 1 GiB, made when a file is first asked about.
type residencyCache struct {
	// seen holds for every chunk the second it was found resident in.
	seen atomic.Pointer[[]atomic.Uint32]
}

// resident tells whether the written bytes [pos, pos+n) of mf are in memory. The caller holds a reference.
func (c *residencyCache) resident(mf *mappedFile, pos, n, nowMillis int64) bool {
	seen := c.chunks(mf.size)
	second := uint32(nowMillis / 1000)
	for end := pos + n; pos < end; {
		chunk := pos / residencyChunkBytes
		chunkEnd := (chunk + 1) * residencyChunkBytes
		if seen[chunk].Load() != second {
			from := chunk * residencyChunkBytes
			switch {
			case mf.resident(from, min(chunkEnd, mf.readPosition())-from):
				seen[chunk].Store(second)
			case !mf.resident(pos, min(end, chunkEnd)-pos):
				return false
			}
		}
		pos = chunkEnd
	}
	return true
}

// fetch reads the chunks of [pos, pos+n) in; it waits for the disk.
func (c *residencyCache) fetch(mf *mappedFile, pos, n, nowMillis int64) error {
	seen := c.chunks(mf.size)
	second := uint32(nowMillis / 1000)
	for end := pos + n; pos < end; {
		chunk := pos / residencyChunkBytes
		from := chunk * residencyChunkBytes
		pos = from + residencyChunkBytes
		if seen[chunk].Load() == second {
			continue
		}
		if err := mf.prefetch(from, min(pos, mf.readPosition())-from); err != nil {
			return err
		}
		seen[chunk].Store(second)
	}
	return nil
}

func (c *residencyCache) chunks(size int64) []atomic.Uint32 {
	if p := c.seen.Load(); p != nil {
		return *p
	}
	chunks := make([]atomic.Uint32, (size+residencyChunkBytes-1)/residencyChunkBytes)
	c.seen.CompareAndSwap(nil, &chunks)
	return *c.seen.Load()
}
