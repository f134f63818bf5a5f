package filter

import (
	"container/list"
	"strings"
	"sync"
)

// CacheOptions bound a Cache. The zero value takes the defaults.
type CacheOptions struct {
	// MaxEntries is how many results are kept, good ones and errors. Default 1000 (Java: 100).
	MaxEntries int
	// MaxBytes is how much expression text is kept. The compiled forms need up to some 30 times as much
	// memory, and 5 times is usual. Default 1 MiB.
	MaxBytes int
}

const (
	defaultCacheEntries = 1000
	defaultCacheBytes   = 1 << 20
)

// Cache keeps the results of Compile, errors too, for the expressions that were asked for last: a
// consumer sends its expression with every pull (Java: SelectorParser.PARSE_CACHE). It is safe for
// concurrent use.
type Cache struct {
	opts CacheOptions

	mu      sync.Mutex
	entries map[string]*list.Element // of *cacheEntry
	recent  *list.List               // the most recently used in front
	bytes   int
}

type cacheEntry struct {
	expression string
	sql        *SQL
	err        error
}

// NewCache returns an empty cache.
func NewCache(opts CacheOptions) *Cache {
	if opts.MaxEntries <= 0 {
		opts.MaxEntries = defaultCacheEntries
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultCacheBytes
	}
	return &Cache{opts: opts, entries: map[string]*list.Element{}, recent: list.New()}
}

// Compile is the package's Compile with memory. Expressions longer than a quarter of MaxBytes are
// compiled each time.
func (c *Cache) Compile(expression string) (*SQL, error) {
	c.mu.Lock()
	if el, ok := c.entries[expression]; ok {
		c.recent.MoveToFront(el)
		e := el.Value.(*cacheEntry)
		c.mu.Unlock()
		return e.sql, e.err
	}
	c.mu.Unlock()

	// The text may be a piece of a larger buffer, which must not live as long as the cache.
	expression = strings.Clone(expression)
	sql, err := Compile(expression)
	if len(expression) <= c.opts.MaxBytes/4 {
		c.add(&cacheEntry{expression, sql, err})
	}
	return sql, err
}

// add puts an entry in front, unless another goroutine was faster, and drops what is too much at the back.
func (c *Cache) add(e *cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[e.expression]; ok {
		return
	}
	c.entries[e.expression] = c.recent.PushFront(e)
	c.bytes += len(e.expression)
	for c.recent.Len() > c.opts.MaxEntries || c.bytes > c.opts.MaxBytes {
		last := c.recent.Remove(c.recent.Back()).(*cacheEntry)
		delete(c.entries, last.expression)
		c.bytes -= len(last.expression)
	}
}

// Len returns the number of kept results.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}
