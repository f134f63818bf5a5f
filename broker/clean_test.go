package broker

import (
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// What the commands of mqadmin delete, and what they leave.
func TestCleanCommands(t *testing.T) {
	b := startBroker(t, "mappedFileSizeCommitLog=1048576\ndeleteCommitLogFilesInterval=1\n")
	for _, name := range []string{"Kept", "Gone", "Old"} {
		b.mustSend(name, 0, "", "m")
		b.waitQueue(name, 0, 1)
	}

	b.topics.Delete("Gone") // a crash between the two halves of a deletion leaves the queues
	b.mustCall(codec.ReqCleanUnusedTopic, nil, nil)
	require.Empty(t, b.store.Queues("Gone"))
	require.NotEmpty(t, b.store.Queues("Kept"))

	b.mustCall(codec.ReqCleanExpiredConsumeQueue, nil, nil)
	require.NotEmpty(t, b.store.Queues("Old"), "its message is there")

	for range 4 {
		b.mustSend("Kept", 0, "", string(make([]byte, 600<<10)))
	}
	b.waitQueue("Kept", 0, 5)
	first := b.store.MinPhyOffset()
	b.mustCall(codec.ReqDeleteExpiredCommitLog, nil, nil)
	log := path.Join(b.s.dir, "commitlog")
	names, err := vfs.OS.List(log)
	require.NoError(t, err)
	require.Equal(t, first, b.store.MinPhyOffset(), "nothing is older than fileReservedTime")
	for _, name := range names {
		require.NoError(t, vfs.OS.Chtimes(path.Join(log, name), time.Now().Add(-100*time.Hour)))
	}
	b.mustCall(codec.ReqDeleteExpiredCommitLog, nil, nil)
	b.eventually(func() bool { return b.store.MinPhyOffset() > first })
	b.mustCall(codec.ReqCleanExpiredConsumeQueue, nil, nil)
	require.Empty(t, b.store.Queues("Old"))
	require.NotEmpty(t, b.store.Queues("Kept"))
}
