package member

import (
	"maps"
	"slices"
	"sync"

	"skylark/codec"
)

// Change is what has to be done after the group changed.
type Change struct {
	MinID   int64
	MinAddr string
	// Acting tells that this broker acts as master from now on, or, if false, that it does not (any more).
	Acting bool
	// MasterGone: the master left; what hangs on it ends.
	MasterGone bool
	// MasterBack is the address of a master that came, "" if none did; HAAddr its HA address if it was said.
	MasterBack, HAAddr string
}

// Group is what a broker knows of the brokers with its name. Its methods may be called from any goroutine.
type Group struct {
	id int64 // this broker's

	mu    sync.Mutex
	known bool
	min   int64
	addr  string
	alive int
}

// New makes the group of the broker with an id; nothing is known of the others.
func New(id int64) *Group { return &Group{id: id} }

// Seen takes the addresses of the members by id, as the name server says (901). ok is false if nothing has to be done: the
// smallest id is the one of before, or the answer is empty, which says nothing.
func (g *Group) Seen(addrs map[int64]string) (c Change, ok bool) {
	if len(addrs) == 0 {
		return c, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alive = len(addrs)
	if _, listed := addrs[g.id]; !listed {
		g.alive++ // we are
	}
	minID := slices.Min(slices.Collect(maps.Keys(addrs)))
	return g.set(minID, addrs[minID], "")
}

// Told takes a notice of the name server (905): the smallest id is another one now. haAddr is the HA address of a master.
func (g *Group) Told(minID int64, addr, haAddr string) (Change, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.set(minID, addr, haAddr)
}

// set is called with mu held.
func (g *Group) set(minID int64, addr, haAddr string) (c Change, ok bool) {
	if g.known && g.min == minID && g.addr == addr || addr == "" {
		return c, false
	}
	hadMaster, was := g.known && g.min == codec.MasterID, g.addr
	g.known, g.min, g.addr = true, minID, addr
	c = Change{MinID: minID, MinAddr: addr, Acting: minID == g.id && g.id != codec.MasterID}
	c.MasterGone = hadMaster && (minID != codec.MasterID || was != addr)
	if minID == codec.MasterID && g.id != codec.MasterID {
		c.MasterBack, c.HAAddr = addr, haAddr
	}
	return c, true
}

// Alive is how many members there are, this broker among them; 0 while nobody has said.
func (g *Group) Alive() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.alive
}

// Others are the ids of an answer of the name server but this broker's, sorted.
func (g *Group) Others(addrs map[int64]string) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(addrs)), func(id int64) bool { return id == g.id })
}
