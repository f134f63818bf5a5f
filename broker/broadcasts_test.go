package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/broker/broadcast"
	"skylark/codec"
	"skylark/codec/body"
)

// A broadcasting consumer gets what is sent between its first heartbeat and its first look at the end of the queues, a
// second later; nothing twice, and nothing else begins earlier than it asks for.
func TestBroadcastBegin(t *testing.T) {
	f := func(t *testing.T, conf string, alter func(cd *body.ConsumerData), pulledBefore bool, want ...string) {
		t.Helper()
		b := startBroker(t, conf)
		b.createTopic("T", 1, 6)
		b.mustSend("T", 0, "", "before")
		b.waitQueue("T", 0, 1)
		c := b.dial()
		if pulledBefore {
			c.do(pullRequest("B", "T", 0, 1, 0))
		}
		cd := consumer(t, "B", 1, "T *")
		cd.MessageModel = body.Broadcasting
		if alter != nil {
			alter(cd)
		}
		c.beat("c1", cd)
		b.mustSend("T", 0, "", "after")
		b.waitQueue("T", 0, 2)
		at := b.store.MaxOffset("T", 0) // as the client asks
		get := func(at codec.QueueOffset) (*codec.Command, codec.PullMessageResponseHeader) {
			return c.pulled(c.do(pullRequest("B", "T", 0, at, 0)))
		}
		answer, h := get(at)
		require.Equal(t, want, bodies(t, answer))
		require.EqualValues(t, 2, h.NextBeginOffset)
		answer, _ = get(2)
		require.Empty(t, bodies(t, answer), "once")
		c.beat("c1", cd) // the next heartbeats change nothing
		b.mustSend("T", 0, "", "more")
		b.waitQueue("T", 0, 3)
		answer, _ = get(3)
		require.Empty(t, bodies(t, answer))
		answer, _ = get(2)
		require.Equal(t, []string{"more"}, bodies(t, answer))
		for range broadcast.MaxEarly {
			c.pull("T", 0, 0)
		}
		require.Nil(t, c.stateOn(b).begin.Load(), "pulls cost nothing more")
	}
	f(t, "", nil, false, "after")
	f(t, "pullOnLoop=false\n", nil, false, "after")
	f(t, "", nil, true) // then it has asked for the end already
	f(t, "", func(cd *body.ConsumerData) { cd.MessageModel = body.Clustering }, false)
	f(t, "", func(cd *body.ConsumerData) { cd.ConsumeType = body.ConsumeActively }, false)
	f(t, "", func(cd *body.ConsumerData) { cd.ConsumeFromWhere = body.FromFirstOffset }, false)
}

// A consumer that pulls from one queue before its first heartbeat has arrived, as Java's 4.9 does when another heartbeat is
// under way, still begins at the end of the others.
func TestBroadcastBeginOfOtherQueues(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 2, 6)
	c := b.dial()
	c.do(pullRequest("B", "T", 1, 0, 0))
	cd := consumer(t, "B", 1, "T *")
	cd.MessageModel = body.Broadcasting
	c.beat("c1", cd)
	for id := range 2 {
		b.mustSend("T", id, "", "after")
		b.waitQueue("T", id, 1)
	}
	answer, _ := c.pulled(c.do(pullRequest("B", "T", 0, 1, 0)))
	require.Equal(t, []string{"after"}, bodies(t, answer))
	answer, _ = c.pulled(c.do(pullRequest("B", "T", 1, 1, 0)))
	require.Empty(t, bodies(t, answer), "it knows where it is there")
}

// A pull that is refused is not the first one: clients raise their subscription at the first rebalance, are told that it is
// not the latest until their next heartbeat, and ask again for the same offset.
func TestBroadcastBeginAfterRefusal(t *testing.T) {
	b := startBroker(t, "")
	b.createTopic("T", 1, 6)
	c := b.dial()
	cd := consumer(t, "B", 1, "T *")
	cd.MessageModel = body.Broadcasting
	c.beat("c1", cd)
	b.mustSend("T", 0, "", "after")
	b.waitQueue("T", 0, 1)
	r := pullWith("B", "T", 0, 1, func(h *codec.PullMessageHeader) {
		h.SysFlag &^= codec.PullFlagSubscription // by what the heartbeat said, which is older
		h.SubVersion = 1 << 60
	})
	require.Equal(t, codec.RespSubscriptionNotLatest, c.do(r).Code)
	answer, _ := c.pulled(c.do(pullRequest("B", "T", 0, 1, 0)))
	require.Equal(t, []string{"after"}, bodies(t, answer))
}

// stateOn is what the broker keeps with a peer's connection.
func (p *peer) stateOn(b *testBroker) *connState {
	for _, cl := range b.consumers.Get("B").Clients() {
		if st, ok := cl.Conn.Context().(*connState); ok && cl.Conn.RemoteAddr().String() == p.LocalAddr().String() {
			return st
		}
	}
	require.FailNow(p.t, "no such connection")
	return nil
}
