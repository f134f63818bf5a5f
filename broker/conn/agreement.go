package conn

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// WarnInterval is how often a group whose members disagree is reported at most.
const WarnInterval = time.Minute

// maxSignatureText bounds what is shown of a member's subscriptions.
const maxSignatureText = 200

// signature is a set of subscriptions that members have.
type signature struct {
	text    string
	clients int
}

var signatureSeed = maphash.MakeSeed()

// signatureText tells two members' subscriptions apart: topics and expressions, not versions.
func signatureText(list []*Subscription) string {
	parts := make([]string, 0, len(list))
	for _, s := range list {
		parts = append(parts, s.Data.Topic+" "+s.Data.ExpressionType+" "+s.Data.SubString)
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// noteSignature remembers what a member subscribes.
func (c *Consumers) noteSignature(clientID string, list []*Subscription) {
	text := signatureText(list)
	key := maphash.String(signatureSeed, text)
	if had, ok := c.signatures[clientID]; ok && had == key {
		return
	}
	c.forgetSignature(clientID)
	c.signatures[clientID] = key
	s := c.spoken[key]
	if s == nil {
		if len(text) > maxSignatureText {
			text = strings.ToValidUTF8(text[:maxSignatureText], "") + "…"
		}
		s = &signature{text: text}
		c.spoken[key] = s
	}
	s.clients++
	c.checkConflict()
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
	}
	c.checkConflict()
}

// checkConflict makes the text of the conflict from the first member by name of two different opinions.
func (c *Consumers) checkConflict() {
	c.conflict = ""
	if len(c.spoken) < 2 {
		return
	}
	ids := slices.Sorted(maps.Keys(c.signatures))
	first := c.signatures[ids[0]]
	for _, id := range ids[1:] {
		if key := c.signatures[id]; key != first {
			c.conflict = "clients " + ids[0] + " [" + c.spoken[first].text + "] and " + id + " [" + c.spoken[key].text + "]"
			return
		}
	}
}

// Conflict names two members that subscribe differently, "" when all agree.
func (c *Consumers) Conflict() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conflict
}

// report is what a heartbeat gives reason to say: a conflict that was not said yet, at most one in WarnInterval;
// or that the last one is over.
func (c *Consumers) report(now int64) (conflict string, over bool) {
	switch {
	case c.conflict == c.said:
	case c.conflict == "":
		c.said, over = "", true
	case c.said == "" && c.saidAt == 0, now-c.saidAt >= WarnInterval.Milliseconds():
		c.said, c.saidAt = c.conflict, now
		return c.conflict, false
	}
	return "", over
}

// Conflict is a group whose members subscribe differently.
type Conflict struct {
	Group string
	Text  string // names two of them and what they subscribe
}

// agreement counts what the manager has seen of it.
type agreement struct{ conflicts, ghosts, twice atomic.Int64 }

// Conflicts are the groups whose members disagree now, by name.
func (m *ConsumerManager) Conflicts() (out []Conflict) {
	for _, name := range m.Groups() {
		if c := m.Get(name); c != nil {
			if text := c.Conflict(); text != "" {
				out = append(out, Conflict{name, text})
			}
		}
	}
	return out
}

// ConflictCount is how many conflicts have been reported since the start.
func (m *ConsumerManager) ConflictCount() int64 { return m.seen.conflicts.Load() }
