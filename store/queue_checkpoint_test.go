package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

func testMarks() queueMarks {
	return queueMarks{
		present:    true,
		logEnd:     1 << 40,
		dispatched: 1795999290773,
		indexedTo:  1<<40 - 7,
		index:      []indexMark{{"20261130005128798", 40, 1, 2, 3, 4}},
		deleted:    map[string]PhyOffset{"crc deleted": 5, "a\"b\n": 6},
		queues: map[queueKey]queueMark{
			{"Topic", 0}:            {minOffset: 0, maxOffset: 10, minPhy: 100, maxPhy: 1100},
			{"Topic", 11}:           {minOffset: 3, maxOffset: 3, minPhy: -1, maxPhy: -1},
			{"%RETRY%group-1_x", 0}: {minOffset: 1, maxOffset: 2, minPhy: 3, maxPhy: 4},
			{"batch \"1\"", 3}:      {minOffset: 1, maxOffset: 2, minPhy: 3, maxPhy: 4, batch: true, next: 77},
		},
	}
}

func TestQueueMarksRoundTrip(t *testing.T) {
	fs := vfs.NewMem()
	c := newQueueCheckpoint(fs, "/")
	m, damaged, err := c.load()
	require.NoError(t, err)
	require.NoError(t, damaged)
	require.False(t, m.present)
	require.NoError(t, c.save(testMarks))
	m, damaged, err = newQueueCheckpoint(fs, "/").load()
	require.NoError(t, err)
	require.NoError(t, damaged)
	require.Equal(t, testMarks(), m)
	for i := range len(c.last) { // any flipped bit is noticed
		broken := append([]byte(nil), c.last...)
		broken[i] ^= 4
		_, err := parseQueueMarks(broken)
		require.Error(t, err, "byte %d of %q", i, c.last)
		_, err = parseQueueMarks(c.last[:i])
		require.Error(t, err, "cut at %d", i)
	}
	require.NoError(t, vfs.WriteFileAtomic(fs, c.path, make([]byte, 100), false))
	m, damaged, err = newQueueCheckpoint(fs, "/").load()
	require.NoError(t, err)
	require.ErrorContains(t, damaged, queueCheckpointFileName)
	require.False(t, m.present)
}

// FuzzQueueMarks: whatever the file holds, reading it neither panics nor takes damage for content; what it takes encodes
// to something that reads the same.
func FuzzQueueMarks(f *testing.F) {
	m := testMarks()
	f.Add(m.encode())
	f.Add([]byte("skylark-queues 1\ncrc 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseQueueMarks(data)
		if err != nil {
			return
		}
		again, err := parseQueueMarks(m.encode())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
