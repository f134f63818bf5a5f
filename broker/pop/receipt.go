package pop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"skylark/codec"
)

// Flags of a receipt and of the info strings: which topic a message was read from (Java ExtraInfoUtil).
const (
	NormalTopic  = 0
	RetryTopicV1 = 1
	RetryTopicV2 = 2
)

// Errors of a receipt. ErrGarbled and ErrMismatch are the caller's mistake, the others say that the message is not his
// any more.
var (
	ErrGarbled  = errors.New("pop: the receipt handle cannot be read")
	ErrMismatch = errors.New("pop: the receipt handle does not belong to this message")
	ErrLate     = errors.New("pop: the invisible time is over")
	ErrSettled  = errors.New("pop: the receipt handle is used up or was never given")
)

// Receipt is a receipt handle: extraInfo of ACK_MESSAGE, the property POP_CK (Java ExtraInfoUtil.buildExtraInfo).
type Receipt struct {
	StartOffset codec.QueueOffset // of the check point
	PopTime     int64             // ms
	Invisible   int64             // ms
	ReviveQID   int32             // codec.PopOrderReviveQueue: an orderly pop
	Flag        int               // NormalTopic, RetryTopicV1, RetryTopicV2
	Broker      string
	QueueID     int32
	Offset      codec.QueueOffset
}

// String is the handle as clients hold it: eight fields, a blank between.
func (r Receipt) String() string {
	return fmt.Sprintf("%d %d %d %d %d %s %d %d", r.StartOffset, r.PopTime, r.Invisible, r.ReviveQID, r.Flag, r.Broker,
		r.QueueID, r.Offset)
}

// Orderly tells that the message came by an orderly pop.
func (r *Receipt) Orderly() bool { return r.ReviveQID == codec.PopOrderReviveQueue }

// ParseReceipt reads a handle. Fields beyond the eighth are passed over, as in Java.
func ParseReceipt(handle string) (r Receipt, err error) {
	var f [8]string
	rest, n := handle, 0
	for more := true; more && n < len(f); n++ {
		f[n], rest, more = strings.Cut(rest, " ")
	}
	if n < len(f) {
		return r, fmt.Errorf("%w: %d fields, 8 expected", ErrGarbled, n)
	}
	num := func(i, bits int) int64 {
		n, e := strconv.ParseInt(f[i], 10, bits)
		if (e != nil || n < 0) && err == nil {
			err = fmt.Errorf("%w: field %d is %q", ErrGarbled, i+1, f[i])
		}
		return n
	}
	r = Receipt{StartOffset: codec.QueueOffset(num(0, 64)), PopTime: num(1, 64), Invisible: num(2, 64),
		ReviveQID: int32(num(3, 32)), Flag: int(num(4, 8)), Broker: f[5], QueueID: int32(num(6, 32)),
		Offset: codec.QueueOffset(num(7, 64))}
	if err == nil && (r.Flag > RetryTopicV2 || r.Offset < r.StartOffset) {
		err = fmt.Errorf("%w: %q", ErrGarbled, handle)
	}
	return r, err
}

// FlagOf is the flag of a topic that is popped from.
func FlagOf(topic string) int {
	switch {
	case codec.IsPopRetryTopicV2(topic):
		return RetryTopicV2
	case codec.IsRetryTopic(topic):
		return RetryTopicV1
	}
	return NormalTopic
}

// RealTopic is the topic a flag stands for (Java ExtraInfoUtil.getRealTopic).
func RealTopic(topic, group, flag string) string {
	switch flag {
	case "1":
		return codec.PopRetryTopicV1(topic, group)
	case "2":
		return codec.PopRetryTopicV2(topic, group)
	}
	return topic
}

// infos are the three info strings of a pop's answer: entries with ';' between.
type infos struct{ start, msgs, order strings.Builder }

func entry(b *strings.Builder, flag int, queue string) {
	if b.Len() > 0 {
		b.WriteByte(';')
	}
	b.WriteString(strconv.Itoa(flag))
	b.WriteByte(' ')
	b.WriteString(queue)
	b.WriteByte(' ')
}

func (in *infos) add(flag int, queueID int32, start codec.QueueOffset, offsets []codec.QueueOffset) {
	q := strconv.Itoa(int(queueID))
	entry(&in.start, flag, q)
	in.start.WriteString(strconv.FormatInt(int64(start), 10))
	entry(&in.msgs, flag, q)
	for i, at := range offsets {
		if i > 0 {
			in.msgs.WriteByte(',')
		}
		in.msgs.WriteString(strconv.FormatInt(int64(at), 10))
	}
}

func (in *infos) addCount(flag int, queueID int32, offset codec.QueueOffset, count int) {
	entry(&in.order, flag, fmt.Sprintf("qo%d%%%d", queueID, offset))
	in.order.WriteString(strconv.Itoa(count))
}

func (in *infos) addQueueCount(flag int, queueID int32, count int) {
	entry(&in.order, flag, strconv.Itoa(int(queueID)))
	in.order.WriteString(strconv.Itoa(count))
}
