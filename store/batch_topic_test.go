package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// A topic with queues of Java's BatchConsumeQueue kind gets no ConsumeQueue of ours: Java refuses to start on a directory
// that has both.
func TestTopicsWithBatchQueuesGetNoEntries(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("/store/batchconsumequeue/B/0"))
	o := DefaultOptions("/store")
	o.FS, o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = fs, 1<<20, 2000
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	s, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, s.Start())
	for _, topic := range []string{"B", "A"} {
		r := s.Put(&codec.Message{Topic: topic, Body: []byte("x"), WaitStoreMsgOK: true})
		require.Equal(t, PutOK, r.Status, r.Err)
	}
	require.NoError(t, s.Close())
	names, err := fs.List("/store/consumequeue")
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, names)
}
