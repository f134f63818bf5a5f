package conn

import (
	"time"

	"skylark/reactor"
)

// A client that has come back on another connection leaves a member behind if the end of the old connection was
// never seen: a ghost that is asked to consume and does not. It is one when its client id has sent GhostBeats
// heartbeats on other connections and nothing on this one for GhostAge. (Java keeps it for channelExpiredTimeout,
// 120 s.) Two processes that share a client id by mistake both go on sending: they stay, and it is said once.
const (
	GhostBeats = 3
	GhostAge   = time.Minute
)

// noteBeat is called for a heartbeat of a member whose client id is on several connections; c.mu is held. It
// returns the ghosts among these, and whether another one turns out to be alive for the first time.
func (c *Consumers) noteBeat(cl *Client) (ghosts []*Client, twice bool) {
	if c.ids[cl.ID] < 2 {
		cl.missed, cl.twice = 0, false
		return nil, false
	}
	for _, other := range c.clients {
		if other.ID != cl.ID || other == cl {
			continue
		}
		other.missed++
		if other.missed >= GhostBeats && cl.LastUpdate-other.LastUpdate >= GhostAge.Milliseconds() {
			ghosts = append(ghosts, other)
		} else if cl.missed > 0 && !cl.twice { // it spoke, the other spoke, it speaks again
			twice, cl.twice, other.twice = true, true, true
		}
	}
	cl.missed = 0
	return ghosts, twice
}

// dropGhosts has the broker end them.
func (m *ConsumerManager) dropGhosts(group string, cl *Client, ghosts []*Client) {
	for _, g := range ghosts {
		m.seen.ghosts.Add(1)
		m.log.Warn("member is a ghost: its client sends heartbeats on another connection", "group", group, "clientId",
			g.ID, "remote", g.Conn.RemoteAddr(), "other", cl.Conn.RemoteAddr(), "silentMillis", cl.LastUpdate-g.LastUpdate)
		m.on.Ghost(g.Conn)
	}
}

// GhostCount is how many members were ended because their client was seen elsewhere.
func (m *ConsumerManager) GhostCount() int64 { return m.seen.ghosts.Load() }

// DoubleCount is how many times two living connections were found to have the same client id in a group.
func (m *ConsumerManager) DoubleCount() int64 { return m.seen.twice.Load() }

// Elsewhere finds a member's connection that is not the given one, nil when it has none.
func (m *ConsumerManager) Elsewhere(group, clientID string, conn uint64) reactor.Conn {
	c := m.Get(group)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[clientID] == 0 {
		return nil
	}
	var found *Client
	for id, cl := range c.clients {
		if cl.ID == clientID && id != conn && (found == nil || cl.LastUpdate > found.LastUpdate) {
			found = cl
		}
	}
	if found == nil {
		return nil
	}
	return found.Conn
}
