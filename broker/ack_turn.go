package broker

import (
	"skylark/broker/pop"
	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// ackTurn gathers the acks that came together, as a consumer sends them for the messages of a pop: those of one check
// point take one record of the revive topic, in the form of a batch of acks, in place of one each. Every ack is judged and
// answered by itself, at the end of the turn.
type ackTurn struct {
	b       *Broker
	conn    reactor.Conn
	items   []pop.AckItem
	answers []rpc.Deferred
	out     reactor.Outbox // of answers that have waited for a flush
}

// gathered is the turn's ackTurn; nil if another processor uses the turn.
func (p *AckMessageProcessor) gathered(t *rpc.Turn) *ackTurn {
	switch st := t.State.(type) {
	case *ackTurn:
		return st
	case nil:
		at := &ackTurn{b: p.b, conn: t.Conn()}
		t.State = at
		t.AddFinisher(at)
		return at
	}
	return nil
}

// FinishTurn implements rpc.Finisher.
func (at *ackTurn) FinishTurn(t *rpc.Turn) { at.flush(t) }

// flushAcks puts what the turn has gathered: the request that follows may be about the same messages.
func flushAcks(t *rpc.Turn) {
	if at, ok := t.State.(*ackTurn); ok {
		at.flush(t)
	}
}

// flush acknowledges what was gathered and answers, now or when it is durable.
func (at *ackTurn) flush(t *rpc.Turn) {
	if len(at.items) == 0 {
		return
	}
	b, items, answers := at.b, at.items, at.answers
	at.items, at.answers = nil, nil
	end := b.pop.AckAll(items)
	for i := range items {
		if items[i].Err == nil {
			b.stats.GroupGet(items[i].Group, items[i].Topic).Acked(1)
		}
	}
	if end == 0 || !b.syncDurability() {
		writeAcks(t.Out(), items, answers, store.PutOK)
		return
	}
	b.inflight.add()
	done := func(status store.PutStatus) {
		defer b.inflight.done()
		writeAcks(&at.out, items, answers, status)
		_ = at.conn.SendOutbox(&at.out) // a closed connection needs no answer
	}
	if b.store.Durable(end, b.syncFlushTimeout(), done) {
		done(store.PutOK)
	}
}

// writeAcks appends the answers; status is what became of the flush.
func writeAcks(out *reactor.Outbox, items []pop.AckItem, answers []rpc.Deferred, status store.PutStatus) {
	for i := range answers {
		d := &answers[i]
		if d.Oneway {
			continue
		}
		code, remark := codec.RespSuccess, ""
		switch err := items[i].Err; {
		case err != nil:
			code, remark = popError(err)
		case status == store.FlushDiskTimeout:
			code, remark = codec.RespFlushDiskTimeout, status.String()
		}
		out.SetBuffer(d.Response(code, remark).AppendTo(out.Buffer()))
	}
}

// decodeAck reads the header of an ACK_MESSAGE as clients send it, without reflection; false: it is something else, for
// the careful reader to judge. Names that are known are not copied.
func (b *Broker) decodeAck(cmd *codec.Command, h *codec.AckMessageRequestHeader) bool {
	const all = 1<<5 - 1
	seen := 0
	for i := range cmd.Fields {
		f := &cmd.Fields[i]
		if f.Escaped {
			return false
		}
		n, ok := int64(0), true
		switch string(f.Key) {
		case "consumerGroup":
			if g := b.groups.Lookup(f.Value); g != nil {
				h.ConsumerGroup = g.Name
			} else {
				h.ConsumerGroup = string(f.Value)
			}
			seen |= 1
		case "topic":
			if t := b.topics.Lookup(f.Value); t != nil {
				h.Topic = t.Name
			} else {
				h.Topic = string(f.Value)
			}
			seen |= 2
		case "queueId":
			n, ok = smallNumber(f.Value)
			h.QueueID = int32(n)
			ok = ok && int64(h.QueueID) == n
			seen |= 4
		case "extraInfo":
			h.ExtraInfo = string(f.Value)
			seen |= 8
		case "offset":
			n, ok = smallNumber(f.Value)
			h.Offset = codec.QueueOffset(n)
			seen |= 16
		}
		if !ok {
			return false
		}
	}
	return seen == all
}

// smallNumber reads up to 18 digits.
func smallNumber(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0 && len(b) <= 18
}
