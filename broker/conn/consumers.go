package conn

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor"
)

// Client is one client on one connection.
type Client struct {
	Conn       reactor.Conn
	ID         string
	Language   codec.LanguageCode
	Version    int
	LastUpdate int64 // ms, of the last heartbeat

	// missed counts the heartbeats of the same client id on other connections since the last one on this.
	missed int
	// twice: it is known that another connection of this id is alive too.
	twice bool
}

// Consumers is a consumer group that has members (Java ConsumerGroupInfo).
type Consumers struct {
	Group string
	subs  atomic.Pointer[map[string]*Subscription]
	model atomic.Pointer[body.MessageModel]

	mu          sync.Mutex
	clients     map[uint64]*Client
	ids         map[string]int        // client id → connections
	signatures  map[string]uint64     // client id → what it subscribes, as a key of spoken
	spoken      map[uint64]*signature // more than one: the members do not agree
	consumeType body.ConsumeType
	from        body.ConsumeFromWhere
	fingerprint int32 // of the last V2 heartbeat, 0 = none
	conflict    string
	said        string // the conflict that was reported last, "" if none or it is over
	saidAt      int64  // ms
}

func newConsumers(group string) *Consumers {
	c := &Consumers{Group: group, clients: map[uint64]*Client{}, ids: map[string]int{},
		signatures: map[string]uint64{}, spoken: map[uint64]*signature{}}
	c.subs.Store(&map[string]*Subscription{})
	m := body.Clustering
	c.model.Store(&m)
	return c
}

// Subscription is the group's for a topic, nil when it has none. No lock, no allocation.
func (c *Consumers) Subscription(topic []byte) *Subscription { return (*c.subs.Load())[string(topic)] }

// Subscriptions are all of the group's by topic; not to be changed.
func (c *Consumers) Subscriptions() map[string]*Subscription { return *c.subs.Load() }

// Broadcasting tells that every member gets every message.
func (c *Consumers) Broadcasting() bool { return *c.model.Load() == body.Broadcasting }

// Model is the group's message model.
func (c *Consumers) Model() body.MessageModel { return *c.model.Load() }

// Type and From are what the last heartbeat said.
func (c *Consumers) Type() (body.ConsumeType, body.ConsumeFromWhere) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.consumeType, c.from
}

// Pushes tells that the group's last heartbeat came from a push consumer.
func (c *Consumers) Pushes() bool {
	typ, _ := c.Type()
	return typ != body.ConsumeActively
}

// Has tells whether a connection is a member.
func (c *Consumers) Has(conn reactor.Conn) bool { return c.has(conn.ID()) }

// Clients are the members, by client id.
func (c *Consumers) Clients() []*Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Collect(maps.Values(c.clients))
	slices.SortFunc(out, func(a, b *Client) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// IDs are the members' client ids, sorted and without doubles.
func (c *Consumers) IDs() []string {
	clients := c.Clients()
	out := make([]string, 0, len(clients))
	for _, cl := range clients {
		out = append(out, cl.ID)
	}
	return slices.Compact(out)
}

// Client finds a member by its id; of several connections the one that was heard from last.
func (c *Consumers) Client(id string) *Client {
	var found *Client
	for _, cl := range c.Clients() {
		if cl.ID == id && (found == nil || cl.LastUpdate > found.LastUpdate) {
			found = cl
		}
	}
	return found
}

// updateClient enters or refreshes a member; true when it is new. c.mu is held, as below.
func (c *Consumers) updateClient(cl Client) (changed bool) {
	id := cl.Conn.ID()
	old := c.clients[id]
	c.clients[id] = &cl
	switch {
	case old == nil:
	case old.ID == cl.ID:
		cl.missed, cl.twice = old.missed, old.twice
		return false
	default:
		c.forgetID(old.ID)
	}
	c.ids[cl.ID]++
	return true
}

// forgetID is called when a connection does not speak for a client any more.
func (c *Consumers) forgetID(clientID string) {
	if c.ids[clientID]--; c.ids[clientID] <= 0 { // else another connection does
		delete(c.ids, clientID)
		c.forgetSignature(clientID)
	}
}

// removeClient takes a connection out; false when it is no member.
func (c *Consumers) removeClient(id uint64) bool {
	cl := c.clients[id]
	if cl == nil {
		return false
	}
	delete(c.clients, id)
	c.forgetID(cl.ID)
	return true
}

// updateSubscriptions takes the group's subscriptions from a heartbeat: a newer version replaces, what is not
// named goes. True when topics came or went.
func (c *Consumers) updateSubscriptions(list []*Subscription) (changed bool) {
	old := *c.subs.Load()
	next := make(map[string]*Subscription, len(list))
	differ := false
	for _, s := range list {
		have := old[s.Data.Topic]
		switch {
		case have == nil:
			changed = true
			next[s.Data.Topic] = s
		case s.Data.SubVersion > have.Data.SubVersion:
			differ = true
			next[s.Data.Topic] = s
		default:
			next[s.Data.Topic] = have
		}
	}
	for t := range old {
		if next[t] == nil {
			changed = true
		}
	}
	if changed || differ {
		c.subs.Store(&next)
	}
	return changed
}
