package store

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"skylark/codec"
)

// Light queues (Java LMQ) are queues whose messages lie in other topics: each is a ConsumeQueue of its own with the name
// %LMQ%… and the id 0, filled by messages that name it in their property INNER_MULTI_DISPATCH (Java LmqDispatch,
// MultiDispatchUtils). They are files, and are recovered, expire and are deleted, like those of any topic.

// lightQueueID is the id of every light queue.
const lightQueueID = 0

var (
	multiDispatchPattern    = []byte(codec.PropInnerMultiDispatch + "\x01")
	multiQueueOffsetPattern = []byte(codec.PropInnerMultiQueueOffset + "\x01")
	lightPrefix             = []byte(codec.LMQPrefix)
	retryPrefix             = []byte(codec.RetryTopicPrefix)
	dlqPrefix               = []byte(codec.DLQTopicPrefix)
	systemPrefix            = []byte(codec.SystemTopicPrefix)
)

// errLightName answers a light queue that cannot have files.
var errLightName = errors.New("store: a light queue's name cannot be that of a directory")

// dispatchesLight tells whether messages of a topic go to light queues (Java MixAll.topicAllowsLMQ): not those on their way
// to another topic, nor those given back or given up by consumers, which were there before. Java lets those of dead letter
// topics and half messages through: consumers of the light queue then get a message again that they have given up, and one
// that is not committed.
func dispatchesLight(topic []byte) bool {
	if bytes.HasPrefix(topic, retryPrefix) || bytes.HasPrefix(topic, dlqPrefix) || bytes.HasPrefix(topic, systemPrefix) {
		return false
	}
	switch string(topic) {
	case codec.ScheduleTopic, codec.HalfTopic, codec.OpHalfTopic:
		return false
	}
	return true
}

// wantsLight tells whether a message names light queues.
func wantsLight(m *codec.Message) bool {
	names := propertyValue(m.Properties, multiDispatchPattern)
	return bytes.Contains(names, lightPrefix) && dispatchesLight([]byte(m.Topic))
}

// numberLight finds the light queues of a message, makes those that are missing, and prepares its property
// INNER_MULTI_QUEUE_OFFSET: as many items as INNER_MULTI_DISPATCH has, empty for what is no light queue.
func (s *MessageStore) numberLight(m *codec.Message, x *numbering) PutResult {
	m.Properties = dropProperty(m.Properties, multiQueueOffsetPattern, codec.PropInnerMultiQueueOffset)
	names := string(propertyValue(m.Properties, multiDispatchPattern))
	x.suffix = append(x.suffix, multiQueueOffsetPattern...)
	for i, name := range strings.Split(names, codec.LMQDispatchSeparator) {
		if i > 0 {
			x.suffix = append(x.suffix, codec.LMQDispatchSeparator...)
		}
		if !codec.IsLMQ(name) {
			continue
		}
		cq, err := s.queues.lightQueue(name)
		switch {
		case errors.Is(err, errLightName):
			return PutResult{Status: MessageIllegal, Err: err}
		case err != nil:
			return PutResult{Status: LmqConsumeQueueNumExceeded, Err: err}
		}
		x.addLight(cq)
	}
	x.suffix = append(x.suffix, propertySeparator)
	if len(x.light) == 0 {
		x.suffix = nil
	}
	return PutResult{}
}

// addLight notes a light queue; one that is named twice gets the message once.
func (x *numbering) addLight(cq *consumeQueue) {
	x.addHole(&cq.next)
	for _, other := range x.light {
		if other == cq {
			return
		}
	}
	x.light = append(x.light, cq)
}

// errLightLimit answers a message that would make too many light queues.
var errLightLimit = errors.New("store: too many light queues")

// lightQueue finds or makes a light queue.
func (t *consumeQueueTable) lightQueue(name string) (*consumeQueue, error) {
	if cq := t.find(name, lightQueueID); cq != nil {
		return cq, nil
	}
	if !isTopicDirName(name) {
		return nil, fmt.Errorf("%w: %q", errLightName, name)
	}
	if n, limit := t.lightTopics.Load(), t.o.MaxLmqConsumeQueueNum(); n >= int64(limit) {
		return nil, fmt.Errorf("%w: there are %d, maxLmqConsumeQueueNum is %d", errLightLimit, n, limit)
	}
	return t.findOrCreate(name, lightQueueID), nil
}

// putLight gives a record its entries in light queues (Java ConsumeQueue.multiDispatchLmqQueue). The caller holds writeMu
// and has written the entry of the record's own queue. Without mayWait it may end with errWouldWait half-way; to be called
// again does no harm. arrivals, unless nil, gets one for each entry.
func (t *consumeQueueTable) putLight(d *dispatchRecord, mayWait bool, arrivals *[]Arrival) error {
	l := d.lightEntries()
	for l.next() {
		name, q := l.name, l.offset
		cq, err := t.putTo(name, lightQueueID, q, d, mayWait)
		switch {
		case errors.Is(err, errQueueOrder):
			t.log.Error("record left out of a light queue", "topic", string(name), "phyOffset", d.phyOffset, "err", err)
		case err != nil:
			return err
		case cq != nil && arrivals != nil:
			*arrivals = append(*arrivals, Arrival{Topic: cq.topic, QueueID: lightQueueID, QueueOffset: QueueOffset(q),
				TagsCode: d.tagsCode, StoreTimestamp: d.storeTimestamp, Properties: d.properties})
		}
	}
	return nil
}

// lightEntries are the entries of a record in light queues, one after the other.
type lightEntries struct {
	name   []byte
	offset int64

	names, offsets []byte
	more           bool
}

func (d *dispatchRecord) lightEntries() (l lightEntries) {
	l.names = propertyValue(d.properties, multiDispatchPattern)
	if l.names == nil || !dispatchesLight(d.topic) {
		return l
	}
	l.offsets = propertyValue(d.properties, multiQueueOffsetPattern)
	l.more = l.offsets != nil
	return l
}

// next moves on to the next entry; false: there is none.
func (l *lightEntries) next() bool {
	for l.more {
		var offset []byte
		var err error
		l.name, l.names, l.more = bytes.Cut(l.names, lmqSeparator)
		offset, l.offsets, _ = bytes.Cut(l.offsets, lmqSeparator)
		l.offset, err = strconv.ParseInt(string(offset), 10, 64)
		if err == nil && bytes.HasPrefix(l.name, lightPrefix) && isTopicDirName(string(l.name)) {
			return true
		}
	}
	return false
}

var lmqSeparator = []byte(codec.LMQDispatchSeparator)

// lightDispatch tells whether records go to light queues (Java MultiDispatchUtils.isNeedHandleMultiDispatch).
func (o *Options) lightDispatch() bool { return o.EnableLmq && o.EnableMultiDispatch }

// LightQueues is the number of light queues.
func (s *MessageStore) LightQueues() int { return int(s.queues.lightTopics.Load()) }
