package conn

import (
	"cmp"
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
}

// Consumers is a consumer group that has members (Java ConsumerGroupInfo).
type Consumers struct {
	Group string
	subs  atomic.Pointer[map[string]*Subscription]
	model atomic.Pointer[body.MessageModel]

	mu          sync.Mutex
	clients     map[uint64]*Client
	signatures  map[string]string // client id → what it subscribes, for the conflict report
	consumeType body.ConsumeType
	from        body.ConsumeFromWhere
	conflict    string
}

func newConsumers(group string) *Consumers {
	c := &Consumers{Group: group, clients: map[uint64]*Client{}, signatures: map[string]string{}}
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

// Conflict names members that subscribe differently, "" when all agree.
func (c *Consumers) Conflict() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conflict
}

// updateClient enters or refreshes a member; true when it is new.
func (c *Consumers) updateClient(cl Client) (changed bool) {
	id := cl.Conn.ID()
	old := c.clients[id]
	c.clients[id] = &cl
	return old == nil || old.ID != cl.ID
}

// updateSubscriptions takes the group's subscriptions from a heartbeat: a newer version replaces, what is not named
// goes. True when topics came or went.
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

// signature tells two members' subscriptions apart: topics and expressions, not versions.
func signature(list []*Subscription) string {
	parts := make([]string, 0, len(list))
	for _, s := range list {
		parts = append(parts, s.Data.Topic+" "+s.Data.ExpressionType+" "+s.Data.SubString)
	}
	slices.SortFunc(parts, cmp.Compare)
	return strings.Join(parts, "; ")
}

// checkConflict compares the member's subscription with the others'. The text is not empty when it is news.
func (c *Consumers) checkConflict(clientID string, list []*Subscription) (news string) {
	c.signatures[clientID] = signature(list)
	live := map[string]bool{}
	for _, cl := range c.clients {
		live[cl.ID] = true
	}
	was := c.conflict
	c.conflict = ""
	ids := slices.Sorted(maps.Keys(c.signatures))
	for _, id := range ids {
		if !live[id] {
			delete(c.signatures, id)
			continue
		}
		if mine := c.signatures[clientID]; c.signatures[id] != mine && c.conflict == "" {
			a, b := clientID, id
			if a > b {
				a, b = b, a
			}
			c.conflict = "clients " + a + " [" + c.signatures[a] + "] and " + b + " [" + c.signatures[b] + "]"
		}
	}
	if c.conflict != was {
		return c.conflict
	}
	return ""
}
