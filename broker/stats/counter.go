package stats

import (
	"sync"
	"sync/atomic"
)

// Counter is a sum that many goroutines add to. It stands alone on its cache line.
type Counter struct {
	sum, times atomic.Int64
	_          [48]byte
}

// Add counts one event of size n.
func (c *Counter) Add(n int64) {
	c.sum.Add(n)
	c.times.Add(1)
}

// AddMany counts so many events of size sum together.
func (c *Counter) AddMany(sum, times int64) {
	c.sum.Add(sum)
	c.times.Add(times)
}

// Load is the sum since the start.
func (c *Counter) Load() int64 { return c.sum.Load() }

func (c *Counter) pair() pair { return pair{c.sum.Load(), c.times.Load()} }

// queues are counters by queue id, made when first used. Lookups take no lock.
type queues struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*Counter]
}

// maxQueues bounds the ids of a queues table; beyond it all count as one.
const maxQueues = 1 << 16

func (q *queues) at(id int32, create func() *Counter) *Counter {
	id = min(max(id, 0), maxQueues-1)
	if l := q.list.Load(); l != nil && int(id) < len(*l) && (*l)[id] != nil {
		return (*l)[id]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []*Counter
	if l := q.list.Load(); l != nil {
		list = append(list, *l...)
	}
	for int(id) >= len(list) {
		list = append(list, nil)
	}
	if list[id] == nil {
		list[id] = create()
	}
	q.list.Store(&list)
	return list[id]
}
