package statictopic

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

func newManager(t *testing.T, fsys vfs.FS) *Manager {
	m := New(Options{FS: fsys, ConfigDir: "/c", Clock: clock.System, BrokerName: "b",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, m.Load())
	return m
}

// mapping is one as mqadmin makes it.
func mapping(topicName string, epoch int64, queues int32) *body.TopicQueueMappingDetail {
	d := &body.TopicQueueMappingDetail{TopicQueueMappingInfo: body.TopicQueueMappingInfo{BrokerName: "b", Epoch: epoch,
		Scope: codec.MetadataScopeGlobal, Topic: topicName, TotalQueues: queues, CurrIDMap: map[int32]int32{}},
		HostedQueues: map[int32][]body.LogicQueueMappingItem{}}
	for id := range queues {
		d.HostedQueues[id] = []body.LogicQueueMappingItem{{BrokerName: "b", QueueID: id, EndOffset: -1, TimeOfEnd: -1,
			TimeOfStart: -1}}
	}
	return d
}

func TestMappings(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/c"))
	m := newManager(t, fsys)
	require.NoError(t, m.Update(mapping("T", 10, 2), false))
	require.NoError(t, m.Update(mapping("T", 20, 3), false), "more queues")
	require.NoError(t, m.Update(mapping("U", 10, 1), false))
	require.ErrorIs(t, m.Update(mapping("T", 10, 3), false), ErrInvalid, "an older epoch")
	require.ErrorIs(t, m.Update(mapping("T", 20, 2), false), ErrInvalid, "a queue is gone")
	other := mapping("T", 30, 3)
	other.Scope = "elsewhere"
	require.ErrorIs(t, m.Update(other, false), ErrInvalid)
	require.NoError(t, m.Set("U", nil))
	require.NoError(t, m.Set("U", nil))

	m = newManager(t, fsys)
	require.Equal(t, mapping("T", 20, 3), m.Get("T"))
	require.Nil(t, m.Get("U"))
	require.Nil(t, m.Info("U"))
	info := m.Info("T")
	require.Equal(t, map[int32]int32{0: 0, 1: 1, 2: 2}, info.CurrIDMap)
	require.EqualValues(t, 3, info.TotalQueues)
	details, version := m.Details()
	require.Len(t, details, 1)
	require.NotZero(t, version.Counter)
	require.NoError(t, m.Update(mapping("T", 5, 1), true), "force")
}

// What would have to be translated is refused, and kept as it is in a directory of Java's.
func TestMappingsThatAreNotServed(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/c"))
	f := func(want error, alter func(d *body.TopicQueueMappingDetail)) {
		t.Helper()
		m := newManager(t, fsys)
		d := mapping("T", 1, 2)
		alter(d)
		require.ErrorIs(t, m.Update(d, false), want)
		require.Nil(t, m.Get("T"))

		dir := vfs.NewMem()
		require.NoError(t, dir.MkdirAll("/c"))
		require.NoError(t, persist.Save(dir, "/c/topicQueueMapping.json", &body.TopicQueueMappingSerializeWrapper{
			TopicQueueMappingInfoMap: map[string]*body.TopicQueueMappingDetail{"T": d}}))
		m = newManager(t, dir)
		require.NoError(t, m.Update(mapping("U", 1, 1), false))
		m = newManager(t, dir)
		require.NotNil(t, m.Get("T"))
		require.Nil(t, m.Info("T"))
		require.NotNil(t, m.Info("U"))
	}
	f(ErrInvalid, func(d *body.TopicQueueMappingDetail) { d.BrokerName = "a" })
	f(ErrInvalid, func(d *body.TopicQueueMappingDetail) { d.HostedQueues[0] = nil })
	f(ErrNotServed, func(d *body.TopicQueueMappingDetail) { d.TotalQueues = 4 })
	f(ErrNotServed, func(d *body.TopicQueueMappingDetail) { d.HostedQueues[0][0].QueueID = 1 })
	f(ErrNotServed, func(d *body.TopicQueueMappingDetail) { d.HostedQueues[0][0].LogicOffset = 100 })
	f(ErrNotServed, func(d *body.TopicQueueMappingDetail) { d.HostedQueues[0][0].BrokerName = "a" })
	f(ErrNotServed, func(d *body.TopicQueueMappingDetail) {
		d.HostedQueues[0] = append(d.HostedQueues[0], d.HostedQueues[0][0])
	})
}
