//go:build interop

package handover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	topicPop  = "HandoverPop"
	groupPop  = "GID_handover_pop"
	topicFifo = "HandoverFifo"
	groupFifo = "GID_handover_fifo"
	// popHidden outlives the relay.
	popHidden = 10 * time.Minute
	// popSoon is over soon after a Java broker has taken over from one that stops or dies at once. Not before: the timer of
	// Java gives out what is overdue at its start in any order, acks before their check points, and forgets them.
	popSoon = 12 * time.Second
	// popBack is how long a message may take to come back.
	popBack = 60 * time.Second
	// fifoCount are the messages of an orderly pop.
	fifoCount = 4
)

// popped is a message with its receipt.
type popped struct {
	name, topic string // the topic it was read from
	reconsume   int32
	receipt     pop.Receipt
}

// popClient pops in one life of a relay.
type popClient struct {
	r *relay
	l *life
	// done are the messages that were acknowledged in any life: they must not come again.
	done map[string]bool
}

// pops hands a broker over in the middle of POP: what is acknowledged never comes again, what is not does, at its time,
// whichever broker gave the receipt and whichever takes it.
func (r *relay) pops(legs ...leg) {
	done := map[string]bool{}
	var back []string  // have to come back in the next life
	var held []popped  // receipts that the next life gets
	var order []string // of the orderly queue, what comes next
	for _, leg := range legs {
		l := r.d.start(r.t, leg.kind)
		c := &popClient{r: r, l: l, done: done}
		if l.number == 1 {
			c.makeTopics()
		}
		for _, m := range held {
			c.ack(topicPop, groupPop, m)
		}
		c.awaitBack(back)
		c.awaitOrder(order)
		back, held = c.write()
		order = c.writeOrder()
		if leg.end == clean {
			l.stop(r.t)
		} else {
			c.awaitOffsets()
			l.kill(r.t)
		}
		r.t.Logf("%s: %d come back, %d receipts are open, orderly %v", l, len(back), len(held), order)
	}
}

func (c *popClient) makeTopics() {
	for _, name := range []string{topicPop, topicFifo} {
		t := &body.TopicConfig{}
		t.SetDefaults()
		t.TopicName, t.ReadQueueNums, t.WriteQueueNums = name, 1, 1
		require.NoError(c.r.t, c.l.client.CreateTopic(c.l.ctx, c.l.addr, t))
	}
	for _, name := range []string{groupPop, groupFifo} {
		g := body.NewSubscriptionGroupConfig(name)
		g.ConsumeMessageOrderly = name == groupFifo
		require.NoError(c.r.t, c.l.client.CreateGroup(c.l.ctx, c.l.addr, g))
	}
}

func (c *popClient) send(topic, kind string, n int) {
	c.r.t.Helper()
	var r *client.SendResult
	for i := range n {
		var err error
		r, err = c.l.client.Send(c.l.ctx, c.l.addr, &codec.SendMessageHeader{ProducerGroup: []byte("PID"),
			Topic: []byte(topic), BornTimestamp: time.Now().UnixMilli()}, fmt.Appendf(nil, "%d-%s-%d", c.l.number, kind, i))
		require.NoError(c.r.t, err, "%s", c.l)
	}
	require.Eventually(c.r.t, func() bool { // an orderly pop takes what is there
		end, err := c.l.client.MaxOffset(c.l.ctx, c.l.addr, topic, 0)
		return err == nil && end == r.QueueOffset+1
	}, 10*time.Second, 10*time.Millisecond, "%s: %s", c.l, topic)
}

// pop takes up to n messages; none when there are none within a second.
func (c *popClient) pop(topic, group string, n int, invisible time.Duration, order bool) (out []popped) {
	c.r.t.Helper()
	req := codec.NewRequest(codec.ReqPopMessage)
	codec.EncodeHeader(req, &codec.PopMessageRequestHeader{ConsumerGroup: group, Topic: topic, QueueID: 0,
		MaxMsgNums: int32(n), InvisibleTime: invisible.Milliseconds(), PollTime: 1000, BornTime: time.Now().UnixMilli(),
		Order: order, AttemptID: fmt.Sprint("attempt-", time.Now().UnixNano())})
	answer, err := c.l.client.Call(c.l.ctx, c.l.addr, req)
	require.NoError(c.r.t, err, "%s", c.l)
	if answer.Code == codec.RespPollingTimeout {
		return nil
	}
	require.Equal(c.r.t, codec.RespSuccess, answer.Code, "%s: %s", c.l, answer.Remark)
	var h codec.PopMessageResponseHeader
	require.NoError(c.r.t, codec.DecodeHeader(answer, &h))
	starts := map[string]codec.QueueOffset{}
	for e := range strings.SplitSeq(h.StartOffsetInfo, ";") {
		var flag, queue string
		var at codec.QueueOffset
		_, err := fmt.Sscan(e, &flag, &queue, &at)
		require.NoError(c.r.t, err, "%s: %q", c.l, h.StartOffsetInfo)
		starts[flag] = at
	}
	require.NoError(c.r.t, client.EachRecord(answer.Body, func(rec *codec.Record) error {
		m := popped{name: string(rec.Body), topic: topic, reconsume: rec.ReconsumeTimes}
		m.receipt = pop.Receipt{StartOffset: starts["0"], PopTime: h.PopTime, Invisible: h.InvisibleTime,
			ReviveQID: h.ReviveQID, Broker: c.r.d.props["brokerName"], QueueID: rec.QueueID, Offset: rec.QueueOffset}
		if text, ok := rec.Property(codec.PropPopCK); ok {
			m.receipt, err = pop.ParseReceipt(string(text))
			require.NoError(c.r.t, err, "%s", c.l)
			m.topic = pop.RealTopic(topic, group, fmt.Sprint(m.receipt.Flag))
		}
		require.False(c.r.t, c.done[m.name], "%s: %s was acknowledged and comes again", c.l, m.name)
		out = append(out, m)
		return nil
	}))
	return out
}

func (c *popClient) ack(topic, group string, m popped) {
	c.r.t.Helper()
	req := codec.NewRequest(codec.ReqAckMessage)
	codec.EncodeHeader(req, &codec.AckMessageRequestHeader{ConsumerGroup: group, Topic: m.topic, QueueID: m.receipt.QueueID,
		ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset})
	_, err := c.l.client.Do(c.l.ctx, c.l.addr, req)
	require.NoError(c.r.t, err, "%s: ack of %s of %s", c.l, m.name, topic)
	if group == groupPop { // an orderly pop gives all from the offset on
		c.done[m.name] = true
	}
}

// change gives m with its new receipt.
func (c *popClient) change(group string, m popped, invisible time.Duration) popped {
	c.r.t.Helper()
	req := codec.NewRequest(codec.ReqChangeMessageInvisibleTime)
	codec.EncodeHeader(req, &codec.ChangeInvisibleTimeRequestHeader{ConsumerGroup: group, Topic: m.topic,
		QueueID: m.receipt.QueueID, ExtraInfo: m.receipt.String(), Offset: m.receipt.Offset,
		InvisibleTime: invisible.Milliseconds()})
	answer, err := c.l.client.Do(c.l.ctx, c.l.addr, req)
	require.NoError(c.r.t, err, "%s: change of %s", c.l, m.name)
	var h codec.ChangeInvisibleTimeResponseHeader
	require.NoError(c.r.t, codec.DecodeHeader(answer, &h))
	m.receipt.PopTime, m.receipt.Invisible, m.receipt.ReviveQID = h.PopTime, h.InvisibleTime, h.ReviveQID
	m.receipt.StartOffset = m.receipt.Offset
	return m
}

// until tries again and again; f takes its time.
func (c *popClient) until(limit time.Duration, what string, f func() bool) {
	c.r.t.Helper()
	for end := time.Now().Add(limit); !f(); {
		require.True(c.r.t, time.Now().Before(end), "%s: %s did not come in %v", c.l, what, limit)
	}
}

// popAll pops what was sent under a kind, all n of it.
func (c *popClient) popAll(topic, group, kind string, n int, invisible time.Duration, order bool) (out []popped) {
	c.r.t.Helper()
	c.send(topic, kind, n)
	c.until(20*time.Second, kind, func() bool {
		out = append(out, c.pop(topic, group, n-len(out), invisible, order)...)
		return len(out) == n
	})
	for i, m := range out {
		require.Equal(c.r.t, fmt.Sprintf("%d-%s-%d", c.l.number, kind, i), m.name, "%s", c.l)
		require.Zero(c.r.t, m.reconsume)
	}
	return out
}

// write leaves messages of every kind: back come again in the next life, held are receipts that it gets.
func (c *popClient) write() (back []string, held []popped) {
	c.r.t.Helper()
	soon := c.popAll(topicPop, groupPop, "soon", 6, popSoon, false)
	for i, m := range soon {
		if i%2 == 0 {
			c.ack(topicPop, groupPop, m)
		} else {
			back = append(back, m.name)
		}
	}
	hidden := c.popAll(topicPop, groupPop, "hidden", 8, popHidden, false)
	for i, m := range hidden {
		switch i % 4 {
		case 0:
			c.ack(topicPop, groupPop, m)
		case 1: // not for so long any more
			c.change(groupPop, m, popSoon)
			back = append(back, m.name)
		case 2: // changed, then acknowledged by the new receipt
			c.ack(topicPop, groupPop, c.change(groupPop, m, popSoon))
		case 3:
			held = append(held, m)
		}
	}
	return back, held
}

// awaitBack waits until all that was left comes again, once each, and nothing else does.
func (c *popClient) awaitBack(want []string) {
	c.r.t.Helper()
	var got []string
	c.until(popBack, fmt.Sprint(want), func() bool {
		for _, m := range c.pop(topicPop, groupPop, 32, popHidden, false) {
			require.EqualValues(c.r.t, 1, m.reconsume, "%s: %s", c.l, m.name)
			got = append(got, m.name)
			c.ack(topicPop, groupPop, m)
		}
		return len(got) >= len(want)
	})
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(c.r.t, want, got, "%s", c.l)
}

// writeOrder leaves an orderly pop in its middle: the first is acknowledged, the last too, the second comes later.
func (c *popClient) writeOrder() (next []string) {
	c.r.t.Helper()
	got := c.popAll(topicFifo, groupFifo, "fifo", fifoCount, popSoon, true)
	c.ack(topicFifo, groupFifo, got[0])
	c.ack(topicFifo, groupFifo, got[fifoCount-1])
	c.change(groupFifo, got[1], popSoon)
	require.Empty(c.r.t, c.pop(topicFifo, groupFifo, 32, popSoon, true), "%s: the queue is blocked", c.l)
	for _, m := range got[1:] {
		next = append(next, m.name)
	}
	return next
}

// awaitOrder waits for what the life before left in the orderly queue.
func (c *popClient) awaitOrder(want []string) {
	c.r.t.Helper()
	if want == nil {
		return
	}
	var got []popped
	c.until(popBack, fmt.Sprint(want), func() bool {
		got = c.pop(topicFifo, groupFifo, 32, popHidden, true)
		return len(got) > 0
	})
	var names []string
	for _, m := range got {
		names = append(names, m.name)
		c.ack(topicFifo, groupFifo, m)
	}
	require.Equal(c.r.t, want, names, "%s", c.l)
}

// awaitOffsets waits until the offsets on the disk are those that the broker has: what they lag behind may come twice.
func (c *popClient) awaitOffsets() {
	c.r.t.Helper()
	revive := codec.ReviveTopic(c.r.d.props["brokerClusterName"])
	retry := codec.PopRetryTopicV1(topicPop, groupPop)
	require.True(c.r.t, poll(30*time.Second, func() bool {
		var file body.ConsumerOffsetSerializeWrapper
		c.r.decodeConfig("consumerOffset.json", &file)
		same := func(group, topic string, id int32) bool {
			at, err := c.l.client.ConsumerOffset(c.l.ctx, c.l.addr, group, topic, id)
			got, ok := file.OffsetTable[topic+"@"+group][id]
			return err != nil && !ok || err == nil && ok && got == at
		}
		for id := range int32(8) {
			if !same(codec.ReviveGroup, revive, id) {
				return false
			}
		}
		return same(groupPop, topicPop, 0) && same(groupPop, retry, 0) && same(groupFifo, topicFifo, 0) && c.orderWritten()
	}), "%s: offsets on the disk", c.l)
}

// orderWritten tells that the orderly pop of this life is on the disk, with its two acks.
func (c *popClient) orderWritten() bool {
	var file struct {
		Table map[string]map[int32]*struct {
			Bits    int64           `json:"cm"`
			Visible map[int64]int64 `json:"ot"`
		} `json:"table"`
	}
	c.r.decodeConfig("consumerOrderInfo.json", &file)
	o := file.Table[topicFifo+"@"+groupFifo][0]
	return o != nil && o.Bits == 1|1<<(fifoCount-1) && len(o.Visible) == 1
}
