package namesrv

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"skylark/codec/body"
	"skylark/codec/fastjson"
)

// Shards and memory of the route cache.
const (
	cacheShards = 64
	// maxCachedRouteBytes bounds the encoded routes that are kept. A shard that would pass its share starts
	// anew.
	maxCachedRouteBytes = 64 << 20
)

// routeForm tells how a route is written.
type routeForm struct {
	standard bool   // standard JSON, for clients from 4.9.4 on; else the legacy form
	acting   bool   // supportActingMaster was on when it was written
	order    string // orderTopicConf
}

// routeCache keeps encoded routes by topic. A query of a cached route costs a hash, a read lock that nobody
// holds for longer than a map access, and no allocation. Whoever changes the tables drops what it affects
// while it holds their write lock, and routes are put in by those who hold the read lock: a stale one cannot
// get in.
//
// One map under an atomic pointer, copied at every change, was the simpler design: with ten thousand topics
// filling it copies a hundred million entries.
type routeCache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu    sync.RWMutex
	byKey map[string]*cachedRoute
	bytes int
	_     [16]byte // shards do not share cache lines
}

// cachedRoute is a route in up to two forms.
type cachedRoute struct {
	acting           bool
	order            string
	standard, legacy atomic.Pointer[[]byte]
}

func (c *routeCache) init() {
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].byKey = map[string]*cachedRoute{}
	}
}

func (e *cachedRoute) text(form routeForm) []byte {
	if e.acting != form.acting || e.order != form.order {
		return nil
	}
	p := &e.legacy
	if form.standard {
		p = &e.standard
	}
	if text := p.Load(); text != nil {
		return *text
	}
	return nil
}

// get gives a cached route or nil. The bytes are not to be changed.
func (c *routeCache) get(topic []byte, form routeForm) []byte {
	s := &c.shards[maphash.Bytes(c.seed, topic)%cacheShards]
	s.mu.RLock()
	e := s.byKey[string(topic)]
	s.mu.RUnlock()
	if e == nil {
		return nil
	}
	return e.text(form)
}

// put is called with the tables' read lock held.
func (c *routeCache) put(topic string, form routeForm, text []byte) {
	s := &c.shards[maphash.String(c.seed, topic)%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[topic]
	if e == nil || e.acting != form.acting || e.order != form.order {
		s.dropLocked(topic)
		e = &cachedRoute{acting: form.acting, order: form.order}
	}
	if s.bytes+len(text) > maxCachedRouteBytes/cacheShards {
		clear(s.byKey)
		s.bytes = 0
		if len(text) > maxCachedRouteBytes/cacheShards {
			return
		}
		e = &cachedRoute{acting: form.acting, order: form.order}
	}
	p := &e.legacy
	if form.standard {
		p = &e.standard
	}
	if old := p.Swap(&text); old != nil {
		s.bytes -= len(*old)
	}
	s.bytes += len(text)
	s.byKey[topic] = e
}

// drop and clear are called with the tables' write lock held.
func (c *routeCache) drop(topic string) {
	s := &c.shards[maphash.String(c.seed, topic)%cacheShards]
	s.mu.Lock()
	s.dropLocked(topic)
	s.mu.Unlock()
}

func (s *cacheShard) dropLocked(topic string) {
	e := s.byKey[topic]
	if e == nil {
		return
	}
	for _, p := range []*[]byte{e.standard.Load(), e.legacy.Load()} {
		if p != nil {
			s.bytes -= len(*p)
		}
	}
	delete(s.byKey, topic)
}

func (c *routeCache) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if len(s.byKey) > 0 {
			clear(s.byKey)
			s.bytes = 0
		}
		s.mu.Unlock()
	}
}

// CachedRoute is a route as EncodedRoute wrote it last, nil if it has to be asked. It never waits.
func (m *RouteInfoManager) CachedRoute(topic []byte, form routeForm) []byte {
	return m.cache.get(topic, form)
}

// EncodedRoute writes a topic's route in form and keeps it; nil if the topic is not known. With mayWait false
// it gives up, ok false, when a change is under way.
func (m *RouteInfoManager) EncodedRoute(topic string, form routeForm, mayWait bool) (text []byte, ok bool,
	err error) {
	if mayWait {
		m.mu.RLock()
	} else if !m.mu.TryRLock() {
		return nil, false, nil
	}
	defer m.mu.RUnlock()
	r := m.route(topic)
	if r == nil {
		return nil, true, nil
	}
	r.OrderTopicConf = form.order
	if text, err = encodeRoute(r, form.standard); err != nil {
		return nil, true, err
	}
	if form.acting == m.settings().SupportActingMaster { // else the setting has just changed
		m.cache.put(topic, form, text)
	}
	return text, true, nil
}

func encodeRoute(r *body.TopicRouteData, standard bool) ([]byte, error) {
	if standard {
		return fastjson.MarshalStandard(r)
	}
	return fastjson.Marshal(r)
}
