package consumerfilter

import (
	"strings"
	"unsafe"

	"skylark/codec"
	"skylark/filter"
)

// MessageFilter judges messages by a SQL92 condition (Java ExpressionMessageFilter, ExpressionForRetryMessageFilter): by
// the bits of ConsumeQueueExt first, where the group's entry has some, then by the properties. It implements
// store.PropertyFilter. One serves one read at a time; it is made anew by ForEntry, ForExpression or ForRetry and
// allocates nothing.
type MessageFilter struct {
	m     *Manager
	entry *Entry
	sql   *filter.SQL
	group string // not empty: messages are judged by the group's entry of their original topic
	props properties
}

// ForEntry has f judge by a group's entry, that of a heartbeat.
func (f *MessageFilter) ForEntry(m *Manager, e *Entry) {
	*f = MessageFilter{m: m, entry: e, sql: e.SQL}
}

// ForExpression has f judge by a condition that no entry knows, such as one that a pull brought along: no bits stand for it.
func (f *MessageFilter) ForExpression(sql *filter.SQL) { *f = MessageFilter{sql: sql} }

// ForRetry has f judge messages of a retry topic by the condition of the topic they come from (filterSupportRetry). What
// the group has no entry for passes, as in Java.
func (f *MessageFilter) ForRetry(m *Manager, group string) { *f = MessageFilter{m: m, group: group} }

// MatchQueueEntry implements store.MessageFilter: tags do not matter.
func (f *MessageFilter) MatchQueueEntry(int64) bool { return true }

// NeedsRecord implements store.MessageFilter.
func (f *MessageFilter) NeedsRecord() bool { return f.sql != nil || f.group != "" }

// MatchRecord implements store.MessageFilter.
func (f *MessageFilter) MatchRecord(rec *codec.Record) bool { return f.MatchProperties(rec.Properties) }

// MatchUnit implements store.PropertyFilter.
func (f *MessageFilter) MatchUnit(storeTimestamp int64, bitMap []byte) bool {
	return f.entry == nil || f.entry.MayMatch(f.m.bloom, storeTimestamp, bitMap)
}

// MatchProperties implements store.PropertyFilter: what cannot be evaluated does not match.
func (f *MessageFilter) MatchProperties(props []byte) bool {
	sql := f.sql
	if f.group != "" {
		origin, _ := codec.LookupProperty(props, codec.PropRetryTopic)
		e := f.m.state.Load().table[key{string(origin), f.group}]
		if e == nil || e.SQL == nil {
			return true
		}
		sql = e.SQL
	}
	f.props = props
	ok, err := sql.Match(&f.props)
	f.props = nil
	return err == nil && ok
}

// properties is an encoded properties string as filter.Properties.
type properties []byte

// Lookup is codec.LookupProperty by substring search: of duplicates the last that is not empty. A condition names
// properties by identifiers, which have no separators in them.
func (p *properties) Lookup(name string) (value []byte, ok bool) {
	props := *p
	text := unsafe.String(unsafe.SliceData(props), len(props)) // strings.Index allocates nothing, bytes.Index wants a []byte
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return value, ok
		}
		start := at + i
		at = start + len(name)
		if at >= len(text) || text[at] != codec.PropNameSeparator ||
			start > 0 && text[start-1] != codec.PropValueSeparator {
			continue // part of another name, or of a value
		}
		at++
		end := strings.IndexByte(text[at:], codec.PropValueSeparator)
		if end < 0 {
			end = len(text) - at
		}
		if end > 0 {
			value, ok = props[at:at+end:at+end], true
		}
	}
}

// BitMaps returns what appends a message's bit map to dst: the bits of each entry of the topic whose condition the message
// fits, dead entries too, or nothing if the topic has none (Java CommitLogDispatcherCalcBitMap). It allocates nothing once
// dst has room. One call at a time.
func (m *Manager) BitMaps() func(dst, topic, props []byte) []byte {
	p := new(properties)
	zeros := filter.NewBits(m.bloom.BitCount())
	return func(dst, topic, props []byte) []byte {
		entries := m.state.Load().topics[string(topic)]
		if len(entries) == 0 {
			return dst
		}
		at := len(dst)
		dst = append(dst, zeros...)
		bits := filter.Bits(dst[at:])
		*p = props
		for _, e := range entries {
			if e.SQL == nil {
				continue
			}
			if ok, err := e.SQL.Match(p); err == nil && ok {
				_ = m.bloom.HashTo(e.BloomFilterData, bits) // cannot fail: entries in the table have valid bits
			}
		}
		*p = nil
		return dst
	}
}
