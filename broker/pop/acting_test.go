package pop

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// keptStore remembers what is put.
type keptStore struct {
	emptyStore
	put []*codec.Message
}

func (s *keptStore) Append(m *codec.Message) store.PutResult {
	s.put = append(s.put, m)
	return s.emptyStore.Append(m)
}

// comes has the revive queue give a record.
func comes(t *testing.T, r *ReviveService, q *reviveQueue, m *codec.Message) {
	t.Helper()
	require.NoError(t, r.take(q, &codec.Record{Body: m.Body, Properties: m.Properties}))
	q.next++
}

// after lets virtual time pass until everything that is due then has happened.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A check point of another broker's acting master waits for its acks, which are told apart from those of a check point of
// the same name that is another broker's; then the messages are fetched and returned here.
func TestCheckPointOfAnotherBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := emptyService(t, func() bool { return false })
		kept := &keptStore{}
		s.o.Store = kept
		var asked []string
		fail := errors.New("nobody there")
		s.o.Fetch = func(broker, topic string, queueID int32, at codec.QueueOffset) ([]byte, error) {
			asked = append(asked, fmt.Sprint(broker, topic, queueID, at))
			switch at {
			case 11:
				return nil, ErrGone
			case 12:
				return nil, fail
			}
			raw, err := codec.AppendRecordV1(nil, &codec.Message{Topic: topic, QueueID: queueID, Body: []byte("x"),
				BornHost: s.o.StoreHost(), StoreHost: s.o.StoreHost()})
			require.NoError(t, err)
			return raw, nil
		}
		r := &s.revive
		r.begin()
		r.caughtUp = true
		q, now := &r.queues[0], time.Now().UnixMilli()
		record := func(broker string) *codec.Message {
			m, err := s.checkPointRecord(&CheckPoint{BrokerName: broker, Topic: "T", Group: "g", QueueID: 3, StartOffset: 10, Num: 4,
				PopTime: now - 60_000, Invisible: 1000}, 0)
			require.NoError(t, err)
			return m
		}
		ack := func(broker string, at codec.QueueOffset) *codec.Message {
			m, err := s.ackRecord(&ackRecord{BrokerName: broker, Topic: "T", Group: "g", QueueID: 3, StartOffset: 10, Offset: at,
				PopTime: now - 60_000}, 0, now)
			require.NoError(t, err)
			return m
		}
		comes(t, r, q, record("a"))
		comes(t, r, q, record("c"))
		comes(t, r, q, ack("a", 10))
		comes(t, r, q, ack("c", 13))
		r.judge(q, q.cks[0], time.Now().UnixMilli(), true)
		require.False(t, q.cks[0].done, "its acks come over the network")
		time.Sleep(strangerStay)
		r.judge(q, q.cks[0], time.Now().UnixMilli(), true)
		require.True(t, q.cks[0].done)
		require.Equal(t, []string{"aT3 11", "aT3 12", "aT3 13"}, asked)
		require.Len(t, kept.put, 2)
		require.Equal(t, s.reviveTopic, kept.put[0].Topic, "to be tried again")
		require.Equal(t, codec.PopRetryTopicV1("T", "g"), kept.put[1].Topic)

		s.o.TopicQueues = func(string) int32 { return 0 }
		r.judge(q, q.cks[1], time.Now().UnixMilli(), true)
		require.True(t, q.cks[1].done)
		require.Len(t, kept.put, 5, "three have to be tried again: the topic may come")
		s.Close()
	})
}

// What is popped on a slave that acts as master stays in memory, then goes elsewhere with the acks that it has; later acks
// follow to the same place. The master's check points that came out of the timer before it died go there as well.
func TestActing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acting atomic.Bool
		s := emptyService(t, func() bool { return true })
		s.o.Acting = acting.Load
		type sent struct {
			name RecordName
			tag  string
			ck   CheckPoint
		}
		var away []sent // by the service's goroutine; read it after synctest.Wait
		var up atomic.Bool
		s.o.Elsewhere = func(name RecordName, m *codec.Message) error {
			if !up.Load() {
				return errors.New("no other broker")
			}
			read, err := NameOf(m.Body)
			require.NoError(t, err)
			require.Equal(t, name, read)
			e := sent{name: name}
			tag, _ := codec.LookupProperty(m.Properties, codec.PropTags)
			_, due := codec.LookupProperty(m.Properties, codec.PropTimerDeliverMs)
			require.True(t, due, "by way of the other one's timer")
			if e.tag = string(tag); e.tag == tagCheckPoint {
				q := &reviveQueue{byKey: map[brokerKey]*reviving{}}
				comes(t, &s.revive, q, m)
				e.ck = q.cks[0].ck
			}
			away = append(away, e)
			return nil
		}
		settings := s.o.Settings
		s.o.Settings = func() Settings {
			set := settings()
			set.BufferStay = time.Second
			return set
		}
		s.Start(true)
		acting.Store(true)
		time.Sleep(time.Second)
		require.True(t, s.Acting())
		q := s.queue("T", "g", 0)
		now := time.Now().UnixMilli()
		e := &open{queue: q, buffered: true, at: now,
			ck: CheckPoint{Topic: "T", Group: "g", BrokerName: "b", Num: 3, PopTime: now, Invisible: 60_000}}
		require.True(t, s.ledger.add(e))
		s.keep(e)
		ack := func(at codec.QueueOffset) error {
			_, err := s.Ack(&Receipt{PopTime: now, Invisible: 60_000, Broker: "b", Offset: at}, "T", "g", 0, at)
			return err
		}
		require.NoError(t, ack(1))
		after(2 * time.Second)
		require.Empty(t, away)
		require.False(t, s.safe(e), "the group's offset must not pass")
		up.Store(true)
		after(time.Second)
		require.Len(t, away, 1)
		require.EqualValues(t, 1<<1, away[0].ck.BitMap)
		require.Equal(t, "T", away[0].name.Topic)
		require.True(t, s.safe(e))
		require.NoError(t, ack(2))
		require.ErrorIs(t, ack(2), ErrSettled)
		after(time.Second)
		require.Len(t, away, 2)
		require.Equal(t, tagAck, away[1].tag)
		require.Equal(t, away[0].name, away[1].name)
		acting.Store(false)
		time.Sleep(time.Second)
		require.False(t, s.Acting())
		require.Zero(t, s.Open())
		s.Close()
		require.NoError(t, s.Save())
		require.NoError(t, s.EndProgress(true))
	})
}
