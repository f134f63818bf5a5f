package stats

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newManager() *Manager {
	return New(Options{Clock: clock.System, Cluster: "C", Detail: true})
}

// B38: 60 plain and 30 delayed messages are 90 in every window, the rate is that of a minute.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		m.Start()
		defer m.Close()
		time.Sleep(time.Hour)
		p := m.TopicPut("T")
		_, ok := m.View(TopicPutNums, "T")
		require.False(t, ok, "a topic that nothing was put to has no counter")
		for range 90 {
			p.Count(1, 1, 100, 2)
		}
		view := func() (minute, hour, day int64) {
			v, ok := m.View(TopicPutNums, "T")
			require.True(t, ok)
			return v.StatsMinute.Sum, v.StatsHour.Sum, v.StatsDay.Sum
		}
		check := func(minute, hour, day int64) {
			t.Helper()
			a, b, c := view()
			require.Equal(t, []int64{minute, hour, day}, []int64{a, b, c})
		}
		check(90, 90, 90)
		time.Sleep(55 * time.Second)
		check(90, 90, 90)
		v, _ := m.View(TopicPutNums, "T")
		require.InEpsilon(t, 90.0/60, v.StatsMinute.TPS, 0.1)
		require.Equal(t, 1.0, v.StatsMinute.AvgPT)
		v, _ = m.View(TopicPutSize, "T")
		require.EqualValues(t, 9000, v.StatsMinute.Sum)
		require.Equal(t, 100.0, v.StatsMinute.AvgPT)
		v, ok = m.View(TopicPutLatency, "1@T")
		require.True(t, ok)
		require.Equal(t, 2.0, v.StatsMinute.AvgPT)

		time.Sleep(30 * time.Second)
		check(0, 90, 90)
		time.Sleep(70 * time.Minute)
		check(0, 0, 90)
		p.Count(0, 5, 1, 0)
		check(5, 5, 95)
		time.Sleep(24 * time.Hour)
		check(0, 0, 5)
		time.Sleep(2 * time.Hour)
		check(0, 0, 0)
		require.Nil(t, m.items[TopicPutNums]["T"].win, "what stands still costs nothing")
		p.Count(0, 5, 1, 0)
		check(5, 5, 5)
		time.Sleep(time.Minute)
		check(5, 5, 5)
	})
}

func TestNames(t *testing.T) {
	m := newManager()
	m.GroupGet("g", "T").Count(3, 4, 400, 1)
	m.SendBack("g", "T", "", false)
	m.SendBack("g", "T", "", true)
	m.SendBack("g", "T", "me", true)
	m.QueuePut("SCHEDULE_TOPIC_XXXX", 2, 1, 10)
	m.QueueGet("SCHEDULE_CONSUMER", "SCHEDULE_TOPIC_XXXX", 2, 1, 10)
	m.CountPut(7, false)
	m.CountPut(2, true)
	m.CountGet(3, false)
	m.Counter(ChannelActivity, "CONNECT").Add(1)
	f := func(name, key string, want int64) {
		t.Helper()
		v, ok := m.View(name, key)
		require.True(t, ok, name)
		require.Equal(t, want, v.StatsMinute.Sum)
	}
	f(GroupGetNums, "T@g", 4)
	f(GroupGetSize, "T@g", 400)
	f(GroupGetLatency, "3@T@g", 1)
	f(SendBackNums, "T@g", 3)
	f(SendBackToDLQ, "null@T@g@SEND_BACK_TO_DLQ", 1)
	f(SendBackToDLQ, "me@T@g@SEND_BACK_TO_DLQ", 1)
	f(QueuePutNums, "SCHEDULE_TOPIC_XXXX@2", 1)
	f(QueueGetSize, "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 10)
	f(BrokerPutNums, "C", 9)
	f(BrokerPutOwn, "C", 7)
	f(BrokerGetNums, "C", 3)
	f(BrokerGetOwn, "C", 3)
	f(ChannelActivity, "CONNECT", 1)
	_, ok := m.View(BrokerPutNums, "broker-a")
	require.False(t, ok, "the key is the cluster's name")
	_, ok = m.View("NO_SUCH", "T")
	require.False(t, ok)
	require.Positive(t, m.GroupTPS("g", "T"))
	require.Zero(t, m.GroupTPS("g", "U"))

	plain := New(Options{Clock: clock.System, Cluster: "C"})
	plain.GroupGet("g", "T").Count(3, 4, 400, 1)
	plain.QueuePut("T", 2, 1, 10)
	plain.QueueGet("g", "T", 2, 1, 10)
	_, ok = plain.View(GroupGetLatency, "T@g")
	require.True(t, ok, "without enableDetailStat latency is not kept by queue")
	_, ok = plain.View(QueuePutNums, "T@2")
	require.False(t, ok)
}

// B38: counters of what was deleted go, and their memory with them.
func TestDeleted(t *testing.T) {
	m := newManager()
	before := m.Items()
	for _, topic := range []string{"T", "T2"} {
		p := m.TopicPut(topic)
		for q := range int32(8) {
			p.Count(q, 1, 1, 1)
		}
		for _, g := range []string{"g", "g2"} {
			m.GroupGet(g, topic).Count(1, 1, 1, 1)
			m.SendBack(g, topic, "", true)
		}
		m.QueuePut(topic, 1, 1, 1)
	}
	m.DeleteTopic("T")
	for _, x := range [][2]string{{TopicPutNums, "T"}, {TopicPutLatency, "1@T"}, {GroupGetNums, "T@g"},
		{GroupGetLatency, "1@T@g"}, {SendBackNums, "T@g"}, {QueuePutNums, "T@1"}} {
		_, ok := m.View(x[0], x[1])
		require.False(t, ok, x)
	}
	_, ok := m.View(TopicPutNums, "T2")
	require.True(t, ok, "a topic whose name begins alike stays")
	m.DeleteGroup("g")
	_, ok = m.View(GroupGetNums, "T2@g")
	require.False(t, ok)
	_, ok = m.View(GroupGetNums, "T2@g2")
	require.True(t, ok)
	m.DeleteGroup("g2")
	m.DeleteTopic("T2")
	require.Equal(t, before, m.Items())
	require.Empty(t, *m.groups.Load())
	m.TopicPut("T").Count(1, 3, 1, 1)
	v, _ := m.View(TopicPutNums, "T")
	require.EqualValues(t, 3, v.StatsMinute.Sum, "a topic that is made anew starts at 0")
}

func TestItemsAreBounded(t *testing.T) {
	m := newManager()
	m.count = MaxItems
	m.GroupGet("g", "T").Count(1, 1, 1, 1)
	m.TopicPut("T").Count(1, 1, 1, 1)
	_, ok := m.View(TopicPutNums, "T")
	require.False(t, ok)
	require.Empty(t, *(*m.groups.Load())["g"].table.Load())
	var q queues
	c := &Counter{}
	require.Same(t, c, q.at(1<<30, func() *Counter { return c }))
	require.Len(t, *q.list.Load(), maxQueues)
	require.Same(t, c, q.at(maxQueues-1, nil))
}

func TestTotalsByDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		info := func(key string) string {
			out := map[string]string{}
			m.RuntimeInfo(out)
			return out[key]
		}
		m.CountPut(10, false)
		m.CountPut(99, true)
		require.Equal(t, "10", info("msgPutTotalTodayNow"), "deliveries inside the broker are not counted twice")
		require.Equal(t, "0", info("msgPutTotalTodayMorning"))
		m.Start()
		defer m.Close()
		time.Sleep(24*time.Hour + 15*time.Second) // past the first sample of the day
		m.CountPut(5, false)
		m.CountGet(2, false)
		require.Equal(t, "15", info("msgPutTotalTodayNow"))
		require.Equal(t, "10", info("msgPutTotalTodayMorning"))
		require.Equal(t, "0", info("msgPutTotalYesterdayMorning"))
		require.Equal(t, "2", info("msgGetTotalTodayNow"))
		time.Sleep(24 * time.Hour)
		require.Equal(t, "15", info("msgPutTotalTodayMorning"))
		require.Equal(t, "10", info("msgPutTotalYesterdayMorning"))
	})
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := newManager()
	p := m.TopicPut("T")
	count := func() {
		p.Count(3, 1, 100, 0)
		m.CountPut(1, false)
		m.GroupGet("g", "T").Count(3, 32, 1000, 0)
		m.CountGet(32, false)
	}
	count()
	require.Zero(t, testing.AllocsPerRun(100, count))
}

func TestConcurrentCounting(t *testing.T) {
	m := newManager()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			p := m.TopicPut("T")
			for i := range 1000 {
				p.Count(int32(i%5), 1, 1, 0)
				m.GroupGet(fmt.Sprint("g", w), fmt.Sprint("T", i%7)).Count(int32(i%3), 1, 1, 0)
				if i%100 == 0 {
					m.Sample()
					m.DeleteTopic("T6")
				}
			}
		})
	}
	wg.Wait()
	v, _ := m.View(TopicPutNums, "T")
	require.EqualValues(t, 4000, v.StatsDay.Sum)
}
