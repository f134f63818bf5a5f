package broker

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/broker/broadcast"
	"skylark/broker/conn"
	"skylark/broker/stats"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor"
)

var (
	// errSilent closes the connection of a client that sent no heartbeat for channelExpiredTimeout.
	errSilent = errors.New("broker: no heartbeat for too long")
	// errGhost closes the connection of a client that goes on sending heartbeats on another one.
	errGhost = errors.New("broker: its client has another connection")
	// errNotReady refuses a connection that comes in while the broker still starts.
	errNotReady = errors.New("broker: not ready yet")
)

// connState is what the broker keeps with a connection.
type connState struct {
	closed atomic.Bool
	// begin is where broadcasting consumers that are new are served first; nil once nobody can be new any more.
	begin atomic.Pointer[broadcast.Begin]
}

func newConnState() *connState {
	st := &connState{}
	st.begin.Store(&broadcast.Begin{})
	return st
}

// activity counts what happens to connections (Java CHANNEL_ACTIVITY).
type activity struct{ connect, close, idle, exception *stats.Counter }

func newActivity(m *stats.Manager) activity {
	of := func(key string) *stats.Counter { return m.Counter(stats.ChannelActivity, key) }
	return activity{of("CONNECT"), of("CLOSE"), of("IDLE"), of("EXCEPTION")}
}

func (b *Broker) connOpened(c reactor.Conn) error {
	if !b.ready.Load() {
		return errNotReady
	}
	c.SetContext(newConnState())
	b.activity.connect.Add(1)
	return nil
}

// connClosed forgets all that hung on a connection.
func (b *Broker) connClosed(c reactor.Conn, reason error) {
	if st, ok := c.Context().(*connState); ok {
		st.closed.Store(true) // before the tables are looked at, see forgetIfClosed
	}
	switch {
	case reason == nil, errors.Is(reason, reactor.ErrStopped):
		b.activity.close.Add(1)
	case errors.Is(reason, reactor.ErrIdle):
		b.activity.idle.Add(1)
	default:
		b.activity.exception.Add(1)
	}
	b.forget(c)
}

func (b *Broker) forget(c reactor.Conn) {
	b.hold.Drop(c.ID())
	b.pop.Polling().Drop(c.ID())
	b.popNotices.Drop(c.ID())
	b.producers.ConnClosed(c)
	b.releaseLocks(c)
	b.consumers.ConnClosed(c, b.wantsNotice)
	b.requesters.Drop(c.ID())
}

// endGhost ends a connection that its client does not use any more (conn.GhostBeats).
func (b *Broker) endGhost(c reactor.Conn) {
	c.Close(errGhost)
	b.forget(c)
}

// forgetIfClosed is called after something was entered for a connection by a pool: the connection may have
// ended since the request came, and then nobody else would take it out again.
func (b *Broker) forgetIfClosed(c reactor.Conn) {
	if st, ok := c.Context().(*connState); ok && st.closed.Load() {
		b.forget(c)
	}
}

// subscribed hands the SQL92 subscriptions of a heartbeat to their table.
func (b *Broker) subscribed(groupName string, subs []*conn.Subscription) {
	list := make([]*body.SubscriptionData, 0, len(subs))
	for _, s := range subs {
		list = append(list, &s.Data)
	}
	if err := b.filters.Register(groupName, list); err != nil {
		b.log.Error("SQL92 subscription not registered", "group", groupName, "error", err)
	}
}

// wantsNotice tells whether a group's members are told about changes among them.
func (b *Broker) wantsNotice(name string) bool {
	g := b.groups.Get(name)
	return g == nil || g.Config.NotifyConsumerIDsChangedEnable
}

// noticeInterval is how often notices go out with realTimeNotifyConsumerChange=false (Java
// DefaultConsumerIdsChangeListener: 15 s).
const noticeInterval = 15 * time.Second

// notices are the groups whose members wait to be told of a change.
type notices struct {
	mu     sync.Mutex
	groups map[string][]reactor.Conn
}

// membersChanged has the members of a group told, now or with the others.
func (b *Broker) membersChanged(groupName string, members []reactor.Conn) {
	c := b.cfg.broker
	switch {
	case !c.NotifyConsumerIdsChangedEnable:
	case c.RealTimeNotifyConsumerChange:
		b.notify(groupName, members)
	default:
		b.notices.mu.Lock()
		defer b.notices.mu.Unlock()
		if b.notices.groups == nil {
			b.notices.groups = map[string][]reactor.Conn{}
		}
		b.notices.groups[groupName] = members
	}
}

func (b *Broker) sendNotices() {
	b.notices.mu.Lock()
	groups := b.notices.groups
	b.notices.groups = nil
	b.notices.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		b.notify(name, groups[name])
	}
}

// notify sends NOTIFY_CONSUMER_IDS_CHANGED (40) to the members of a group.
func (b *Broker) notify(groupName string, members []reactor.Conn) {
	for _, c := range members {
		req := codec.NewRequest(codec.ReqNotifyConsumerIDsChanged)
		req.Set("consumerGroup", groupName)
		if err := b.server.Oneway(c, req); err != nil {
			b.log.Debug("member not told of a change", "group", groupName, "remote", c.RemoteAddr(), "error", err)
		}
	}
}
