package offset

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
)

// groupTable are the offsets of all groups: copy-on-write in parts, so that a new group, which an event loop may bring,
// copies a 256th of the table.
type groupTable struct {
	parts [256]atomic.Pointer[map[string]*topics]
}

var groupSeed = maphash.MakeSeed()

func (g *groupTable) part(group string) *atomic.Pointer[map[string]*topics] {
	return &g.parts[maphash.String(groupSeed, group)%uint64(len(g.parts))]
}

// get is the offsets of a group, nil without any.
func (g *groupTable) get(group string) *topics {
	if p := g.part(group).Load(); p != nil {
		return (*p)[group]
	}
	return nil
}

// set enters a group, or with nil takes it away. One at a time.
func (g *groupTable) set(group string, t *topics) {
	part := g.part(group)
	next := map[string]*topics{}
	if p := part.Load(); p != nil {
		next = maps.Clone(*p)
	}
	if t == nil {
		delete(next, group)
	} else {
		next[group] = t
	}
	part.Store(&next)
}

// load replaces everything.
func (g *groupTable) load(groups map[string]*topics) {
	var parts [256]map[string]*topics
	for group, t := range groups {
		i := maphash.String(groupSeed, group) % uint64(len(parts))
		if parts[i] == nil {
			parts[i] = map[string]*topics{}
		}
		parts[i][group] = t
	}
	for i := range parts {
		if parts[i] == nil {
			parts[i] = map[string]*topics{}
		}
		g.parts[i].Store(&parts[i])
	}
}

// all are the groups as they are when their part is looked at.
func (g *groupTable) all() iter.Seq2[string, *topics] {
	return func(yield func(string, *topics) bool) {
		for i := range g.parts {
			p := g.parts[i].Load()
			if p == nil {
				continue
			}
			for group, t := range *p {
				if !yield(group, t) {
					return
				}
			}
		}
	}
}
