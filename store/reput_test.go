package store

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
)

// testClock is the real clock moved ahead by hand.
type testClock struct {
	clock.Clock
	mu    sync.Mutex
	ahead time.Duration
}

func newTestClock() *testClock { return &testClock{Clock: clock.System} }

func (c *testClock) advance(millis int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += time.Duration(millis) * time.Millisecond
	// To the start of a second, so that what follows is in the same one.
	now := time.Now().Add(c.ahead)
	c.ahead += now.Truncate(time.Second).Add(time.Second).Sub(now)
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *testClock) Millis() int64 { return c.Now().UnixMilli() }

// arrivals collects what consumers are told.
type arrivals struct {
	mu    sync.Mutex
	calls int
	list  []Arrival
}

func (a *arrivals) add(batch []Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	for _, arrival := range batch {
		arrival.Properties = append([]byte(nil), arrival.Properties...)
		a.list = append(a.list, arrival)
	}
}

func (a *arrivals) get() []Arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Arrival(nil), a.list...)
}

// TestArrivals: every message that can be consumed is announced once, in the order of the log, with what a parked pull
// wants to know, and can be read by then (case B10).
func TestArrivals(t *testing.T) {
	var got arrivals
	o := testOptions(vfs.NewMem(), "/store")
	var s *MessageStore
	var unreadable int
	o.Listener.Arrived = func(batch []Arrival) {
		got.add(batch)
		for _, a := range batch {
			if s.MaxOffset(a.Topic, a.QueueID) <= a.QueueOffset {
				unreadable++
			}
		}
	}
	s = openStore(t, o)
	var want []Arrival
	for i := range 500 { // several files
		m := testMessage(fmt.Sprint("Topic", i%3), int32(i%2), fmt.Sprint(i))
		m.Properties = codec.AppendProperty(m.Properties, codec.PropTags, fmt.Sprint("tag", i%5))
		r := mustPut(t, s, m)
		want = append(want, Arrival{Topic: m.Topic, QueueID: m.QueueID, QueueOffset: r.QueueOffset,
			TagsCode: codec.TagsCode([]byte(fmt.Sprint("tag", i%5))), StoreTimestamp: r.StoreTimestamp,
			Properties: m.Properties})
		if i%10 == 0 {
			half := testMessage("Topic0", 0, "half")
			half.SysFlag = codec.SysFlagTransactionPrepared
			mustPut(t, s, half)
		}
	}
	require.Eventually(t, func() bool { return len(got.get()) == len(want) }, testWait, testTick)
	require.Equal(t, want, got.get())
	require.Zero(t, unreadable)
}

// TestArrivalsComeInRuns: what came in while the service was busy is one run.
func TestArrivalsComeInRuns(t *testing.T) {
	var got arrivals
	o := testOptions(vfs.NewMem(), "/store")
	first, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o.Listener.Arrived = func(batch []Arrival) {
		once.Do(func() {
			close(first)
			<-goOn
		})
		got.add(batch)
	}
	s := openStore(t, o)
	mustPut(t, s, testMessage("Topic", 0, "first"))
	<-first
	for i := range 50 {
		mustPut(t, s, testMessage("Topic", 0, fmt.Sprint(i)))
	}
	close(goOn)
	require.Eventually(t, func() bool { return len(got.get()) == 51 }, testWait, testTick)
	got.mu.Lock()
	defer got.mu.Unlock()
	require.Equal(t, 2, got.calls)
}

// TestReputWaitsForFlush: with SYNC_FLUSH nobody sees what a power cut could take back.
func TestReputWaitsForFlush(t *testing.T) {
	fs := &slowSyncFS{FS: vfs.NewMem(), gate: make(chan struct{})}
	o := testOptions(fs, "/store")
	o.FlushDiskType = SyncFlush
	o.MessageIndexEnable = false
	s := openStore(t, o)
	r := s.Append(testMessage("Topic", 0, "x"))
	require.Equal(t, PutOK, r.Status)
	require.Zero(t, s.MaxOffset("Topic", 0))
	require.Zero(t, s.DispatchBehindBytes(), "nothing is confirmed")
	close(fs.gate)
	require.Eventually(t, func() bool { return s.MaxOffset("Topic", 0) == 1 }, testWait, testTick)
	require.GreaterOrEqual(t, s.FlushedWhere(), r.EndOffset)
}

// slowSyncFS holds the sync of log mappings back until gate is closed.
type slowSyncFS struct {
	vfs.FS
	gate chan struct{}
}

func (f *slowSyncFS) OpenReadWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return slowSyncFile{file, f.gate}, nil
}

type slowSyncFile struct {
	vfs.File
	gate chan struct{}
}

func (f slowSyncFile) Map(size int64, writable bool) (vfs.Mapping, error) {
	m, err := f.File.Map(size, writable)
	if err != nil {
		return nil, err
	}
	return slowSyncMapping{m, f.gate}, nil
}

type slowSyncMapping struct {
	vfs.Mapping
	gate chan struct{}
}

func (m slowSyncMapping) Sync(off, n int64) error {
	<-m.gate
	return m.Mapping.Sync(off, n)
}

// TestReputSurvivesFullDisk: entries wait for room, none is lost, puts are refused meanwhile.
func TestReputSurvivesFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MessageIndexEnable = false
	s := openStore(t, o)
	mustPut(t, s, testMessage("Topic", 0, "0"))
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { return s.cl.alloc.ready.Load() != nil || s.MaxPhyOffset() < 4096 }, testWait, testTick)
	fs.SetLimit(fs.UsedBytes())
	for i := 1; i < 4; i++ { // queues of their own need files
		m := testMessage("Topic", int32(i), fmt.Sprint(i))
		m.WaitStoreMsgOK = false
		if r := s.Append(m); r.Status != PutOK {
			break
		}
	}
	require.Eventually(t, func() bool { return s.flags.has(flagLogicsQueueError) }, testWait, testTick)
	require.Positive(t, s.DispatchBehindBytes())
	require.Equal(t, ServiceNotAvailable, s.Put(testMessage("Topic", 0, "refused")).Status)
	fs.SetLimit(0)
	require.Eventually(t, func() bool { return !s.flags.has(flagLogicsQueueError) }, testWait, testTick)
	awaitDispatch(t, s)
	require.Equal(t, []string{"1"}, bodies(t, s, "Topic", 1))
	mustPut(t, s, testMessage("Topic", 0, "1"))
	awaitDispatch(t, s)
	require.Equal(t, []string{"0", "1"}, bodies(t, s, "Topic", 0))
}

// TestDispatchAllocatesNothing in the steady state.
func TestDispatchAllocatesNothing(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MappedFileSizeCommitLog = 4 << 20
	o.MappedFileSizeConsumeQueue = 2 << 20
	s := openStore(t, o)
	const count = 5000
	for i := range count {
		m := testMessage("Topic", int32(i%3), fmt.Sprint(i))
		m.Properties = codec.AppendProperty(m.Properties, codec.PropTags, "tag")
		m.WaitStoreMsgOK = false
		mustPut(t, s, m)
	}
	awaitDispatch(t, s)
	r := secondDispatch(t, s)
	require.NoError(t, r.dispatchRun())
	require.Zero(t, testing.AllocsPerRun(2, func() {
		if err := r.dispatchRun(); err != nil {
			t.Error(err)
		}
	}))
	for r.behind() > 0 {
		require.NoError(t, r.dispatchRun())
	}
	r.table.each(func(cq *consumeQueue) {
		require.Equal(t, s.MaxOffset(cq.topic, cq.queueID), QueueOffset(cq.maxOffset.Load()))
	})
}
