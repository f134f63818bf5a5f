package filter

import (
	"encoding/binary"
	"math/bits"
)

const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// murmur3 returns the first 64 bits of MurmurHash3 x64 128 with seed 0, which is what Guava's
// murmur3_128().asLong gives.
func murmur3(key string) uint64 {
	var h1, h2 uint64
	tail := []byte(key)
	for ; len(tail) >= 16; tail = tail[16:] {
		h1 ^= murmurK1(binary.LittleEndian.Uint64(tail))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= murmurK2(binary.LittleEndian.Uint64(tail[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(tail) > 0 {
		var last [16]byte
		copy(last[:], tail)
		h2 ^= murmurK2(binary.LittleEndian.Uint64(last[8:])) // 0 stays 0
		h1 ^= murmurK1(binary.LittleEndian.Uint64(last[:]))
	}
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	return murmurMix(h1) + murmurMix(h2)
}

func murmurK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }

func murmurK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

func murmurMix(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
