package conn

import (
	"maps"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
)

// Subscription is what a group wants of a topic, ready to judge messages. It never changes. As a store.MessageFilter
// it decides by the ConsumeQueue entry alone for tags, by the record's properties for SQL92.
type Subscription struct {
	Data body.SubscriptionData
	all  bool
	tags filter.Tags
	sql  *filter.SQL
}

// everything is the subscription "*".
var everything = &Subscription{all: true, Data: body.SubscriptionData{SubString: body.SubscribeAll,
	ExpressionType: body.ExpressionTag}}

// NewSubscription compiles a subscription. Tag hashes are computed from the expression, whatever codes the client
// sent: clients in other languages leave them out or hash other bytes than Java (spec client-quirks.md 12).
func NewSubscription(data *body.SubscriptionData) (*Subscription, error) {
	s := &Subscription{Data: *data}
	if s.Data.ExpressionType == "" {
		s.Data.ExpressionType = body.ExpressionTag
	}
	if data.ClassFilterMode {
		s.all = true
		return s, nil
	}
	var err error
	if !data.IsTag() {
		s.sql, err = filter.Compile(data.SubString)
		return s, err
	}
	if s.tags, err = filter.ParseTags(data.SubString); err != nil {
		return nil, err
	}
	s.all = s.tags.All()
	if !s.all {
		s.tags = s.tags.WithGoCodes().WithCodes(data.CodeSet...)
		s.Data.TagsSet = s.tags.Tags()
		if len(s.Data.CodeSet) == 0 {
			s.Data.CodeSet = s.tags.Codes()
		}
	}
	return s, nil
}

// IsTag tells that tags decide and no SQL92 condition.
func (s *Subscription) IsTag() bool { return s.sql == nil }

// All tells that every message is wanted.
func (s *Subscription) All() bool { return s.all }

// MatchQueueEntry implements store.MessageFilter.
func (s *Subscription) MatchQueueEntry(tagsCode int64) bool {
	return s.all || s.sql != nil || s.tags.MatchCode(tagsCode)
}

// NeedsRecord implements store.MessageFilter.
func (s *Subscription) NeedsRecord() bool { return s.sql != nil }

// MatchRecord implements store.MessageFilter: an evaluation that fails does not match, as in Java.
func (s *Subscription) MatchRecord(rec *codec.Record) bool { return s.matchSQL(rec.Properties) }

func (s *Subscription) matchSQL(props []byte) bool {
	ok, err := s.sql.Match(properties(props))
	return err == nil && ok
}

// Interested tells whether a message that just arrived is worth waking a parked pull.
func (s *Subscription) Interested(tagsCode int64, props []byte) bool {
	switch {
	case s.all:
		return true
	case s.sql != nil:
		return props == nil || s.matchSQL(props)
	default:
		return s.tags.MatchCode(tagsCode)
	}
}

// properties is an encoded properties string as filter.Properties.
type properties []byte

// Lookup implements filter.Properties.
func (p properties) Lookup(name string) ([]byte, bool) { return codec.LookupProperty(p, name) }

// maxCached bounds the compiled expressions that pulls bring along; the cache starts afresh when it is full.
const maxCached = 4096

// SubscriptionCache compiles the expressions of pulls that carry their subscription, once.
type SubscriptionCache struct {
	mu   sync.Mutex
	tags atomic.Pointer[map[string]*Subscription]
	sql  atomic.Pointer[map[string]*Subscription]
}

// NewSubscriptionCache makes an empty cache.
func NewSubscriptionCache() *SubscriptionCache {
	c := &SubscriptionCache{}
	c.tags.Store(&map[string]*Subscription{})
	c.sql.Store(&map[string]*Subscription{})
	return c
}

// Get is the subscription of an expression. It allocates nothing when the expression is known.
func (c *SubscriptionCache) Get(expression, expressionType []byte) (*Subscription, error) {
	table := &c.sql
	if len(expressionType) == 0 || string(expressionType) == body.ExpressionTag {
		if len(expression) == 0 || string(expression) == body.SubscribeAll {
			return everything, nil
		}
		table = &c.tags
	}
	if s := (*table.Load())[string(expression)]; s != nil {
		return s, nil
	}
	s, err := NewSubscription(&body.SubscriptionData{SubString: string(expression),
		ExpressionType: string(expressionType)})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(*table.Load())
	if len(next) >= maxCached {
		next = map[string]*Subscription{}
	}
	next[string(expression)] = s
	table.Store(&next)
	return s, nil
}
