package storetest

import (
	"bytes"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// UseUnits makes the store keep units of ConsumeQueueExt, in files of 10 or more, with bits that tell a message by its keys.
func UseUnits(o *store.Options) {
	o.EnableConsumeQueueExt, o.MappedFileSizeConsumeQueueExt = true, 300
	o.CalcFilterBitMap = func(dst, _, properties []byte) []byte { return append(dst, bitsOf(properties)...) }
}

// bitsOf is the bit map of a message, nil without keys.
func bitsOf(properties []byte) []byte {
	keys, ok := codec.LookupProperty(properties, codec.PropKeys)
	if !ok {
		return nil
	}
	h := fnv.New64a()
	h.Write(keys)
	return h.Sum(nil)
}

// unitFilter lets everything pass and compares each unit with its record.
type unitFilter struct {
	t     *testing.T
	what  string
	asked bool // of a unit, not yet of its record
	time  int64
	bits  []byte
	units int
}

func (f *unitFilter) MatchQueueEntry(int64) bool { return true }
func (f *unitFilter) NeedsRecord() bool          { return true }

func (f *unitFilter) MatchUnit(storeTimestamp int64, bitMap []byte) bool {
	f.asked, f.time, f.bits = true, storeTimestamp, bytes.Clone(bitMap)
	f.units++
	return true
}

func (f *unitFilter) MatchProperties(properties []byte) bool {
	if f.asked {
		require.Equal(f.t, string(bitsOf(properties)), string(f.bits), "%s: bits of another message", f.what)
	}
	f.asked = false
	return true
}

func (f *unitFilter) MatchRecord(rec *codec.Record) bool { return f.MatchProperties(rec.Properties) }

// checkUnits reads a queue and requires that every message has its own unit.
func checkUnits(t *testing.T, s Store, topic string, id int32, what string) {
	t.Helper()
	f := &unitFilter{t: t, what: what}
	from, to := s.MinOffset(topic, id), s.MaxOffset(topic, id)
	for q := from; q < to; {
		res := pull(s, topic, id, q, 32, f)
		require.Equal(t, store.GetFound, res.Status, what)
		res.Messages.Release()
		q = res.NextOffset
	}
	require.EqualValues(t, to-from, f.units, "%s: %s-%d: messages without a unit", what, topic, id)
}
