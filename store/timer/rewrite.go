package timer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"skylark/codec"
	"skylark/store"
)

// Asks tells that a message wants a delivery time and has not had one yet (Java HookUtils.checkIfTimerMessage, without
// the delay level, which goes first).
func Asks(m *codec.Message) bool {
	if m.Topic == codec.TimerTopic {
		return false
	}
	asks := false
	for name := range codec.EachProperty(m.Properties) {
		switch string(name) {
		case codec.PropTimerOutMs:
			return false
		case codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs:
			asks = true
		}
	}
	return asks
}

// maxAddedBytes is what delivery adds to the properties of a message: the times of its way.
const maxAddedBytes = 3*40 + 2*len(codec.PropTimerEnqueueMs) + len(codec.PropTimerRollTimes)

// ErrIllegal says why a message cannot wait for its time; ErrCongested that its slot has too many.
var (
	ErrIllegal   = errors.New("timer: illegal delivery time")
	ErrCongested = errors.New("timer: flow control")
)

// Rewrite turns a message that Asks into one of the timer topic (Java HookUtils.transformTimerMessage). The status is
//
//	PutOK                   go on: m is rewritten, or unchanged because its time is now or past
//	WheelTimerMsgIllegal    no number, an overflow, further ahead than timerMaxDelaySec, a recall of something past
//	WheelTimerFlowControl   its slot holds timerCongestNumEachSlot messages or more
//	PropertiesSizeExceeded  it could not be delivered with the properties that its way adds
//
// and the error says more. The properties get a new array.
func (s *TimerMessageStore) Rewrite(m *codec.Message) (store.PutStatus, error) {
	now := s.o.Clock.Millis()
	live := s.o.Live()
	due, err := deliverMillis(m.Properties, now)
	if err != nil {
		return store.WheelTimerMsgIllegal, err
	}
	if due <= now {
		if _, recall := codec.LookupProperty(m.Properties, codec.PropTimerDelUniqKey); recall {
			return store.WheelTimerMsgIllegal, fmt.Errorf("%w: the message to recall was due at %d", ErrIllegal, due)
		}
		return store.PutOK, nil
	}
	if limit := live.MaxDelay.Milliseconds(); due-now > limit {
		return store.WheelTimerMsgIllegal, fmt.Errorf("%w: %d ms ahead, timerMaxDelaySec allows %d", ErrIllegal, due-now,
			limit)
	}
	out := s.slotOf(due)
	if s.congested(out, int64(live.CongestNumEachSlot)) {
		return store.WheelTimerFlowControl, fmt.Errorf("%w: %d messages are due at %d already", ErrCongested,
			s.Congestion(out), out)
	}
	props := make([]byte, 0, len(m.Properties)+len(m.Topic)+64)
	props = codec.RemoveProperty(props, m.Properties, codec.PropRealTopic, codec.PropRealQueueID)
	var digits [20]byte
	props = codec.AppendProperty(props, codec.PropTimerOutMs, strconv.AppendInt(digits[:0], out, 10))
	props = codec.AppendProperty(props, codec.PropRealTopic, m.Topic)
	props = codec.AppendProperty(props, codec.PropRealQueueID, strconv.Itoa(int(m.QueueID)))
	if n := len(props) + maxAddedBytes; n > math.MaxInt16 {
		return store.PropertiesSizeExceeded, fmt.Errorf("timer: the properties would have %d bytes on delivery, limit %d",
			n, math.MaxInt16)
	}
	m.Properties, m.Topic, m.QueueID = props, codec.TimerTopic, 0
	return store.PutOK, nil
}

// deliverProperties are those that ask for a time, in Java's order: of several the first one counts.
var deliverProperties = [...]struct {
	name  string
	unit  int64 // ms
	delay bool  // counts from now
}{{codec.PropTimerDelaySec, 1000, true}, {codec.PropTimerDelayMs, 1, true}, {codec.PropTimerDeliverMs, 1, false}}

// deliverMillis is the time that a message asks for.
func deliverMillis(props []byte, now int64) (int64, error) {
	var values [len(deliverProperties)][]byte
	for name, value := range codec.EachProperty(props) {
		for i := range deliverProperties {
			if string(name) == deliverProperties[i].name {
				values[i] = value
			}
		}
	}
	for i, p := range &deliverProperties {
		value := values[i]
		if value == nil {
			continue
		}
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: the property %s has the value %q", ErrIllegal, p.name, value)
		}
		since := int64(0)
		if p.delay {
			since = now
		}
		if n > (math.MaxInt64-since)/p.unit || n < math.MinInt64/p.unit {
			return 0, fmt.Errorf("%w: the property %s has the value %d, which is out of range", ErrIllegal, p.name, n)
		}
		return since + n*p.unit, nil
	}
	return 0, fmt.Errorf("%w: no delivery time", ErrIllegal)
}

// slotOf is the time of the slot that is over when due comes.
func (s *TimerMessageStore) slotOf(due int64) int64 { return (due - 1) / s.precision * s.precision }

// congested judges by the messages that are in the slot already: up to limit all are taken, from twice the limit on
// none, between by chance, less and less of them (Java isReject; there the chance falls the wrong way).
func (s *TimerMessageStore) congested(out, limit int64) bool {
	if limit >= math.MaxInt32 {
		return false
	}
	n := s.Congestion(out)
	return n > limit && (n >= 2*limit || rand.Int64N(limit) < n-limit)
}
