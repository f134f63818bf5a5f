package zerocopy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is an Owner that counts its references.
type counter struct{ refs int }

func (c *counter) Release() { c.refs-- }

func (c *counter) cut(mapping []byte, from, to int) Segment {
	c.refs++
	return Segment{Bytes: mapping[from:to], Owner: c}
}

func TestSegmentsMergeNeighbours(t *testing.T) {
	a, b := &counter{}, &counter{}
	mapA, mapB := []byte("0123456789"), []byte("abcdefghij")
	var s Segments
	s.Add(a.cut(mapA, 0, 3))
	s.Add(a.cut(mapA, 3, 5)) // continues
	s.Add(a.cut(mapA, 6, 7)) // a gap
	s.Add(b.cut(mapB, 0, 2)) // another file
	s.Add(a.cut(mapA, 7, 9)) // continues the one before last only
	require.Len(t, s.Parts(), 4)
	require.Equal(t, 10, s.Size())
	require.Equal(t, 3, a.refs, "the merged run gave its surplus reference back")
	require.Equal(t, 1, b.refs)
	require.Equal(t, "012346ab78", string(s.AppendTo(nil)))
	s.Release()
	require.True(t, s.Empty())
	require.Zero(t, s.Size())
	require.Zero(t, a.refs)
	require.Zero(t, b.refs)
}

func TestSegmentsNeverMergeBeyondCapacity(t *testing.T) {
	a := &counter{}
	m := []byte("0123456789")
	var s Segments
	s.Add(Segment{Bytes: m[0:3:3], Owner: a})
	s.Add(Segment{Bytes: m[3:5], Owner: a})
	require.Len(t, s.Parts(), 2)
	var heap Segments
	heap.Add(Segment{Bytes: m[0:3]})
	heap.Add(Segment{Bytes: m[3:5]})
	require.Len(t, heap.Parts(), 2, "runs without an owner are left alone")
}

func TestSegmentsTakeAndForget(t *testing.T) {
	a := &counter{}
	m := []byte("0123456789")
	var s Segments
	s.Add(a.cut(m, 0, 5))
	parts := s.Take()
	require.Len(t, parts, 1)
	require.True(t, s.Empty())
	s.Add(a.cut(m, 5, 6))
	s.Forget()
	require.Equal(t, 2, a.refs, "references move, they are not dropped")
	require.Zero(t, s.Size())
}
