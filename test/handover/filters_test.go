//go:build interop

package handover

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
)

const (
	topicFilter    = "HandoverFilter"
	filterMessages = 200   // of a life
	extFileBytes   = 16000 // of filter bits: some rolls
)

// filterGroups are the conditions of the groups, the same in every life.
var filterGroups = map[string]string{
	"CID_filter_more":  "a > 7",
	"CID_filter_which": "b IN ('x', 'y') AND a BETWEEN 2 AND 4",
	"CID_filter_never": "c IS NOT NULL",
}

// filterMessage is what the relay knows of a message.
type filterMessage struct {
	props  map[string]string
	before bool // stored before the groups were known, so it may have no bit map
}

// filterRelay hands SQL92 subscriptions and filter bits from broker to broker.
type filterRelay struct {
	*relay
	sent  []filterMessage
	born  map[string]int64 // of consumerFilter.json
	bloom *filter.BloomFilter
}

// filters: whichever broker wrote the bits, every group gets its messages, no more and no less, in every life, and each
// unit has the bits that Java's numbers give.
func (r *relay) filters() {
	maps.Copy(r.d.props, map[string]string{"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true",
		"mappedFileSizeConsumeQueueExt": strconv.Itoa(extFileBytes)})
	bloom, err := filter.NewBloomFilter(20, 32)
	require.NoError(r.t, err)
	f := &filterRelay{relay: r, born: map[string]int64{}, bloom: bloom}
	legs := []leg{{java53, clean}, {skylark, clean}, {java53, killed}, {skylark, killed}, {java53, clean}, {skylark, clean},
		{java53, clean}}
	for _, leg := range legs {
		l := r.d.start(r.t, leg.kind)
		if l.number == 1 {
			c := &body.TopicConfig{}
			c.SetDefaults()
			c.TopicName, c.ReadQueueNums, c.WriteQueueNums = topicFilter, 1, 1
			require.NoError(r.t, l.client.CreateTopic(l.ctx, l.addr, c))
			f.write(l, true)
		}
		f.beat(l)
		f.check(l, "those of earlier lives")
		f.write(l, false)
		f.check(l, "with those of this life")
		f.checkAnswers(l)
		if l.number == 1 || leg.end == killed { // the table is written every 10 s
			f.awaitTable(l)
		}
		if leg.end == clean {
			l.stop(r.t)
		} else {
			l.kill(r.t)
		}
		f.checkUnits(l)
		f.checkTable(l)
	}
}

// beat subscribes all groups.
func (f *filterRelay) beat(l *life) {
	f.t.Helper()
	h := &body.HeartbeatData{ClientID: "filters"}
	for _, group := range slices.Sorted(maps.Keys(filterGroups)) {
		h.ConsumerDataSet = append(h.ConsumerDataSet, &body.ConsumerData{GroupName: group, ConsumeType: body.ConsumePassively,
			MessageModel: body.Clustering, ConsumeFromWhere: body.FromFirstOffset,
			SubscriptionDataSet: []*body.SubscriptionData{{Topic: topicFilter, SubString: filterGroups[group], SubVersion: 7,
				ExpressionType: body.ExpressionSQL92}}})
	}
	require.NoError(f.t, l.client.Heartbeat(l.ctx, l.addr, h))
	now := time.Now().UnixMilli()
	require.Eventually(f.t, func() bool { return time.Now().UnixMilli() > now+1 }, time.Second, time.Millisecond)
}

// write sends messages and waits until they can be consumed.
func (f *filterRelay) write(l *life, before bool) {
	f.t.Helper()
	for i := range filterMessages {
		m := filterMessage{props: map[string]string{"a": strconv.Itoa(i % 10), codec.PropTags: fmt.Sprint("tag", i%3)},
			before: before}
		if i%2 == 0 {
			m.props["b"] = []string{"x", "y", "z"}[i%3]
		}
		if i%50 == 49 {
			m.props["a"] = "no number"
		}
		r, err := l.client.Send(l.ctx, l.addr, &codec.SendMessageHeader{ProducerGroup: []byte("PID_filter"),
			Topic: []byte(topicFilter), BornTimestamp: time.Now().UnixMilli(),
			Properties: codec.Field{Value: codec.EncodeProperties(m.props)}}, strconv.AppendInt(nil, int64(len(f.sent)), 10))
		require.NoError(f.t, err, "%s: send", l)
		require.EqualValues(f.t, len(f.sent), r.QueueOffset, "%s: send", l)
		f.sent = append(f.sent, m)
	}
	require.Eventually(f.t, func() bool {
		at, err := l.client.MaxOffset(l.ctx, l.addr, topicFilter, 0)
		return err == nil && int(at) == len(f.sent)
	}, 10*time.Second, 10*time.Millisecond)
}

type mapProps map[string]string

func (m mapProps) Lookup(name string) ([]byte, bool) {
	v, ok := m[name]
	return []byte(v), ok
}

func (f *filterRelay) matches(group string, m filterMessage) bool {
	sql, err := filter.Compile(filterGroups[group])
	require.NoError(f.t, err)
	ok, err := sql.Match(mapProps(m.props))
	return ok && err == nil
}

// check pulls everything for each group by its heartbeat's subscription.
func (f *filterRelay) check(l *life, what string) {
	f.t.Helper()
	for group := range filterGroups {
		var want, got []string
		for i, m := range f.sent {
			if f.matches(group, m) {
				want = append(want, strconv.Itoa(i))
			}
		}
		for at := codec.QueueOffset(0); int(at) < len(f.sent); {
			req := codec.NewRequest(codec.ReqPullMessage)
			h := codec.PullMessageHeader{ConsumerGroup: []byte(group), Topic: []byte(topicFilter), QueueOffset: at,
				MaxMsgNums: 32, SubVersion: 7, RequestSource: codec.RequestSourceSDK}
			h.Encode(req)
			answer, err := l.client.Call(l.ctx, l.addr, req)
			require.NoError(f.t, err)
			require.Contains(f.t, []int{codec.RespSuccess, codec.RespPullRetryImmediately}, answer.Code, "%s: %s", l, answer.Remark)
			require.NoError(f.t, client.EachRecord(answer.Body, func(rec *codec.Record) error {
				got = append(got, string(rec.Body))
				return nil
			}))
			var resp codec.PullMessageResponseHeader
			require.NoError(f.t, codec.DecodeHeader(answer, &resp))
			require.Greater(f.t, resp.NextBeginOffset, at)
			at = resp.NextBeginOffset
		}
		require.Equal(f.t, want, got, "%s: messages of %s, %s", l, group, what)
	}
}

// checkAnswers has the broker show units with its verdict (QUERY_CONSUME_QUEUE); Java's shows those of one file.
func (f *filterRelay) checkAnswers(l *life) {
	f.t.Helper()
	for group := range filterGroups {
		req := codec.NewRequest(codec.ReqQueryConsumeQueue)
		req.Set("topic", topicFilter)
		req.SetInt("queueId", 0)
		req.SetInt("index", 0)
		req.SetInt("count", int64(len(f.sent)))
		req.Set("consumerGroup", group)
		answer, err := l.client.Do(l.ctx, l.addr, req)
		require.NoError(f.t, err)
		var list struct {
			QueueData []struct {
				BitMap         string `json:"bitMap"`
				Eval           bool   `json:"eval"`
				ExtendDataJSON string `json:"extendDataJson"`
				Msg            string `json:"msg"`
				TagsCode       int64  `json:"tagsCode"`
			} `json:"queueData"`
		}
		require.NoError(f.t, json.Unmarshal(answer.Body, &list), "%s", answer.Body)
		require.NotEmpty(f.t, list.QueueData)
		for i, e := range list.QueueData {
			m := f.sent[i]
			require.NotEmpty(f.t, e.ExtendDataJSON, "%s: unit of %d: %s", l, i, e.Msg)
			require.Equal(f.t, codec.TagsCode([]byte(m.props[codec.PropTags])), e.TagsCode)
			if !m.before || e.BitMap != "" {
				require.Equal(f.t, f.bits(m).String(), e.BitMap, "%s: bits of %d", l, i)
			}
			if f.matches(group, m) {
				require.True(f.t, e.Eval, "%s leaves out message %d of %s", l, i, group)
			}
		}
	}
}

// bits is the bit map that a message has to have.
func (f *filterRelay) bits(m filterMessage) filter.Bits {
	bits := filter.NewBits(f.bloom.BitCount())
	for group := range filterGroups {
		if f.matches(group, m) {
			require.NoError(f.t, f.bloom.HashTo(f.bloom.Generate(filter.BloomKey(group, topicFilter)), bits))
		}
	}
	return bits
}

// checkUnits reads the files: whoever wrote them, the units have the same bytes.
func (f *filterRelay) checkUnits(l *life) {
	f.t.Helper()
	entries := f.d.queueFiles(f.t)[queueKey{topicFilter, 0}].entries
	require.Len(f.t, entries, len(f.sent)*entryBytes)
	files := map[string][]byte{}
	for _, file := range readFiles(f.t, f.d.store("consumequeue_ext", topicFilter, "0")) {
		files[file.name] = file.data
	}
	be, next, lost := binary.BigEndian, int64(0), 0
	for i, m := range f.sent {
		address := int64(be.Uint64(entries[i*entryBytes+12:]))
		require.Less(f.t, address, int64(-1<<31), "%s: entry %d has no address", l, i)
		offset := address - (-1 << 63)
		unit := files[fmt.Sprintf("%020d", offset/extFileBytes*extFileBytes)][offset%extFileBytes:]
		bits := f.bits(m)
		if m.before && be.Uint16(unit) == 20 { // else a recovery has dispatched it again
			bits = nil
		}
		require.EqualValues(f.t, 20+len(bits), be.Uint16(unit), "%s: length of unit %d", l, i)
		require.Equal(f.t, codec.TagsCode([]byte(m.props[codec.PropTags])), int64(be.Uint64(unit[2:])), "%s: unit %d", l, i)
		require.EqualValues(f.t, len(bits), be.Uint16(unit[18:]), "%s: bits of unit %d", l, i)
		require.Equal(f.t, string(bits), string(unit[20:20+len(bits)]), "%s: bits of unit %d", l, i)
		if offset != next {
			lost++
		}
		next = offset + int64(20+len(bits))
	}
	// Every unit follows the one before, but for the ends of files and what Java leaves behind when it dispatches again.
	f.t.Logf("%s: %d units in %d files, %d steps", l, len(f.sent), len(files), lost)
}

// table reads consumerFilter.json.
func (f *filterRelay) table() map[string]*filter.ConsumerFilterData {
	f.t.Helper()
	var file struct {
		FilterDataByTopic map[string]struct {
			GroupFilterData map[string]*filter.ConsumerFilterData `json:"groupFilterData"`
		} `json:"filterDataByTopic"`
	}
	data, err := os.ReadFile(f.d.store("config", "consumerFilter.json"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(f.t, err)
	if json.Unmarshal(data, &file) != nil {
		return nil // it is being written
	}
	return file.FilterDataByTopic[topicFilter].GroupFilterData
}

func (f *filterRelay) awaitTable(l *life) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		table := f.table()
		for group := range filterGroups {
			if e := table[group]; e == nil || e.Dead() {
				return false
			}
		}
		return true
	}, 30*time.Second, 50*time.Millisecond, "%s: consumerFilter.json", l)
}

// checkTable: each broker goes on with the entries of the one before.
func (f *filterRelay) checkTable(l *life) {
	f.t.Helper()
	table := f.table()
	require.Len(f.t, table, len(filterGroups), "%s", l)
	for group, expression := range filterGroups {
		e := table[group]
		require.NotNil(f.t, e)
		require.Equal(f.t, expression, e.Expression)
		require.Equal(f.t, body.ExpressionSQL92, e.ExpressionType)
		require.EqualValues(f.t, 7, e.ClientVersion)
		require.Equal(f.t, f.bloom.Generate(filter.BloomKey(group, topicFilter)), e.BloomFilterData)
		before := f.born[group]
		require.GreaterOrEqual(f.t, e.BornTime, before)
		if before != 0 && !(l.kind == skylark && l.number == 4) { // that one found a directory of a broker that was killed
			require.Equal(f.t, before, e.BornTime, "%s: %s counts as new", l, group)
		}
		f.born[group] = e.BornTime
	}
}
