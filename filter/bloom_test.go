package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBits(t *testing.T) {
	b := NewBits(9)
	require.Equal(t, 16, b.Len())
	b.Set(0)
	b.Set(9)
	require.Equal(t, Bits{0x01, 0x02}, b)
	require.True(t, b.Get(9))
	require.False(t, b.Get(8))
	require.Equal(t, "0000001000000001\n", b.String())
	require.Empty(t, Bits(nil).String())
}

func TestNewBloomFilter(t *testing.T) {
	f := func(percent, expected int, reason string) {
		t.Helper()
		_, err := NewBloomFilter(percent, expected)
		require.ErrorContains(t, err, reason)
	}
	f(0, 32, "0 percent")
	f(100, 32, "100 percent")
	f(20, 0, "0 elements")
	f(20, MaxBloomElements+1, "262145 elements")

	bloom, err := NewBloomFilter(20, 32) // the broker's defaults
	require.NoError(t, err)
	require.Equal(t, "f: 20, n: 32, k: 3, m: 112", bloom.String())
	_, err = NewBloomFilter(1, MaxBloomElements)
	require.NoError(t, err)
}

func TestBloomHit(t *testing.T) {
	bloom, err := NewBloomFilter(20, 32)
	require.NoError(t, err)
	a, b := bloom.Generate(BloomKey("g1", "T")), bloom.Generate(BloomKey("g2", "T"))
	bits := NewBits(bloom.BitCount())
	require.NoError(t, bloom.HashTo(a, bits))
	hit, err := bloom.IsHit(a, bits)
	require.NoError(t, err)
	require.True(t, hit)
	hit, err = bloom.IsHit(b, bits)
	require.NoError(t, err)
	require.False(t, hit)
}

func TestBloomValid(t *testing.T) {
	bloom, err := NewBloomFilter(20, 32)
	require.NoError(t, err)
	f := func(data *BloomFilterData, valid bool) {
		t.Helper()
		require.Equal(t, valid, bloom.Valid(data))
		bits := NewBits(bloom.BitCount())
		_, err := bloom.IsHit(data, bits)
		if valid {
			require.NoError(t, err)
			require.NoError(t, bloom.HashTo(data, bits))
			return
		}
		require.ErrorIs(t, err, ErrBloomMismatch)
		require.ErrorIs(t, bloom.HashTo(data, bits), ErrBloomMismatch)
		require.Equal(t, NewBits(bloom.BitCount()), bits, "nothing is set")
	}
	f(bloom.Generate("x"), true)
	f(&BloomFilterData{BitNum: 112, BitPos: []int32{0, 0, 111}}, true)
	f(nil, false)
	f(&BloomFilterData{BitNum: 112}, false)
	f(&BloomFilterData{BitNum: 112, BitPos: []int32{1, 2}}, false)
	f(&BloomFilterData{BitNum: 120, BitPos: []int32{1, 2, 3}}, false)
	f(&BloomFilterData{BitNum: 112, BitPos: []int32{1, 2, 112}}, false)
	f(&BloomFilterData{BitNum: 112, BitPos: []int32{1, 2, -1}}, false)
	require.ErrorIs(t, bloom.HashTo(bloom.Generate("x"), NewBits(64)), ErrBloomMismatch)
}

func TestConsumerFilterData(t *testing.T) {
	bloom, err := NewBloomFilter(20, 32)
	require.NoError(t, err)
	q, err := Compile("a > 5")
	require.NoError(t, err)
	data := func() *ConsumerFilterData {
		return &ConsumerFilterData{BornTime: 1000, SQL: q, BloomFilterData: bloom.Generate("g#T")}
	}
	empty, full := NewBits(bloom.BitCount()), NewBits(bloom.BitCount())
	require.NoError(t, bloom.HashTo(data().BloomFilterData, full))
	f := func(change func(d *ConsumerFilterData), storeTimestamp int64, bits Bits, want bool) {
		t.Helper()
		d := data()
		change(d)
		require.Equal(t, want, d.MayMatch(bloom, storeTimestamp, bits))
	}
	asIs := func(*ConsumerFilterData) {}
	f(asIs, 1001, empty, false)
	f(asIs, 1001, full, true)
	f(asIs, 1000, empty, true) // stored before the consumer was born
	f(asIs, 1001, nil, true)
	f(asIs, 1001, NewBits(64), true)
	f(func(d *ConsumerFilterData) { d.SQL = nil }, 1001, empty, true)
	f(func(d *ConsumerFilterData) { d.BloomFilterData = nil }, 1001, empty, true)
	f(func(d *ConsumerFilterData) { d.BloomFilterData.BitPos = []int32{500, 1, 2} }, 1001, empty, true)
	require.True(t, data().MayMatch(nil, 1001, empty))

	d := data()
	require.False(t, d.Dead())
	d.DeadTime = 1000
	require.True(t, d.Dead())
	require.True(t, IsTagType("") && IsTagType(TypeTag) && !IsTagType(TypeSQL92))
}
