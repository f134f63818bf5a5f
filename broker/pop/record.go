package pop

import (
	"fmt"
	"strconv"

	"skylark/codec"
	"skylark/codec/fastjson"
)

// Tags of the records in the revive topic (Java PopAckConstants).
const (
	tagCheckPoint = "ck"
	tagAck        = "ack"
	tagBatchAck   = "bAck"
)

// checkPointAhead is how long before the messages' time a check point comes out of the timer, in ms (Java
// ackTimeInterval): before the acks that are due then.
const checkPointAhead = 1000

// CheckPoint is the body of a check point (Java PopCheckPoint): what one pop took from one queue.
type CheckPoint struct {
	BitMap       int32             `json:"bm"`
	BrokerName   string            `json:"bn,omitnull"`
	Group        string            `json:"c,omitnull"`
	Diffs        []int32           `json:"d,omitnull"` // offsets less StartOffset; nil: Num in a row
	Invisible    int64             `json:"it"`
	Num          int8              `json:"n"`
	PopTime      int64             `json:"pt"`
	QueueID      int32             `json:"q"`
	ReviveTime   int64             `json:"reviveTime"`
	ReviveOffset int64             `json:"ro"`
	RePut        string            `json:"rp,omitnull"`
	StartOffset  codec.QueueOffset `json:"so"`
	Topic        string            `json:"t,omitnull"`
}

// index is the place of an offset in the check point, -1 when it has none.
func (ck *CheckPoint) index(at codec.QueueOffset) int {
	d := at - ck.StartOffset
	if len(ck.Diffs) == 0 {
		if d >= 0 && d < codec.QueueOffset(ck.Num) {
			return int(d)
		}
		return -1
	}
	for i, diff := range ck.Diffs {
		if codec.QueueOffset(diff) == d {
			return i
		}
	}
	return -1
}

func (ck *CheckPoint) offset(i int) codec.QueueOffset {
	if i < len(ck.Diffs) {
		return ck.StartOffset + codec.QueueOffset(ck.Diffs[i])
	}
	return ck.StartOffset + codec.QueueOffset(i)
}

// all is the bits of all messages.
func (ck *CheckPoint) all() uint32 { return uint32(1<<min(max(int(ck.Num), 0), 32) - 1) }

func (ck *CheckPoint) key() key {
	return key{ck.Topic, ck.Group, ck.QueueID, ck.StartOffset, ck.PopTime}
}

// rePuts is how often the check point was put again (Java parseRePutTimes).
func (ck *CheckPoint) rePuts() int {
	if ck.RePut == "" {
		return 0
	}
	n, err := strconv.Atoi(ck.RePut)
	if err != nil || n < 0 {
		return 127
	}
	return n
}

// ackRecord is the body of an ack (Java AckMsg) and, with offsets, of a batch of them (Java BatchAckMsg).
type ackRecord struct {
	Offset      codec.QueueOffset   `json:"ao"`
	Offsets     []codec.QueueOffset `json:"aol,omitnull"`
	BrokerName  string              `json:"bn,omitnull"`
	Group       string              `json:"c,omitnull"`
	PopTime     int64               `json:"pt"`
	QueueID     int32               `json:"q"`
	StartOffset codec.QueueOffset   `json:"so"`
	Topic       string              `json:"t,omitnull"`
}

func (a *ackRecord) key() key { return key{a.Topic, a.Group, a.QueueID, a.StartOffset, a.PopTime} }

// The bodies are written by hand: there is one for each message that is acknowledged, and reflection takes ten times as
// long. A test compares them with what fastjson writes.

// appendJSON appends the body of a check point.
func (ck *CheckPoint) appendJSON(b []byte) []byte {
	b = appendNumber(append(b, '{'), "bm", int64(ck.BitMap))
	b = appendText(b, "bn", ck.BrokerName)
	b = appendText(b, "c", ck.Group)
	if ck.Diffs != nil {
		b = appendList(b, "d", ck.Diffs)
	}
	b = appendNumber(b, "it", ck.Invisible)
	b = appendNumber(b, "n", int64(ck.Num))
	b = appendNumber(b, "pt", ck.PopTime)
	b = appendNumber(b, "q", int64(ck.QueueID))
	b = appendNumber(b, "reviveTime", ck.ReviveTime)
	b = appendNumber(b, "ro", ck.ReviveOffset)
	b = appendText(b, "rp", ck.RePut)
	b = appendNumber(b, "so", int64(ck.StartOffset))
	b = appendText(b, "t", ck.Topic)
	return append(b, '}')
}

// appendJSON appends the body of an ack.
func (a *ackRecord) appendJSON(b []byte) []byte {
	b = appendNumber(append(b, '{'), "ao", int64(a.Offset))
	if a.Offsets != nil {
		b = appendList(b, "aol", a.Offsets)
	}
	b = appendText(b, "bn", a.BrokerName)
	b = appendText(b, "c", a.Group)
	b = appendNumber(b, "pt", a.PopTime)
	b = appendNumber(b, "q", int64(a.QueueID))
	b = appendNumber(b, "so", int64(a.StartOffset))
	b = appendText(b, "t", a.Topic)
	return append(b, '}')
}

func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

func appendNumber(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(appendName(b, name), v, 10)
}

// appendText leaves out an empty text.
func appendText(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return fastjson.AppendString(appendName(b, name), v)
}

func appendList[T ~int32 | ~int64](b []byte, name string, list []T) []byte {
	b = append(appendName(b, name), '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return append(b, ']')
}

// appendKey appends the UNIQ_KEY of a revive record: topic@queue@offset@group@popTime@broker@kind.
func appendKey(b []byte, k key, offset codec.QueueOffset, broker, kind string) []byte {
	b = append(append(b, k.topic...), '@')
	b = append(strconv.AppendInt(b, int64(k.queueID), 10), '@')
	b = append(strconv.AppendInt(b, int64(offset), 10), '@')
	b = append(append(b, k.group...), '@')
	b = append(strconv.AppendInt(b, k.popTime, 10), '@')
	return append(append(append(b, broker...), '@'), kind...)
}

func (s *Service) checkPointRecord(ck *CheckPoint, reviveQID int32) (*codec.Message, error) {
	ck.ReviveTime = ck.PopTime + ck.Invisible
	text := ck.appendJSON(make([]byte, 0, 320))
	return s.reviveRecord(text, tagCheckPoint, reviveQID, ck.ReviveTime-checkPointAhead, func(b []byte) []byte {
		return appendKey(b, ck.key(), ck.StartOffset, ck.BrokerName, tagCheckPoint)
	})
}

func (s *Service) ackRecord(a *ackRecord, reviveQID int32, reviveTime int64) (*codec.Message, error) {
	tag := tagAck
	if a.Offsets != nil {
		tag, a.Offset = tagBatchAck, -1
	}
	text := a.appendJSON(make([]byte, 0, 192))
	return s.reviveRecord(text, tag, reviveQID, reviveTime, func(b []byte) []byte {
		return appendKey(b, a.key(), a.Offset, a.BrokerName, tagAck)
	})
}

// reviveRecord makes a message of the revive topic that is due at a time, on its way through the timer.
func (s *Service) reviveRecord(text []byte, tag string, reviveQID int32, due int64,
	uniqKey func(b []byte) []byte) (*codec.Message, error) {
	props := make([]byte, 0, 512) // with what the timer adds
	property := func(name string) { props = append(append(props, name...), codec.PropNameSeparator) }
	property(codec.PropTags)
	props = append(append(props, tag...), codec.PropValueSeparator)
	property(codec.PropUniqKey)
	props = append(uniqKey(props), codec.PropValueSeparator)
	property(codec.PropTimerDeliverMs)
	props = append(strconv.AppendInt(props, due, 10), codec.PropValueSeparator)
	host := s.o.StoreHost()
	m := &codec.Message{Topic: s.reviveTopic, QueueID: reviveQID, BornTimestamp: s.o.Clock.Millis(),
		BornHost: host, StoreHost: host, Body: text, Properties: props, TagsCode: tagsCodes[tag], WaitStoreMsgOK: true}
	if s.acting.Load() {
		return m, nil // it goes to the timer of another broker
	}
	if status, err := s.o.Timed(m); err != nil {
		return nil, fmt.Errorf("pop: %v: %w", status, err)
	}
	return m, nil
}

var tagsCodes = map[string]int64{tagCheckPoint: codec.TagsCode([]byte(tagCheckPoint)),
	tagAck: codec.TagsCode([]byte(tagAck)), tagBatchAck: codec.TagsCode([]byte(tagBatchAck))}
