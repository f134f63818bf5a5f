package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
)

// apache/rocketmq#7689 in the store itself, which the simulation only stands for: a master is killed while records are in
// its log that its slaves do not have. When it is back, new messages get queue offsets behind theirs: two messages at one
// offset would hide one of them.
func TestRestartKeepsQueueOffsetsBehindTheConfirmOffset(t *testing.T) {
	f := func(unclean bool) {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			open := func() *store.MessageStore {
				o := store.DefaultOptions("/s")
				o.FS, o.MappedFileSizeCommitLog, o.MaxHashSlotNum, o.MaxIndexNum = disk, 64<<10, 100, 400
				o.MappedFileSizeConsumeQueue, o.MaxMessageSize = 400, 8<<10
				s, err := store.Open(o)
				require.NoError(t, err)
				require.NoError(t, s.Start())
				return s
			}
			put := func(s *store.MessageStore, i int) store.PutResult {
				r := s.Put(&codec.Message{Topic: "t", Body: fmt.Appendf(nil, "%d", i), BornTimestamp: 1, WaitStoreMsgOK: true})
				require.Equal(t, store.PutOK, r.Status)
				return r
			}
			s := open()
			var confirmed store.PhyOffset
			for i := range 10 {
				if i == 6 {
					time.Sleep(time.Minute) // virtual: dispatched
					confirmed = s.MaxPhyOffset()
					s.ConfirmTo(confirmed)
				}
				require.EqualValues(t, i, put(s, i).QueueOffset)
			}
			time.Sleep(time.Minute)
			require.EqualValues(t, 6, s.MaxOffset("t", 0), "the others are not shown before the restart")
			if unclean {
				disk = disk.CloneAll() // what kill -9 leaves
			}
			require.NoError(t, s.Close())
			s = open()
			s.ConfirmTo(confirmed)
			require.EqualValues(t, 10, put(s, 10).QueueOffset)
			s.ConfirmTo(1 << 62)
			time.Sleep(time.Minute)
			require.EqualValues(t, 11, s.MaxOffset("t", 0))
			require.NoError(t, s.Close())
		})
	}
	f(false)
	f(true)
}
