//go:build interop

package ha

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/codec"
)

// popped is a message and its receipt.
type popped struct {
	text    string
	receipt pop.Receipt
	topic   string
}

// pop gives up to 32 messages to group PG; nil if it is refused.
func (n *node) pop(topic string, invisible time.Duration) (out []popped) {
	t := n.c.t
	t.Helper()
	answer, err := n.do(codec.ReqPopMessage, &codec.PopMessageRequestHeader{ConsumerGroup: "PG", Topic: topic, QueueID: -1,
		MaxMsgNums: 32, InvisibleTime: invisible.Milliseconds(), BornTime: time.Now().UnixMilli(),
		InitMode: codec.ConsumeInitModeMin, Exp: "*", ExpType: "TAG"}, nil)
	if err != nil {
		return nil
	}
	var h codec.PopMessageResponseHeader
	require.NoError(t, codec.DecodeHeader(answer, &h))
	first := map[int32]codec.QueueOffset{}
	for rest := answer.Body; len(rest) > 0; {
		rec, err := codec.ParseRecord(rest, true)
		require.NoError(t, err)
		rest = rest[rec.TotalSize:]
		if _, ok := first[rec.QueueID]; !ok {
			first[rec.QueueID] = rec.QueueOffset
		}
		p := popped{text: string(rec.Body), topic: string(rec.Topic), receipt: pop.Receipt{StartOffset: first[rec.QueueID],
			PopTime: h.PopTime, Invisible: h.InvisibleTime, ReviveQID: h.ReviveQID, Broker: n.props["brokerName"],
			QueueID: rec.QueueID, Offset: rec.QueueOffset}}
		if ck, ok := rec.Property(codec.PropPopCK); ok {
			p.receipt, err = pop.ParseReceipt(string(ck))
			require.NoError(t, err)
			p.topic = codec.PopRetryTopicV1(topic, "PG")
		}
		out = append(out, p)
	}
	return out
}

func (n *node) ack(p popped) {
	n.c.t.Helper()
	_, err := n.do(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "PG", Topic: p.topic,
		QueueID: p.receipt.QueueID, ExtraInfo: p.receipt.String(), Offset: p.receipt.Offset}, nil)
	require.NoError(n.c.t, err)
}

func texts(list []popped) (out []string) {
	for _, p := range list {
		out = append(out, p.text)
	}
	return out
}

// What is popped on a slave that acts as master, and what its master gave, is returned by a broker of another name, Java's
// or ours, unless it was acknowledged.
func TestPopOnActingMaster(t *testing.T) {
	acting := []string{"enableSlaveActingMaster=true", "enableRemoteEscape=true", "brokerHeartbeatInterval=500",
		"brokerNotActiveTimeoutMillis=3000", "syncBrokerMemberGroupPeriod=500", "popCkStayBufferTime=1000"}
	f := func(group, other string, invisible time.Duration, exact bool) {
		t.Run(group+"-"+other, func(t *testing.T) {
			c := newCluster(t)
			m := c.node(group, 0, acting...).start()
			s := c.node(group, 1, acting...).start()
			o := c.node(other, 2, "brokerName=broker-b", "brokerId=0", "brokerRole=ASYNC_MASTER").start()
			for _, n := range []*node{m, o} {
				_, err := n.do(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: "T", DefaultTopic: "TBW102",
					ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
				require.NoError(t, err)
			}
			for _, text := range []string{"m0", "m1", "m2"} {
				require.Equal(t, codec.RespSuccess, m.send("T", 0, []byte(text)))
			}
			var given []popped
			require.Eventually(t, func() bool {
				given = append(given, m.pop("T", invisible)...)
				return len(given) == 3
			}, patience, tick)
			m.ack(given[0])
			for _, text := range []string{"m3", "m4", "m5"} {
				require.Equal(t, codec.RespSuccess, m.send("T", 0, []byte(text)))
			}
			require.Eventually(t, func() bool {
				_, err := s.do(codec.ReqGetTopicConfig, &codec.TopicRequestHeader{Topic: "T"}, nil)
				return err == nil && s.offset("PG", "T", 0) == 3 && s.maxOffset() == m.maxOffset()
			}, 150*time.Second, 10*tick)
			m.stop()
			var rest []popped
			require.Eventually(t, func() bool { rest = append(rest, s.pop("T", 8*time.Second)...); return len(rest) >= 3 }, patience,
				10*tick)
			require.Equal(t, []string{"m3", "m4", "m5"}, texts(rest))
			s.ack(rest[1])
			var back []string
			missing := func() bool {
				for _, p := range o.pop("T", time.Minute) {
					back = append(back, p.text)
					o.ack(p)
				}
				return !slices.Contains(back, "m1") || !slices.Contains(back, "m2") || !slices.Contains(back, "m3") ||
					!slices.Contains(back, "m5")
			}
			require.Eventually(t, func() bool { return !missing() }, 3*patience, 10*tick, "%v", &back)
			if exact {
				require.Len(t, back, 4, "%v", back)
			}
		})
	}
	f(ours, java53, 20*time.Second, false) // it does not wait for acks that come over the network
	if !testing.Short() {                  // Java's slave copies offsets every minute
		f(java53, ours, 100*time.Second, false) // its acks may go to another queue than their check point
	}
}
