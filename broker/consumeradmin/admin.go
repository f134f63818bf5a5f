package consumeradmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skylark/broker/conn"
	"skylark/broker/consumerfilter"
	"skylark/broker/group"
	"skylark/broker/offset"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/codec/fastjson"
	"skylark/filter"
	"skylark/internal/clock"
	"skylark/store"
)

// MaxEntries bounds the entries of one QUERY_CONSUME_QUEUE answer, about 150 bytes each. Java has no limit.
const MaxEntries = 10_000

// Errors of the questions. The broker turns them into codes.
var (
	// ErrNoTopic and ErrNoQueue: there is no such topic, or no message was ever put into the queue.
	ErrNoTopic = errors.New("consumeradmin: no such topic")
	ErrNoQueue = errors.New("consumeradmin: no such queue")
)

// Store is what is asked of the message store, see store.MessageStore.
type Store interface {
	MinOffset(topic string, queueID int32) codec.QueueOffset
	MaxOffset(topic string, queueID int32) codec.QueueOffset
	HasQueue(topic string, queueID int32) bool
	StoreTimeOf(topic string, queueID int32, at codec.QueueOffset) int64
	QueueEntries(topic string, queueID int32, from codec.QueueOffset, count int) []store.QueueEntry
	QueueUnit(topic string, queueID int32, q codec.QueueOffset) (store.QueueUnit, bool)
}

// Options are the tables of a broker. All are set.
type Options struct {
	BrokerName string
	Store      Store
	Topics     *topic.Manager
	Groups     *group.Manager
	Offsets    *offset.Manager
	Consumers  *conn.ConsumerManager
	Filters    *consumerfilter.Manager
	// Popped is where a group that pops stands in a queue, false if it does not pop there.
	Popped func(topic, group string, queueID int32) (codec.QueueOffset, bool)
	// GroupTPS is how many messages of a topic a group gets per second.
	GroupTPS func(group, topic string) float64
	Clock    clock.Clock
}

// Admin answers the questions. All methods may be called from any goroutine; most read the disk.
type Admin struct{ o Options }

// New makes an Admin.
func New(o Options) *Admin { return &Admin{o} }

func (a *Admin) queue(topicName string, id int32) body.MessageQueue {
	return body.MessageQueue{BrokerName: a.o.BrokerName, QueueID: id, Topic: topicName}
}

// AddProgress enters how far a group has come in the queues of a topic, and its rate. A lag is never negative
// (Java: it is when the end of a queue was lost).
func (a *Admin) AddProgress(stats *body.ConsumeStats, groupName, topicName string, queues int32) {
	for id := range queues {
		end := max(a.o.Store.MaxOffset(topicName, id), 0)
		at, _ := a.o.Offsets.Query(groupName, topicName, id)
		pulled, _ := a.o.Offsets.QueryPull(groupName, topicName, id)
		if next, ok := a.o.Popped(topicName, groupName, id); ok {
			pulled = max(pulled, next) // its check point may be in memory only
		}
		at, pulled = min(at, end), min(pulled, end)
		o := &body.OffsetWrapper{BrokerOffset: end, ConsumerOffset: at, PullOffset: max(pulled, at)}
		if at > 0 {
			o.LastTimestamp = max(a.o.Store.StoreTimeOf(topicName, id, at-1), 0)
		}
		stats.OffsetTable[a.queue(topicName, id)] = o
	}
	stats.ConsumeTPS += a.o.GroupTPS(groupName, topicName)
}

// Subscribes tells whether a topic belongs to what a group consumes now: an offline group consumes all it has
// offsets in, of an online one a topic that it does not subscribe any more is left out, since its lag would grow
// for ever. What its pops ask for counts too.
func (a *Admin) Subscribes(groupName, topicName string) bool {
	cg := a.o.Consumers.Get(groupName)
	return cg == nil || len(cg.Subscriptions()) == 0 || a.o.Consumers.Find(groupName, topicName) != nil
}

// BrokerConsumeStats is the progress of all groups (317), by name; of ordered topics only if asked so. brokerAddr
// is what the answer calls this broker.
func (a *Admin) BrokerConsumeStats(brokerAddr string, ordered bool) *body.ConsumeStatsList {
	list := &body.ConsumeStatsList{BrokerAddr: brokerAddr, ConsumeStatsList: []map[string][]*body.ConsumeStats{}}
	for _, g := range a.o.Groups.All() {
		all := []*body.ConsumeStats{}
		for _, name := range a.o.Offsets.TopicsOf(g.Name) {
			t := a.o.Topics.Get(name)
			if t == nil || ordered && !t.Order || !a.Subscribes(g.Name, name) {
				continue
			}
			stats := &body.ConsumeStats{OffsetTable: map[body.MessageQueue]*body.OffsetWrapper{}}
			a.AddProgress(stats, g.Name, name, t.Config.WriteQueueNums)
			for _, o := range stats.OffsetTable {
				list.TotalDiff += int64(o.BrokerOffset - o.ConsumerOffset)
				list.TotalInflightDiff += int64(o.PullOffset - o.ConsumerOffset)
			}
			all = append(all, stats)
		}
		list.ConsumeStatsList = append(list.ConsumeStatsList, map[string][]*body.ConsumeStats{g.Name: all})
	}
	return list
}

// TimeSpan tells for every queue of a topic when its first and last message and the one that the group consumed
// last were stored, and how long the next one has waited (303), all in ms. The error is ErrNoTopic. A group
// without progress has all before it: what has waited longest is the first message (Java: the time since 1970).
func (a *Admin) TimeSpan(topicName, groupName string) (*body.QueryConsumeTimeSpanBody, error) {
	t := a.o.Topics.Get(topicName)
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTopic, topicName)
	}
	st, now := a.o.Store, a.o.Clock.Millis()
	answer := &body.QueryConsumeTimeSpanBody{ConsumeTimeSpanSet: []*body.QueueTimeSpan{}}
	for id := range t.Config.WriteQueueNums {
		lo, hi := st.MinOffset(topicName, id), st.MaxOffset(topicName, id)
		q := a.queue(topicName, id)
		span := &body.QueueTimeSpan{MessageQueue: &q, MinTimeStamp: st.StoreTimeOf(topicName, id, lo),
			MaxTimeStamp: st.StoreTimeOf(topicName, id, hi-1)}
		at, _ := a.o.Offsets.Query(groupName, topicName, id)
		span.ConsumeTimeStamp = span.MinTimeStamp
		if at > 0 {
			span.ConsumeTimeStamp = st.StoreTimeOf(topicName, id, at-1)
		}
		if next := st.StoreTimeOf(topicName, id, max(at, lo)); next > 0 {
			span.DelayTime = max(now-next, 0)
		}
		answer.ConsumeTimeSpanSet = append(answer.ConsumeTimeSpanSet, span)
	}
	return answer, nil
}

// CorrectionOffsets are for each queue the smallest offset of all groups of a topic that is still in the queue,
// or the largest number if compareGroup is behind it (308). Groups of filterGroups, with commas between, do not
// count; Java deletes their offsets.
func (a *Admin) CorrectionOffsets(topicName, filterGroups, compareGroup string) *body.QueryCorrectionOffsetBody {
	left := strings.Split(filterGroups, ",")
	least := map[int32]codec.QueueOffset{}
	for _, g := range a.o.Offsets.GroupsOf(topicName) {
		if slices.Contains(left, g) {
			continue
		}
		for id, at := range a.o.Offsets.Offsets(g, topicName) {
			if at < a.o.Store.MinOffset(topicName, id) {
				continue
			}
			if have, ok := least[id]; !ok || at < have {
				least[id] = at
			}
		}
	}
	for id, at := range a.o.Offsets.Offsets(compareGroup, topicName) {
		if have, ok := least[id]; ok && have > at {
			least[id] = 1<<63 - 1
		}
	}
	return &body.QueryCorrectionOffsetBody{CorrectionOffsets: least}
}

// CloneOffsets gives a group the progress of another one, in one topic or with "" in all (314). offline takes
// topics that the source, though online, does not subscribe any more. It returns the topics. The error is one of
// the name or of package offset.
func (a *Admin) CloneOffsets(src, dest, topicName string, offline bool) (done []string, err error) {
	if err := codec.ValidateGroup(dest); err != nil {
		return nil, err
	}
	topics := []string{topicName}
	if strings.TrimSpace(topicName) == "" {
		topics = a.o.Offsets.TopicsOf(src) // Java finds them and then clones none
	}
	for _, name := range topics {
		if a.o.Topics.Get(name) == nil || !offline && !a.Subscribes(src, name) {
			continue
		}
		if err := a.o.Offsets.Clone(src, dest, name); err != nil {
			return done, err
		}
		done = append(done, name)
	}
	return done, nil
}

// ConsumeQueue is what stands in a queue from an index on, at most MaxEntries, with what is known of the group if
// one is named (321). The error is ErrNoQueue. An index outside the queue has no entries.
func (a *Admin) ConsumeQueue(h *codec.QueryConsumeQueueRequestHeader) (*body.QueryConsumeQueueResponseBody, error) {
	st := a.o.Store
	if !st.HasQueue(h.Topic, h.QueueID) {
		return nil, fmt.Errorf("%w: %d@%s", ErrNoQueue, h.QueueID, h.Topic)
	}
	answer := &body.QueryConsumeQueueResponseBody{MinQueueIndex: st.MinOffset(h.Topic, h.QueueID),
		MaxQueueIndex: st.MaxOffset(h.Topic, h.QueueID), QueueData: []*body.ConsumeQueueData{}}
	var sub *conn.Subscription
	if h.ConsumerGroup != "" {
		sub = a.describe(answer, h.ConsumerGroup, h.Topic)
	}
	for at, end := h.Index, h.Index+codec.QueueOffset(min(h.Count, MaxEntries)); at < end; {
		entries := st.QueueEntries(h.Topic, h.QueueID, at, int(end-at))
		if len(entries) == 0 {
			break
		}
		for i, e := range entries {
			data := &body.ConsumeQueueData{PhyOffset: e.PhyOffset, PhySize: e.Size, TagsCode: e.TagsCode}
			if u, ok := st.QueueUnit(h.Topic, h.QueueID, at+codec.QueueOffset(i)); ok {
				a.describeUnit(data, u, sub, a.o.Filters.Lookup(h.Topic, h.ConsumerGroup))
			}
			answer.QueueData = append(answer.QueueData, data)
		}
		at += codec.QueueOffset(len(entries))
	}
	return answer, nil
}

// extendData is a unit of ConsumeQueueExt as Java shows it; the bits are in base64.
type extendData struct {
	FilterBitMap []byte `json:"filterBitMap,omitempty"`
	MsgStoreTime int64  `json:"msgStoreTime"`
	Size         int    `json:"size"`
	TagsCode     int64  `json:"tagsCode"`
}

// describeUnit enters what ConsumeQueueExt keeps of a message, and whether that lets it pass to the group, if one is named.
func (a *Admin) describeUnit(data *body.ConsumeQueueData, u store.QueueUnit, sub *conn.Subscription,
	e *consumerfilter.Entry) {
	if text, err := json.Marshal(extendData{u.BitMap, u.StoreTimestamp, store.ExtHeaderBytes + len(u.BitMap),
		u.TagsCode}); err == nil {
		data.ExtendDataJSON = string(text)
	}
	if len(u.BitMap) > 0 {
		data.BitMap = filter.Bits(u.BitMap).String()
	}
	if sub != nil {
		data.Eval = sub.MatchQueueEntry(u.TagsCode) &&
			(sub.IsTag() || e == nil || e.MayMatch(a.o.Filters.Bloom(), u.StoreTimestamp, u.BitMap))
	}
}

// describe enters a group's subscription and filter.
func (a *Admin) describe(answer *body.QueryConsumeQueueResponseBody, groupName, topicName string) *conn.Subscription {
	sub := a.o.Consumers.Find(groupName, topicName)
	if sub == nil {
		answer.FilterData = fmt.Sprintf("%s@%s is not online!", groupName, topicName)
		return nil
	}
	d := sub.Data
	answer.SubscriptionData, answer.FilterData = &d, "null"
	if e := a.o.Filters.Lookup(topicName, groupName); e != nil {
		if text, err := fastjson.MarshalPretty(e); err == nil {
			answer.FilterData = string(text)
		}
	}
	return sub
}

// Subscription is what an online group subscribes of a topic, or what its last pops asked for (345); nil when there is
// neither.
func (a *Admin) Subscription(groupName, topicName string) *body.SubscriptionData {
	s := a.o.Consumers.Find(groupName, topicName)
	if s == nil {
		return nil
	}
	d := s.Data
	d.Topic = topicName // the one of a pop names none
	return &d
}
