package consumeradmin

import (
	"log/slog"
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/broker/offset"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/store"
)

// queues is a Store whose queues have messages from min on, up to max; a file of them has fileEntries.
type queues struct{ min, max codec.QueueOffset }

const fileEntries = 1000

func (q queues) MinOffset(string, int32) codec.QueueOffset { return q.min }
func (q queues) MaxOffset(string, int32) codec.QueueOffset { return q.max }
func (q queues) HasQueue(_ string, queueID int32) bool     { return queueID == 0 }
func (q queues) StoreTimeOf(_ string, _ int32, at codec.QueueOffset) int64 {
	return int64(at)
}

func (q queues) QueueUnit(string, int32, codec.QueueOffset) (store.QueueUnit, bool) {
	return store.QueueUnit{}, false
}

func (q queues) QueueEntries(_ string, _ int32, from codec.QueueOffset, count int) (out []store.QueueEntry) {
	for at := from; at >= q.min && at < q.max && len(out) < count; at++ {
		out = append(out, store.QueueEntry{PhyOffset: codec.PhyOffset(at), Size: 100, TagsCode: int64(at) * 7})
		if at%fileEntries == fileEntries-1 {
			break
		}
	}
	return out
}

func TestConsumeQueue(t *testing.T) {
	a := New(Options{Store: queues{500, 50_000}})
	f := func(index codec.QueueOffset, count int32, want int) {
		t.Helper()
		got, err := a.ConsumeQueue(&codec.QueryConsumeQueueRequestHeader{Topic: "T", Index: index, Count: count})
		require.NoError(t, err)
		require.Len(t, got.QueueData, want)
		require.EqualValues(t, 500, got.MinQueueIndex)
		require.EqualValues(t, 50_000, got.MaxQueueIndex)
		for i, e := range got.QueueData {
			require.EqualValues(t, int(index)+i, e.PhyOffset)
			require.EqualValues(t, (int(index)+i)*7, e.TagsCode)
		}
	}
	f(990, 30, 30) // over the end of a file
	f(500, 1, 1)
	f(49_990, 30, 10)
	f(1000, math.MaxInt32, MaxEntries)
	f(499, 10, 0) // expired
	f(50_000, 10, 0)
	f(-1, 10, 0)
	f(math.MaxInt64, 10, 0)
	f(1000, 0, 0)
	f(1000, -5, 0)
	_, err := a.ConsumeQueue(&codec.QueryConsumeQueueRequestHeader{Topic: "T", QueueID: 1, Count: 1})
	require.ErrorIs(t, err, ErrNoQueue)
}

func TestCorrectionOffsets(t *testing.T) {
	offsets := offset.New(offset.Options{FS: vfs.NewMem(), ConfigDir: "/config", Clock: clock.System, Log: slog.Default()})
	commit := func(group string, queueID int32, at codec.QueueOffset) {
		require.NoError(t, offsets.Commit(netip.AddrPort{}, group, "T", queueID, at))
	}
	commit("a", 0, 600)
	commit("b", 0, 700)
	commit("b", 1, 100) // no message there any more: Java fails with b as compareGroup
	a := New(Options{Store: queues{500, 50_000}, Offsets: offsets})
	f := func(filterGroups, compare string, want map[int32]codec.QueueOffset) {
		t.Helper()
		require.Equal(t, want, a.CorrectionOffsets("T", filterGroups, compare).CorrectionOffsets)
	}
	f("", "b", map[int32]codec.QueueOffset{0: 600})
	f("a", "b", map[int32]codec.QueueOffset{0: 700})
	f("a", "a", map[int32]codec.QueueOffset{0: math.MaxInt64})
	f("a,b", "a", map[int32]codec.QueueOffset{})
	require.Len(t, offsets.GroupsOf("T"), 2, "asking deletes nothing")
}

// A name that would spoil the keys of the offset file is refused.
func TestCloneToBadName(t *testing.T) {
	a := New(Options{})
	_, err := a.CloneOffsets("src", "bad@name", "T", true)
	require.Error(t, err)
	_, err = a.CloneOffsets("src", "", "T", true)
	require.Error(t, err)
}
