package conn

import (
	"cmp"
	"hash/maphash"
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
	signatures  map[string]uint64     // client id → what it subscribes, as a key of spoken
	spoken      map[uint64]*signature // more than one: the members do not agree
	consumeType body.ConsumeType
	from        body.ConsumeFromWhere
	fingerprint int32 // of the last V2 heartbeat, 0 = none
	conflict    string
}

// signature is a set of subscriptions that members have.
type signature struct {
	text    string
	clients int
}

func newConsumers(group string) *Consumers {
	c := &Consumers{Group: group, clients: map[uint64]*Client{}, signatures: map[string]uint64{},
		spoken: map[uint64]*signature{}}
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

// Conflict names two members that subscribe differently, "" when all agree.
func (c *Consumers) Conflict() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conflict
}

// updateClient enters or refreshes a member; true when it is new. c.mu is held, as below.
func (c *Consumers) updateClient(cl Client) (changed bool) {
	id := cl.Conn.ID()
	old := c.clients[id]
	c.clients[id] = &cl
	if old != nil && old.ID != cl.ID {
		c.forgetSignature(old.ID)
	}
	return old == nil || old.ID != cl.ID
}

// removeClient takes a connection out; false when it is no member.
func (c *Consumers) removeClient(id uint64) bool {
	cl := c.clients[id]
	if cl == nil {
		return false
	}
	delete(c.clients, id)
	c.forgetSignature(cl.ID)
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

// signatureText tells two members' subscriptions apart: topics and expressions, not versions.
func signatureText(list []*Subscription) string {
	parts := make([]string, 0, len(list))
	for _, s := range list {
		parts = append(parts, s.Data.Topic+" "+s.Data.ExpressionType+" "+s.Data.SubString)
	}
	slices.SortFunc(parts, cmp.Compare)
	return strings.Join(parts, "; ")
}

var signatureSeed = maphash.MakeSeed()

// maxSignatureText bounds what is shown of a member's subscriptions.
const maxSignatureText = 200

// noteSignature remembers what a member subscribes. news is not empty when the members do not agree and that
// has changed: it names two of them.
func (c *Consumers) noteSignature(clientID string, list []*Subscription) (news string) {
	text := signatureText(list)
	key := maphash.String(signatureSeed, text)
	if had, ok := c.signatures[clientID]; ok && had == key {
		return ""
	}
	c.forgetSignature(clientID)
	c.signatures[clientID] = key
	s := c.spoken[key]
	if s == nil {
		if len(text) > maxSignatureText {
			text = text[:maxSignatureText] + "…"
		}
		s = &signature{text: text}
		c.spoken[key] = s
	}
	s.clients++
	return c.checkConflict()
}

func (c *Consumers) forgetSignature(clientID string) {
	key, ok := c.signatures[clientID]
	if !ok {
		return
	}
	delete(c.signatures, clientID)
	if s := c.spoken[key]; s.clients > 1 {
		s.clients--
	} else {
		delete(c.spoken, key)
		c.checkConflict()
	}
}

// checkConflict makes the text of the conflict from the first member by name of two different opinions; it is
// returned if it is another one than before.
func (c *Consumers) checkConflict() (news string) {
	was := c.conflict
	c.conflict = ""
	if len(c.spoken) > 1 {
		ids := slices.Sorted(maps.Keys(c.signatures))
		first := c.signatures[ids[0]]
		for _, id := range ids[1:] {
			if key := c.signatures[id]; key != first {
				c.conflict = "clients " + ids[0] + " [" + c.spoken[first].text + "] and " + id + " [" +
					c.spoken[key].text + "]"
				break
			}
		}
	}
	if c.conflict != was {
		return c.conflict
	}
	return ""
}
