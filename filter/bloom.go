package filter

import (
	"fmt"
	"math"
)

// MaxBloomElements bounds the expected number of a BloomFilter. At one percent of error a tenth of it
// already fills a ConsumeQueueExt unit, which has 32 KiB at most.
const MaxBloomElements = 1 << 18

// BloomFilter computes which bits stand for a consumer in the bit map of a message. It has Java's numbers
// (BloomFilter): the broker makes it from maxErrorRateOfBloomFilter and expectConsumerNumUseFilter, and
// sets bitMapLengthConsumeQueueExt to BitCount. It never changes.
type BloomFilter struct {
	errorPercent int
	expected     int
	hashCount    int
	bitCount     int
}

// BloomFilterData are the bits of one consumer, as stored in consumerFilter.json (Java: BloomFilterData).
type BloomFilterData struct {
	BitNum int     `json:"bitNum"` // BitCount of the filter that made it
	BitPos []int32 `json:"bitPos"` // HashCount positions below BitNum, some may be equal
}

// NewBloomFilter makes the filter for an accepted share of false hits in percent, 1 to 99, and an
// expected number of elements, 1 to MaxBloomElements (Java: BloomFilter.createByFn).
func NewBloomFilter(errorPercent, expected int) (*BloomFilter, error) {
	if errorPercent < 1 || errorPercent > 99 {
		return nil, fmt.Errorf("filter: bloom error rate is %d percent, must be 1 to 99", errorPercent)
	}
	if expected < 1 || expected > MaxBloomElements {
		return nil, fmt.Errorf("filter: bloom filter for %d elements, must be 1 to %d",
			expected, MaxBloomElements)
	}
	// The order of the operations is Java's, as the last bit decides over the rounding.
	rate := float64(errorPercent) / 100
	k := math.Ceil(math.Log(rate) / math.Log(0.5))
	m := math.Ceil(float64(expected) * (math.Log(1/rate) / math.Log(2)) * (math.Log(math.E) / math.Log(2)))
	return &BloomFilter{
		errorPercent: errorPercent,
		expected:     expected,
		hashCount:    int(k),
		bitCount:     (int(m) + 7) / 8 * 8,
	}, nil
}

// HashCount is the number of bits per element (Java: k).
func (f *BloomFilter) HashCount() int { return f.hashCount }

// BitCount is the length of the bit map, a multiple of 8 (Java: m).
func (f *BloomFilter) BitCount() int { return f.bitCount }

// Generate returns the bits of a key; the broker's keys are "group#topic", see BloomKey. Java:
// BloomFilter.generate.
func (f *BloomFilter) Generate(key string) *BloomFilterData {
	h := murmur3(key)
	h1, h2 := int32(uint32(h)), int32(uint32(h>>32))
	pos := make([]int32, f.hashCount)
	for i := range pos {
		c := h1 + int32(i+1)*h2
		if c < 0 {
			c = ^c
		}
		pos[i] = c % int32(f.bitCount)
	}
	return &BloomFilterData{BitNum: f.bitCount, BitPos: pos}
}

// BloomKey is the key under which a consumer's bits are generated (Java: ConsumerFilterManager.register).
func BloomKey(group, topic string) string { return group + "#" + topic }

// Valid says whether data, which may be nil, belongs to a filter of these numbers. Other than Java it
// looks at every position too, because data comes from a file and Java fails on each message then.
func (f *BloomFilter) Valid(data *BloomFilterData) bool {
	if data == nil || data.BitNum != f.bitCount || len(data.BitPos) != f.hashCount {
		return false
	}
	for _, pos := range data.BitPos {
		if pos < 0 || int(pos) >= f.bitCount {
			return false
		}
	}
	return true
}

// HashTo sets the bits of data. It fails with ErrBloomMismatch, and sets none, if bits has not BitCount
// bits or data is not Valid.
func (f *BloomFilter) HashTo(data *BloomFilterData, bits Bits) error {
	if err := f.check(data, bits); err != nil {
		return err
	}
	for _, pos := range data.BitPos {
		bits.Set(int(pos))
	}
	return nil
}

// IsHit says whether all bits of data are set, which is so for every message whose properties fit the
// consumer's condition, and for some others. It fails as HashTo does.
func (f *BloomFilter) IsHit(data *BloomFilterData, bits Bits) (bool, error) {
	if err := f.check(data, bits); err != nil {
		return false, err
	}
	for _, pos := range data.BitPos {
		if !bits.Get(int(pos)) {
			return false, nil
		}
	}
	return true, nil
}

func (f *BloomFilter) check(data *BloomFilterData, bits Bits) error {
	if bits.Len() != f.bitCount {
		return fmt.Errorf("%w: %d bits against %v", ErrBloomMismatch, bits.Len(), f)
	}
	if !f.Valid(data) {
		return fmt.Errorf("%w: %+v against %v", ErrBloomMismatch, data, f)
	}
	return nil
}

// String shows Java's numbers f, n, k and m.
func (f *BloomFilter) String() string {
	return fmt.Sprintf("f: %d, n: %d, k: %d, m: %d", f.errorPercent, f.expected, f.hashCount, f.bitCount)
}
