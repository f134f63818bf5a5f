package bench

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"skylark/client"
	"skylark/codec"
)

// producerGroup is the group that the load's messages carry.
const producerGroup = "skylark_bench_producer"

// ticking is a clock for message ids that is read once for many: the ids of one turn differ in their counter.
type ticking struct{ at time.Time }

func (t *ticking) now() time.Time { return t.at }

// builder makes the requests of one connection: one template for each queue and tag, taken in turn.
type builder struct {
	templates []*client.SendTemplate
	next      int
	clock     *ticking
	run       uint64
	producer  uint32
	stamped   bool
	base      int64 // what Stamp.Due counts from, nanoseconds

	body    []byte // of a single message, or the whole batch
	ids     *codec.UniqueIDGenerator
	batch   int
	stampAt []int // in body, of each message of a batch
	uniqAt  []int
	inProp  bool // the stamp is a property: the body is compressed once
	hex     []byte
}

// newBuilder makes the builder of a connection to the broker that has the queues. It sends to topics, to each of their
// queues in turn.
func newBuilder(o *Options, topics []string, queues []client.Queue, producer uint32, run uint64,
	base time.Time) (*builder, error) {
	b := &builder{clock: &ticking{at: base}, run: run, producer: producer, stamped: o.stamped(), base: base.UnixNano(),
		batch: o.Batch}
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	b.ids = codec.NewUniqueIDGenerator(host, os.Getpid(), uint32(run)+producer, b.clock.now)
	body, sysFlag, err := b.prepareBody(o)
	if err != nil {
		return nil, err
	}
	b.body = body
	tags := o.Tags
	if len(tags) == 0 {
		tags = []string{""}
	}
	b.next = int(producer) // connections do not all begin at the same queue
	values := o.Values
	if o.Property == "" {
		values = []string{""}
	}
	for _, tag := range tags {
		for _, value := range values {
			props := o.ownProperties(value)
			for _, q := range queues {
				for _, topic := range topics { // the topic changes with every message
					t, err := b.template(o, topic, q, codec.AppendProperty(props[:len(props):len(props)], codec.PropTags, tag),
						sysFlag)
					if err != nil {
						return nil, err
					}
					b.templates = append(b.templates, t)
				}
			}
		}
	}
	return b, nil
}

// ownProperties are those that make a message more than a plain one; value is that of o.Property.
func (o *Options) ownProperties(value string) (props []byte) {
	if o.Property != "" {
		props = codec.AppendProperty(props, o.Property, value)
	}
	if o.DelayLevel > 0 {
		props = codec.AppendProperty(props, codec.PropDelayTimeLevel, strconv.Itoa(o.DelayLevel))
	}
	if o.Delay > 0 {
		props = codec.AppendProperty(props, codec.PropTimerDelayMs, strconv.FormatInt(o.Delay.Milliseconds(), 10))
	}
	if o.Transaction {
		props = codec.AppendProperty(props, codec.PropTransactionPrepared, "true")
		props = codec.AppendProperty(props, codec.PropProducerGroup, producerGroup)
	}
	return props
}

func (b *builder) template(o *Options, topic string, q client.Queue, props []byte,
	sysFlag int32) (*client.SendTemplate, error) {
	props = codec.AppendProperty(props, codec.PropWaitStoreMsgOK, "true")
	if o.Transaction {
		sysFlag |= codec.SysFlagTransactionPrepared
	}
	code := codec.ReqSendMessageV2
	keys := o.Keys
	if b.batch > 1 {
		code, keys = codec.ReqSendBatchMessage, 0
	}
	property := ""
	if b.inProp {
		property = propStamp
	}
	return client.NewSendTemplate(client.TemplateOptions{
		Type: o.Serialize, Code: code, Oneway: o.Mode == Oneway, UniqKeys: b.ids, Keys: keys,
		Property: property, PropertyBytes: 2 * StampBytes,
		Header: codec.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(topic),
			DefaultTopicQueueNums: int32(o.Queues), QueueID: q.ID, SysFlag: sysFlag, BrokerName: []byte(q.BrokerName),
			Properties: codec.Field{Value: props}},
	})
}

// prepareBody makes the body that all requests share, and what the header's sysFlag says of it.
func (b *builder) prepareBody(o *Options) (body []byte, sysFlag int32, err error) {
	body = filler(o.Size)
	if o.Compress != 0 {
		var packed []byte
		if packed, sysFlag, err = codec.CompressBody(body, o.Compress, codec.DefaultCompressLevel); err != nil {
			return nil, 0, fmt.Errorf("%w: --compress: %w", ErrUsage, err)
		}
		b.inProp = b.stamped
		return packed, sysFlag, nil
	}
	if b.batch == 1 {
		b.stampAt = []int{0}
		return body, 0, nil
	}
	var whole []byte
	for i := range b.batch {
		props := codec.AppendProperty(nil, codec.PropWaitStoreMsgOK, "true")
		if len(o.Tags) > 0 {
			props = codec.AppendProperty(props, codec.PropTags, o.Tags[i%len(o.Tags)])
		}
		at := len(props)
		props = codec.AppendProperty(props, codec.PropUniqKey, b.ids.Next())
		if whole, err = codec.AppendBatchEntry(whole, codec.BatchEntry{Body: body, Properties: props}); err != nil {
			return nil, 0, err
		}
		start := len(whole) - len(props)
		b.uniqAt = append(b.uniqAt, start+at+len(codec.PropUniqKey)+1)
		b.stampAt = append(b.stampAt, start-2-len(body)) // two bytes of length before the properties
	}
	return whole, 0, nil
}

// frameBytes is about what a request takes.
func (b *builder) frameBytes() int { return b.templates[0].HeadBytes() + len(b.body) }

// tick sets the time of the messages that follow.
func (b *builder) tick(now time.Time) { b.clock.at = now }

// append appends the next request. seq is the number of its first message, due the time since the run's base.
func (b *builder) append(dst []byte, opaque int32, seq uint64, due int64) []byte {
	t := b.templates[b.next%len(b.templates)]
	b.next++
	send := client.Send{Opaque: opaque, BornMillis: b.clock.at.UnixMilli(), Key: seq, BodyBytes: len(b.body)}
	if b.inProp {
		var raw [StampBytes]byte
		b.stamp(seq, due).put(raw[:])
		b.hex = hex.AppendEncode(b.hex[:0], raw[:])
		send.Property = b.hex
	}
	dst = t.AppendHead(dst, send)
	at := len(dst)
	dst = append(dst, b.body...)
	for _, u := range b.uniqAt {
		b.ids.Append(dst[at+u : at+u])
	}
	if b.stamped {
		for i, s := range b.stampAt {
			b.stamp(seq+uint64(i), due).put(dst[at+s:])
		}
	}
	return dst
}

func (b *builder) stamp(seq uint64, due int64) Stamp {
	return Stamp{Producer: b.producer, Run: b.run, Seq: seq, Due: b.base + due}
}
