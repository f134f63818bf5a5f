package reactor

import (
	"math/bits"
	"sync"
)

// Pooled buffers come in powers of two from 512 bytes to 1 MiB; what is larger is made and left to the
// collector, so one 16 MiB frame does not poison the pool.
const (
	minChunkBits = 9
	maxChunkBits = 20
)

var chunkPools [maxChunkBits - minChunkBits + 1]sync.Pool

// chunk is a buffer from the pool. b has length 0 when it comes out.
type chunk struct {
	b    []byte
	refs int // runs of an Outbound inside it
}

// newChunk has room for n bytes at least.
func newChunk(n int) *chunk {
	class := chunkClass(n)
	if class < 0 {
		return &chunk{b: make([]byte, 0, n)}
	}
	if c, ok := chunkPools[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{b: make([]byte, 0, 1<<(class+minChunkBits))}
}

func (c *chunk) free() {
	class := chunkClass(cap(c.b))
	if class < 0 || cap(c.b) != 1<<(class+minChunkBits) {
		return
	}
	c.b, c.refs = c.b[:0], 0
	chunkPools[class].Put(c)
}

// chunkClass is the index of the smallest class that holds n bytes, -1 beyond the largest.
func chunkClass(n int) int {
	if n > 1<<maxChunkBits {
		return -1
	}
	if n <= 1<<minChunkBits {
		return 0
	}
	return bits.Len(uint(n-1)) - minChunkBits
}
