//go:build interop

package ha

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

func (n *node) offset(group, topic string, queueID int32) codec.QueueOffset {
	at, err := n.c.client.ConsumerOffset(n.c.t.Context(), n.addr, group, topic, queueID)
	if err != nil {
		return -1
	}
	return at
}

// What operators and consumers did on the master is on the slave.
func TestTables(t *testing.T) {
	f := func(master, slave string) {
		t.Run(master+"-"+slave, func(t *testing.T) {
			c := newCluster(t)
			m := c.node(master, 0).start()
			m.fill("T", 40)
			_, err := m.do(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: "U", DefaultTopic: "TBW102",
				ReadQueueNums: 3, WriteQueueNums: 3, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
			require.NoError(t, err)
			g := body.NewSubscriptionGroupConfig("G2")
			g.RetryMaxTimes = 5
			text, err := body.Encode(g)
			require.NoError(t, err)
			_, err = m.do(codec.ReqUpdateAndCreateSubscriptionGroup, nil, text)
			require.NoError(t, err)
			require.NoError(t, c.client.CommitOffset(t.Context(), m.addr, "G2", "T", 1, 7))
			s := c.node(slave, 1).start()
			require.Eventually(t, func() bool {
				answer, err := s.do(codec.ReqGetAllTopicConfig, nil, nil)
				if err != nil {
					return false
				}
				var w body.TopicConfigAndMappingSerializeWrapper
				if body.Decode(answer.Body, &w) != nil || w.TopicConfigTable["U"] == nil {
					return false
				}
				return w.TopicConfigTable["U"].ReadQueueNums == 3 && s.offset("G2", "T", 1) == 7
			}, 150*time.Second, 10*tick)
			require.Eventually(t, func() bool {
				answer, err := s.do(codec.ReqGetAllSubscriptionGroupConfig, nil, nil)
				var w body.SubscriptionGroupWrapper
				if err != nil || body.Decode(answer.Body, &w) != nil || w.SubscriptionGroupTable["G2"] == nil {
					return false
				}
				return w.SubscriptionGroupTable["G2"].RetryMaxTimes == 5
			}, 150*time.Second, 10*tick)
			_, err = s.do(codec.ReqGetBrokerHAStatus, nil, nil)
			require.NoError(t, err)
			awaitSame(t, m, s)
			awaitQueues(t, m, s, "T")
		})
	}
	f(ours, java53)
	f(java53, ours)
}

// A slave of ours that has what its Java master never had is cut to the common point and follows (case B28).
func TestDiverged(t *testing.T) {
	c := newCluster(t)
	old := c.node(ours, 0).start()
	old.fill("T", 100)
	old.stop()
	s := c.node(ours, 1)
	out, err := exec.Command("cp", "-r", old.dir, s.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.RemoveAll(s.dir+"/store/lock"))
	s.props["brokerId"], s.props["brokerRole"] = "0", "ASYNC_MASTER"
	s.start()
	s.fill("T", 50)
	s.stop()
	m := c.node(java53, 0).start()
	for i := range 30 {
		require.Equal(t, codec.RespSuccess, m.send("T", int32(i%4), []byte("the other life")))
	}
	s = c.node(ours, 1).start()
	awaitSame(t, m, s)
	m.fill("T", 10)
	awaitSame(t, m, s)
	awaitQueues(t, m, s, "T")
}
