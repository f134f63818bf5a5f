package pop

import (
	"fmt"
	"strconv"
	"strings"

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

// id is the UNIQ_KEY of a revive record.
func id(parts ...any) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = fmt.Sprint(p)
	}
	return strings.Join(text, "@")
}

func (s *Service) checkPointRecord(ck *CheckPoint, reviveQID int32) (*codec.Message, error) {
	ck.ReviveTime = ck.PopTime + ck.Invisible
	return s.reviveRecord(ck, tagCheckPoint, reviveQID, ck.ReviveTime-checkPointAhead,
		id(ck.Topic, ck.QueueID, ck.StartOffset, ck.Group, ck.PopTime, ck.BrokerName, tagCheckPoint))
}

func (s *Service) ackRecord(a *ackRecord, reviveQID int32, reviveTime int64) (*codec.Message, error) {
	tag := tagAck
	if a.Offsets != nil {
		tag, a.Offset = tagBatchAck, -1
	}
	return s.reviveRecord(a, tag, reviveQID, reviveTime,
		id(a.Topic, a.QueueID, a.Offset, a.Group, a.PopTime, a.BrokerName, tagAck))
}

// reviveRecord makes a message of the revive topic that is due at a time, on its way through the timer.
func (s *Service) reviveRecord(v any, tag string, reviveQID int32, due int64, uniqKey string) (*codec.Message, error) {
	text, err := fastjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	props := codec.AppendProperty(nil, codec.PropTags, tag)
	props = codec.AppendProperty(props, codec.PropUniqKey, uniqKey)
	props = codec.AppendProperty(props, codec.PropTimerDeliverMs, strconv.FormatInt(due, 10))
	m := &codec.Message{Topic: s.reviveTopic, QueueID: reviveQID, BornTimestamp: s.o.Clock.Millis(),
		BornHost: s.o.StoreHost(), StoreHost: s.o.StoreHost(), Body: text, Properties: props,
		TagsCode: codec.TagsCode([]byte(tag)), WaitStoreMsgOK: true}
	if status, err := s.o.Timed(m); err != nil {
		return nil, fmt.Errorf("pop: %v: %w", status, err)
	}
	return m, nil
}
