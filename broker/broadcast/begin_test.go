package broadcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

func TestBegin(t *testing.T) {
	var b Begin
	g, topic := []byte("g"), []byte("T")
	require.EqualValues(t, 7, b.At(g, topic, 9, 7))
	b.Note("g", "T", 0, 5)
	b.Note("g", "T", 0, 9) // the first counts
	b.Note("g", "T", 1, 3)
	require.EqualValues(t, 5, b.At(g, topic, 0, 7))
	require.EqualValues(t, 5, b.At(g, topic, 0, 7), "as often as it takes to serve it")
	require.EqualValues(t, 2, b.At(g, topic, 0, 2), "it has offsets of its own")
	require.EqualValues(t, 7, b.At([]byte("h"), topic, 0, 7))
	require.False(t, b.Done(g, topic, 0))
	require.EqualValues(t, 7, b.At(g, topic, 0, 7))
	require.False(t, b.Done(g, topic, 1), "there may be more consumers")
	b.Note("g", "T", 1, 3)
	require.EqualValues(t, 7, b.At(g, topic, 1, 7), "it was pulled before")
	b.Note("g", "T", 0, 3)
	require.EqualValues(t, 7, b.At(g, topic, 0, 7))
	for b.pulls < MaxEarly {
		b.At(g, topic, 1, 7)
	}
	b.Note("g", "T", 2, 3)
	require.EqualValues(t, 7, b.At(g, topic, 2, 7), "too late")
	require.True(t, b.Done(g, topic, 2))
	b = Begin{}
	for i := range int32(MaxQueues + 1) {
		b.Note("g", "T", i, 1)
	}
	require.EqualValues(t, 7, b.At(g, topic, MaxQueues, 7))
	require.Len(t, b.ends, MaxQueues)
	require.Zero(t, testing.AllocsPerRun(100, func() { b.At(g, topic, 3, codec.QueueOffset(4)) }))
}
