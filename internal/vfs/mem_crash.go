package vfs

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// sectorSize is what a disk writes whole; a page caught in flight is torn at this grain.
const sectorSize = 512

// loss is how much of the unsynced state one crash takes. The two extremes are drawn often, because most
// mistakes show at one of them.
type loss int

const (
	loseAll  loss = iota // the cache had written nothing back
	loseNone             // the cache had just written everything back
	loseSome             // each page, size and directory draws for itself
)

// CrashClone returns a new MemFS as the disk could look if the power went now. It holds
//
//   - everything that was synced;
//   - of each directory, a random prefix of the operations since its last SyncDir (a rename between two
//     directories happens in both or in neither, and takes along what came before it in each);
//   - of each file, a random subset of the pages that differ from the durable image, some of them torn at
//     512 bytes; a size between the durable and the volatile one; a pending truncation done or not.
//
// The same seed and the same state give the same clone. Locks are free in the clone, limits and options are
// kept, and nothing is shared with the original, which may go on.
//
// The caller quiesces the store first: no store into a mapping may run meanwhile, and what the storing
// goroutines did must happen before this call (they have returned from a lock, channel or WaitGroup).
// Without that CrashClone still gives a state that a disk could show, in which each page holds what it held
// at some instant during the call, and the race detector stays silent; but the clone is then not a function
// of the seed.
func (m *MemFS) CrashClone(seed uint64) *MemFS {
	rng := rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))
	c := crash{rng: rng, loss: loseSome}
	if pick := rng.IntN(5); pick < int(loseSome) {
		c.loss = loss(pick)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clone(&c)
}

// CloneAll returns a new MemFS with everything that is visible now, all of it durable: what a clean
// shutdown leaves. The rule of CrashClone about stores into mappings holds.
func (m *MemFS) CloneAll() *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clone(&crash{loss: loseNone})
}

// crash is one power cut.
type crash struct {
	rng  *rand.Rand // nil unless loseSome
	loss loss
}

func (m *MemFS) clone(c *crash) *MemFS {
	clone := NewMemWith(m.opts)
	clone.space.limit = m.space.limitBytes()
	if m.usage != nil {
		usage := *m.usage
		clone.usage = &usage
	}
	states := c.names(m.root)
	clone.root.dir.mtime = m.root.dir.mtime
	clone.copyDir(c, clone.root, m.root, states)
	return clone
}

// names decides which pending operations of which directories took place.
func (c *crash) names(root *memNode) map[*memNode]*nameState {
	states := make(map[*memNode]*nameState)
	collectDirs(root, states)
	dirs := slices.SortedFunc(maps.Keys(states), func(a, b *memNode) int { return cmp.Compare(a.id, b.id) })
	// All are drawn before anything is applied, so that coupled renames do not shift the draws.
	cuts := make([]uint64, len(dirs))
	for i, dir := range dirs {
		cuts[i] = c.cut(states[dir].pending)
	}
	stateOf := func(dir *memNode) *nameState { return states[dir] }
	for i, dir := range dirs {
		persistNames(stateOf, dir, cuts[i])
	}
	return states
}

// collectDirs finds every directory that the disk knows of, might know of, or whose pending operations
// involve.
func collectDirs(dir *memNode, states map[*memNode]*nameState) {
	if states[dir] != nil {
		return
	}
	live := &dir.dir.nameState
	states[dir] = &nameState{durable: maps.Clone(live.durable), pending: slices.Clone(live.pending)}
	for _, node := range live.durable {
		if node.isDir() {
			collectDirs(node, states)
		}
	}
	for _, op := range live.pending {
		for _, e := range op.effects {
			collectDirs(e.dir, states)
			if e.node != nil && e.node.isDir() {
				collectDirs(e.node, states)
			}
		}
	}
}

// cut draws the sequence up to which the pending operations of a directory took place.
func (c *crash) cut(pending []*nameOp) uint64 {
	switch c.loss {
	case loseAll:
		return 0
	case loseNone:
		return math.MaxUint64
	}
	count := c.rng.IntN(len(pending) + 1)
	if count == 0 {
		return 0
	}
	return pending[count-1].seq
}

// copyDir fills an empty directory of the clone.
func (m *MemFS) copyDir(c *crash, to, from *memNode, states map[*memNode]*nameState) {
	to.dir.mtime = from.dir.mtime
	durable := states[from].durable
	for _, name := range slices.Sorted(maps.Keys(durable)) {
		node := durable[name]
		child := m.newNode(node.isDir())
		child.parent, child.name = to, name
		to.dir.entries[name], to.dir.durable[name] = child, child
		if node.isDir() {
			m.copyDir(c, child, node, states)
			continue
		}
		node.data.copyTo(child.data, c)
	}
}

// copyTo fills the empty content to with what a crash leaves of d.
//
// A pending truncation comes first. If it did not happen, neither did the growth after it: the old size and
// the old bytes past the cut are back, and only what was written below the cut can have reached the disk.
// If it happened, or there was none, the size is anything from the durable to the volatile one, and every
// page may be old, new or torn.
func (d *memData) copyTo(to *memData, c *crash) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	pages, size, limit := slices.Clone(d.durable), d.durableSize, d.size
	cutPending := d.lowSize < d.durableSize
	cutDone := cutPending && c.happened()
	switch {
	case cutDone:
		pages, size = cutPages(pages, d.lowSize), d.lowSize
	case cutPending:
		limit = d.lowSize
	}
	for number := range pagesIn(limit) {
		old := pageOf(pages, number)
		fresh := old
		d.peek(fresh[:min(PageSize, limit-number*PageSize)], number*PageSize)
		if fresh != old {
			pages = setPage(pages, number, c.page(old, fresh))
		}
	}
	if !cutPending || cutDone {
		size = c.size(size, d.size)
	}
	to.fill(cutPages(pages, size), size)
	to.mtime = d.mtime
	for number := range pagesIn(size) {
		if d.reserved.has(number) {
			to.charge(number)
		}
	}
}

// fill sets both images. The content is new and nobody else has it.
func (d *memData) fill(pages []*memPage, size int64) {
	d.durable, d.durableSize, d.lowSize = pages, size, size
	d.grow(size)
	for number, page := range pages {
		if page == nil {
			continue
		}
		off := int64(number) * PageSize
		done := 0
		d.spans(off, PageSize, func(piece []byte) { done += copy(piece, page[done:]) })
		d.charge(int64(number))
	}
}

// charge reserves a page even past the limit: it was paid for before the crash.
func (d *memData) charge(number int64) {
	if !d.reserved.has(number) {
		d.reserved.add(number)
		d.space.give(-PageSize)
	}
}

// happened draws whether one indivisible change reached the disk.
func (c *crash) happened() bool {
	return c.loss == loseNone || c.loss == loseSome && c.rng.IntN(2) == 0
}

// page draws what a dirty page holds: old or new in two cases of five each, else every sector for itself.
func (c *crash) page(old, fresh memPage) memPage {
	switch c.loss {
	case loseAll:
		return old
	case loseNone:
		return fresh
	}
	switch c.rng.IntN(5) {
	case 0, 1:
		return old
	case 2, 3:
		return fresh
	}
	torn := old
	for at := 0; at < PageSize; at += sectorSize {
		if c.rng.IntN(2) == 0 {
			copy(torn[at:at+sectorSize], fresh[at:at+sectorSize])
		}
	}
	return torn
}

// size draws how far a file has grown.
func (c *crash) size(durable, volatile int64) int64 {
	if durable == volatile || c.loss == loseAll {
		return durable
	}
	if c.loss == loseNone {
		return volatile
	}
	switch c.rng.IntN(3) {
	case 0:
		return durable
	case 1:
		return volatile
	}
	between := durable + c.rng.Int64N(volatile-durable)
	return max(durable, between/sectorSize*sectorSize)
}
