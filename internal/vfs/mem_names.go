package vfs

import (
	"maps"
	"slices"
	"time"
)

// memDir is the content of a directory. It is guarded by MemFS.mu.
type memDir struct {
	entries map[string]*memNode // what everybody sees
	mtime   time.Time
	nameState
}

// nameState is what the disk knows of a directory and what it has not been told yet.
type nameState struct {
	durable map[string]*memNode
	pending []*nameOp // in the order they happened
}

// nameOp is a create, remove or rename. A rename between two directories stands in both pending lists, and
// takes place in both or in none.
type nameOp struct {
	seq     uint64 // the order over all directories
	effects []nameEffect
}

// nameEffect sets an entry of a directory; a nil node takes it away.
type nameEffect struct {
	dir  *memNode
	name string
	node *memNode
}

func newMemDir(mtime time.Time) *memDir {
	return &memDir{
		entries:   make(map[string]*memNode),
		mtime:     mtime,
		nameState: nameState{durable: make(map[string]*memNode)},
	}
}

// names returns the sorted entries.
func (d *memDir) names() []string { return slices.Sorted(maps.Keys(d.entries)) }

// apply makes one operation visible and pending. The caller holds mu.
func (m *MemFS) apply(effects ...nameEffect) {
	m.nextSeq++
	op := &nameOp{seq: m.nextSeq, effects: effects}
	now := m.opts.Now()
	for i, e := range effects {
		setEntry(e.dir.dir.entries, e)
		if e.node != nil {
			e.node.parent, e.node.name = e.dir, e.name
		}
		e.dir.dir.mtime = now
		if i == 0 || e.dir != effects[0].dir {
			e.dir.dir.pending = append(e.dir.dir.pending, op)
		}
	}
}

func setEntry(entries map[string]*memNode, e nameEffect) {
	if e.node == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.node
	}
}

// liveNames is the stateOf of a running MemFS.
func liveNames(dir *memNode) *nameState { return &dir.dir.nameState }

// persistNames makes the pending operations of dir durable up to and including sequence upTo, in order.
// Where one of them is a rename from or to another directory, it takes along what that directory did before
// it.
func persistNames(stateOf func(*memNode) *nameState, dir *memNode, upTo uint64) {
	state := stateOf(dir)
	for len(state.pending) > 0 && state.pending[0].seq <= upTo {
		op := state.pending[0]
		state.pending = state.pending[1:]
		for _, e := range op.effects {
			if e.dir == dir {
				setEntry(state.durable, e)
			} else {
				persistNames(stateOf, e.dir, op.seq)
			}
		}
	}
}

// persistNameOf makes the path of a node durable, as a journal does (MemOptions.RelaxedNames). The caller
// holds mu.
func (m *MemFS) persistNameOf(node *memNode) {
	for ; node.parent != nil; node = node.parent {
		pending := node.parent.dir.pending
		for i := len(pending) - 1; i >= 0; i-- {
			if pending[i].links(node.parent, node) {
				persistNames(liveNames, node.parent, pending[i].seq)
				break
			}
		}
	}
}

// links tells whether the operation gives node a name in dir.
func (op *nameOp) links(dir, node *memNode) bool {
	return slices.ContainsFunc(op.effects, func(e nameEffect) bool { return e.dir == dir && e.node == node })
}
