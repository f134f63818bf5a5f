package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestColdBytes: what lies far behind the end counts; with a scan only what was read from the disk lately.
func TestColdBytes(t *testing.T) {
	f := func(change func(o *Options), cold bool, bytes bool) {
		t.Helper()
		s, fs := coldStore(t)
		closeStore(t, s)
		o := s.o
		o.MemoryBytes, o.AccessMessageInMemoryHotRatio = 8<<20, 50
		change(&o)
		clk := newTestClock()
		o.Clock = clk
		s = openStore(t, o)
		res := &GetResult{}
		s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 32, AllowCold: true}, res)
		require.Equal(t, GetFound, res.Status)
		require.Equal(t, cold, s.InColdArea("Topic", 0, 0))
		require.False(t, s.InColdArea("Topic", 0, s.MaxOffset("Topic", 0)-1))
		require.False(t, s.InColdArea("Topic", 0, s.MaxOffset("Topic", 0)))
		require.False(t, s.InColdArea("Topic", 0, -1))
		require.False(t, s.InColdArea("Nothing", 0, 0))
		if !bytes {
			require.Zero(t, res.ColdBytes)
		} else {
			require.EqualValues(t, res.Messages.Size(), res.ColdBytes)
		}
		res.Messages.Release()
		if o.ColdDataScanEnable && bytes {
			clk.advance((2 * time.Minute).Milliseconds()) // read long ago, still in memory
			s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 32, AllowCold: true}, res)
			require.Zero(t, res.ColdBytes)
			res.Messages.Release()
		}
		require.NotZero(t, fs.asked.Load())
	}
	f(func(o *Options) {}, true, false)
	f(func(o *Options) { o.ColdDataFlowControlEnable = true }, true, true)
	f(func(o *Options) { o.ColdDataFlowControlEnable, o.ColdDataScanEnable = true, true }, true, true)
	f(func(o *Options) { o.ColdDataFlowControlEnable, o.MemoryBytes = true, 1<<40 }, false, false)
	f(func(o *Options) {
		o.ColdDataFlowControlEnable, o.MemoryBytes, o.AccessMessageInMemoryHotRatio = true, 16<<20, 100
	}, false, false)
}

// TestSetReadAhead: without it the disk is asked for no more than the chunk that is needed.
func TestSetReadAhead(t *testing.T) {
	s, fs := coldStore(t)
	require.True(t, s.ReadAhead())
	s.SetReadAhead(false)
	require.False(t, s.ReadAhead())
	res := &GetResult{}
	s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 1, AllowCold: true}, res)
	require.Equal(t, GetFound, res.Status)
	res.Messages.Release()
	require.EqualValues(t, residencyChunkBytes, fs.asked.Load())
	s.SetReadAhead(true)
	s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 1, AllowCold: true}, res)
	res.Messages.Release()
	require.Eventually(t, func() bool { return fs.asked.Load() == readAheadBytes+residencyChunkBytes }, testWait, testTick)
}
