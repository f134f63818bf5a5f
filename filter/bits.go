package filter

import "strings"

// Bits is a bit map in Java's layout (BitsArray): bit i is bit i%8, counted from the lowest, of byte i/8.
// It is what a ConsumeQueueExt unit stores as filterBitMap.
type Bits []byte

// NewBits returns n bits, all clear; n is rounded up to whole bytes.
func NewBits(n int) Bits { return make(Bits, (n+7)/8) }

// Len is the number of bits.
func (b Bits) Len() int { return 8 * len(b) }

// Set sets bit i, which is in [0, Len).
func (b Bits) Set(i int) { b[i/8] |= 1 << (i % 8) }

// Get returns bit i, which is in [0, Len).
func (b Bits) Get(i int) bool { return b[i/8]&(1<<(i%8)) != 0 }

// String shows the bits as the admin answer of QUERY_CONSUME_QUEUE does: the highest first, with a line
// end after every eighth byte counted from the lowest (Java: BitsArray.toString).
func (b Bits) String() string {
	var sb strings.Builder
	for i := len(b) - 1; i >= 0; i-- {
		for j := 7; j >= 0; j-- {
			sb.WriteByte('0' + b[i]>>j&1)
		}
		if i%8 == 0 {
			sb.WriteByte('\n')
		}
	}
	return sb.String()
}
