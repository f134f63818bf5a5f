package conn

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
)

// Subscription is what a group wants of a topic, ready to judge messages. It never changes. As a
// store.MessageFilter it decides by the ConsumeQueue entry alone for tags, by the record's properties for
// SQL92.
type Subscription struct {
	Data body.SubscriptionData
	// Err tells why the expression cannot be used; such a subscription matches nothing.
	Err  error
	all  bool
	tags filter.Tags
	sql  *filter.SQL
}

// ErrExpressionType: the expression is neither of tags nor SQL92.
var ErrExpressionType = errors.New("conn: unknown expression type")

// everything is the subscription "*".
var everything = &Subscription{all: true, Data: body.SubscriptionData{SubString: body.SubscribeAll,
	ExpressionType: body.ExpressionTag}}

// NewSubscription compiles a subscription. One that cannot be compiled is returned too, with the reason in
// Err and as err: the broker keeps what a heartbeat says and refuses the pull, as Java does. Tag hashes are
// computed from the expression, whatever codes the client sent: clients in other languages leave them out or
// hash other bytes than Java (spec client-quirks.md 12).
func NewSubscription(data *body.SubscriptionData) (s *Subscription, err error) {
	s = &Subscription{Data: *data}
	if s.Data.ExpressionType == "" {
		s.Data.ExpressionType = body.ExpressionTag
	}
	if data.ClassFilterMode {
		s.all = true
		return s, nil
	}
	switch {
	case data.IsTag():
	case data.ExpressionType == body.ExpressionSQL92:
		s.sql, s.Err = filter.Compile(data.SubString)
		return s, s.Err
	default:
		s.Err = fmt.Errorf("%w: %q", ErrExpressionType, data.ExpressionType)
		return s, s.Err
	}
	if s.tags, s.Err = filter.ParseTags(data.SubString); s.Err != nil {
		return s, s.Err
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
func (s *Subscription) IsTag() bool { return s.Data.IsTag() || s.Data.ClassFilterMode }

// All tells that every message is wanted.
func (s *Subscription) All() bool { return s.all }

// SQL is the compiled SQL92 condition, nil if tags decide.
func (s *Subscription) SQL() *filter.SQL { return s.sql }

// MatchQueueEntry implements store.MessageFilter.
func (s *Subscription) MatchQueueEntry(tagsCode int64) bool {
	return s.all || s.sql != nil || s.tags.MatchCode(tagsCode)
}

// NeedsRecord implements store.MessageFilter.
func (s *Subscription) NeedsRecord() bool { return s.sql != nil }

// MatchRecord implements store.MessageFilter: an evaluation that fails does not match, as in Java.
func (s *Subscription) MatchRecord(rec *codec.Record) bool { return s.matchSQL(&rec.Properties) }

// matchSQL takes a pointer because that is no allocation as a filter.Properties, which a slice is.
func (s *Subscription) matchSQL(props *[]byte) bool {
	ok, err := s.sql.Match((*properties)(props))
	return err == nil && ok
}

// Interested tells whether a message that just arrived is worth waking a parked pull.
func (s *Subscription) Interested(tagsCode int64, props []byte) bool {
	switch {
	case s.all:
		return true
	case s.sql != nil:
		return props == nil || s.interestedSQL(props)
	default:
		return s.tags.MatchCode(tagsCode)
	}
}

// interestedSQL is apart because its argument moves to the heap.
func (s *Subscription) interestedSQL(props []byte) bool { return s.matchSQL(&props) }

// sizeBytes is about what the subscription costs.
func (s *Subscription) sizeBytes() int {
	n := len(s.Data.Topic) + len(s.Data.SubString) + 4*len(s.Data.CodeSet)
	for _, t := range s.Data.TagsSet {
		n += len(t)
	}
	return n
}

// properties is an encoded properties string as filter.Properties.
type properties []byte

// Lookup implements filter.Properties.
func (p *properties) Lookup(name string) ([]byte, bool) { return codec.LookupProperty(*p, name) }

// Bounds of the compiled expressions that pulls bring along; the cache starts afresh when one is reached. The
// compiled form takes up to 30 times the text (filter.MaxExpressionBytes), so 30 MiB at worst.
const (
	maxCached      = 4096
	maxCachedBytes = 1 << 20
)

// SubscriptionCache compiles the expressions of pulls that carry their subscription, once.
type SubscriptionCache struct {
	mu   sync.Mutex
	tags expressions
	sql  expressions
}

// expressions are compiled subscriptions by their text, copy-on-write.
type expressions struct {
	table atomic.Pointer[map[string]*Subscription]
	bytes int // of their texts; under the cache's mu
}

// NewSubscriptionCache makes an empty cache.
func NewSubscriptionCache() *SubscriptionCache {
	c := &SubscriptionCache{}
	c.tags.table.Store(&map[string]*Subscription{})
	c.sql.table.Store(&map[string]*Subscription{})
	return c
}

// Get is the subscription of an expression, nil with an error when it cannot be compiled. It allocates
// nothing when the expression is known.
func (c *SubscriptionCache) Get(expression, expressionType []byte) (*Subscription, error) {
	of := &c.sql
	if len(expressionType) == 0 || string(expressionType) == body.ExpressionTag {
		if len(expression) == 0 || string(expression) == body.SubscribeAll {
			return everything, nil
		}
		of = &c.tags
	}
	if of == &c.tags || string(expressionType) == body.ExpressionSQL92 {
		if s := (*of.table.Load())[string(expression)]; s != nil {
			return s, nil
		}
	}
	s, err := NewSubscription(&body.SubscriptionData{SubString: string(expression),
		ExpressionType: string(expressionType)})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(*of.table.Load())
	of.bytes += len(expression)
	if len(next) >= maxCached || of.bytes > maxCachedBytes {
		next, of.bytes = map[string]*Subscription{}, len(expression)
	}
	next[s.Data.SubString] = s
	of.table.Store(&next)
	return s, nil
}
