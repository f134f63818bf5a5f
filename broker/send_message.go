package broker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"skylark/broker/topic"
	"skylark/broker/transaction"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
	"skylark/store"
)

// fill makes the message of the request: hosts, queue, properties with the broker's own. false: answered.
func (p *SendMessageProcessor) fill(r *rpc.Request, st *sendTurn, t *topic.Topic, dead bool) bool {
	b, h, m := p.b, &st.header, &st.msg
	if n := len(r.Cmd.Body); n == 0 || n > b.maxMessageSize() {
		p.refuseBody(r, n)
		return false
	}
	st.resp.RecallHandle, st.inner = nil, false
	*m = codec.Message{
		Topic: t.Name, QueueID: h.QueueID, Flag: h.Flag, SysFlag: h.SysFlag &^ codec.SysFlagTransactionMask,
		BornTimestamp: h.BornTimestamp, BornHost: r.Conn().RemoteAddr(), StoreHost: b.storeHost,
		ReconsumeTimes: h.ReconsumeTimes, Body: r.Cmd.Body,
	}
	if h.QueueID < 0 {
		m.QueueID = anyQueue(t)
	}
	st.queueID = m.QueueID
	if dead {
		m.QueueID = 0
	}
	if t.Config.TopicFilterType == body.MultiTag {
		m.SysFlag |= codec.SysFlagMultiTags
	}
	s := p.properties(st, dead)
	m.Properties = st.props
	m.WaitStoreMsgOK = !s.noWait
	inner := s.isInner(h, t)
	if why := s.illegal(h, t, inner); why != "" {
		p.refuse(r, codec.RespMessageIllegal, why)
		return false
	}
	if s.replyTo != nil && !codec.IsRetryTopic(t.Name) && !dead { // retries are sent by those who consume
		b.noteRequester(s.replyTo, r.Conn())
	}
	if h.Batch || inner {
		return p.checkBatch(r, &s, m) && (!inner || p.inner(r, st))
	}
	return p.special(r, st, &s)
}

// anyQueue is for a send that names no queue.
func anyQueue(t *topic.Topic) int32 { return rand.Int32N(max(t.Config.WriteQueueNums, 1)) }

// isReply tells whether a send is a reply, which may have no body: the Go client sends such.
func isReply(code int) bool {
	return code == codec.ReqSendReplyMessage || code == codec.ReqSendReplyMessageV2
}

// seen is what one pass over the properties found.
type seen struct {
	uniqKey     []byte
	delay       []byte
	replyTo     []byte // client id of who has sent a request
	transaction bool
	timer       bool // asks for a delivery time and is not out of the timer already
	timerOut    bool
	keys        bool
	innerNum    bool
	noWait      bool
	strip       bool // properties that only the broker sets
}

// note takes one property; of duplicates the last counts.
func (s *seen) note(name, value []byte) {
	switch string(name) {
	case codec.PropUniqKey:
		s.uniqKey = value
	case codec.PropDelayTimeLevel:
		s.delay = value
	case codec.PropTransactionPrepared:
		s.transaction = isTrue(value)
	case codec.PropTimerDelaySec, codec.PropTimerDelayMs, codec.PropTimerDeliverMs:
		s.timer = true
	case codec.PropTimerOutMs:
		s.timerOut = true
	case codec.PropKeys:
		s.keys = true
	case codec.PropInnerNum:
		s.innerNum = true
	case codec.PropReplyToClient:
		s.replyTo = value
	case codec.PropWaitStoreMsgOK:
		s.noWait = !isTrue(value)
	case codec.PropPopCK, codec.PropMsgRegion, codec.PropTraceSwitch, codec.PropCluster:
		s.strip = true
	}
}

// isTrue is Java's Boolean.parseBoolean.
func isTrue(value []byte) bool { return len(value) == 4 && strings.EqualFold(string(value), "true") }

// brokersOwn are the properties that only the broker sets; the last one counts for dead letters.
var brokersOwn = []string{codec.PropPopCK, codec.PropMsgRegion, codec.PropTraceSwitch, codec.PropCluster,
	codec.PropDelayTimeLevel}

// properties copies the request's properties into st.props and adds the broker's: one pass, no map. A dead
// letter has no delay.
func (p *SendMessageProcessor) properties(st *sendTurn, dead bool) (s seen) {
	b, h := p.b, &st.header
	props := h.Properties.AppendValue(st.props[:0])
	for rest := props; ; {
		name, value, next, ok := codec.NextProperty(rest)
		if !ok {
			break
		}
		s.note(name, value)
		rest = next
	}
	if s.strip || dead {
		drop := brokersOwn[:len(brokersOwn)-1]
		if dead {
			drop, s.delay = brokersOwn, nil
		}
		kept := codec.RemoveProperty(props[:0:len(props)], props, drop...)
		if len(kept) <= len(props) { // in place: the capacity stays
			kept = props[:len(kept)]
		}
		props = kept
		s.uniqKey, _ = codec.LookupProperty(props, codec.PropUniqKey)
		s.replyTo, _ = codec.LookupProperty(props, codec.PropReplyToClient)
		if !dead {
			s.delay, _ = codec.LookupProperty(props, codec.PropDelayTimeLevel)
		}
	}
	if n := len(props); n > 0 && props[n-1] != codec.PropValueSeparator {
		props = append(props, codec.PropValueSeparator)
	}
	st.madeID = s.uniqKey == nil && !h.Batch
	if st.madeID {
		at := len(props)
		props = append(props, codec.PropUniqKey...)
		props = append(props, codec.PropNameSeparator)
		props = b.uniqueIDs.Append(props)
		s.uniqKey = props[at+len(codec.PropUniqKey)+1:]
		props = append(props, codec.PropValueSeparator)
	}
	st.props = append(props, b.ownProperties...)
	st.resp.TransactionID = s.uniqKey
	return s
}

// illegal tells what no message may have (Java HookUtils.checkInnerBatch, SendMessageProcessor.sendMessage);
// "" is nothing.
func (s *seen) illegal(h *codec.SendMessageHeader, t *topic.Topic, inner bool) string {
	switch {
	case h.SysFlag&codec.SysFlagInnerBatch != 0 && !inner:
		return "an inner batch is not taken: the queue type of topic " + t.Name + " is not BatchCQ"
	case s.innerNum && !inner:
		return "the property " + codec.PropInnerNum + " belongs to inner batches"
	case h.SysFlag&codec.SysFlagTransactionMask == codec.SysFlagTransactionRollback:
		return "the message is marked as rolled back"
	case t.Compaction && !s.keys && !h.Batch:
		return "Required message key is missing"
	}
	return ""
}

// special handles what makes a message more than a plain one. false: answered.
func (p *SendMessageProcessor) special(r *rpc.Request, st *sendTurn, s *seen) bool {
	b, h, m := p.b, &st.header, &st.msg
	level := 0
	if s.delay != nil {
		var err error
		if level, err = strconv.Atoi(string(s.delay)); err != nil {
			p.refuse(r, codec.RespMessageIllegal,
				fmt.Sprintf("the property DELAY has the value %q, which is no number", s.delay))
			return false
		}
	}
	prepared := s.transaction || h.SysFlag&codec.SysFlagTransactionMask == codec.SysFlagTransactionPrepared
	if prepared && !(h.ReconsumeTimes > 0 && level > 0) { // clients below 4.6.1 leave the mark on retries
		return p.prepare(r, st, s)
	}
	switch {
	case level > 0:
		b.svc().schedule.Rewrite(m, level)
		st.props = m.Properties
		st.resp.TransactionID, _ = codec.LookupProperty(m.Properties, codec.PropUniqKey)
	case s.timer && !s.timerOut:
		return p.specialTimed(r, st)
	}
	return true
}

// prepare makes a half message; a delay or timer takes effect when it is committed. false: answered.
func (p *SendMessageProcessor) prepare(r *rpc.Request, st *sendTurn, s *seen) bool {
	b, m := p.b, &st.msg
	switch {
	case b.o.Config.Broker().RejectTransactionMessage:
		p.refuse(r, codec.RespNoPermission, fmt.Sprintf("the broker[%s] sending transaction message is forbidden",
			b.storeHostText))
		return false
	case b.svc().transactions.Full():
		p.refuse(r, codec.RespSystemBusy, fmt.Sprintf("%d transactions are open, that is the limit", transaction.MaxOpen))
		return false
	case s.timer && !s.timerOut:
		probe := *m // what the timer would refuse at the commit is refused now
		if status, err := b.rewriteTimed(&probe); status != store.PutOK {
			code, remark := putError(&store.PutResult{Status: status, Err: err})
			p.refuse(r, code, remark)
			return false
		}
	}
	transaction.Rewrite(m)
	st.props = m.Properties
	st.resp.TransactionID, _ = codec.LookupProperty(m.Properties, codec.PropUniqKey)
	return true
}

// checkBatch looks at the batch and at every entry before anything is stored. false: answered.
func (p *SendMessageProcessor) checkBatch(r *rpc.Request, s *seen, m *codec.Message) bool {
	h := seen{}
	err := codec.EachBatchEntry(m.Body, func(i int, e codec.BatchEntry) error {
		for rest := e.Properties; ; {
			name, value, next, ok := codec.NextProperty(rest)
			if !ok {
				break
			}
			h.note(name, value)
			rest = next
		}
		if h.delayed() || h.timer || h.transaction {
			return fmt.Errorf("entry %d: a message of a batch can be neither delayed nor transactional", i)
		}
		return nil
	})
	if err == nil && (s.delayed() || s.timer || s.transaction) {
		err = fmt.Errorf("a batch can be neither delayed nor transactional")
	}
	if err != nil {
		p.refuse(r, codec.RespMessageIllegal, err.Error())
		return false
	}
	return true
}

// delayed tells that DELAY is anything but a number that means no delay.
func (s *seen) delayed() bool {
	if s.delay == nil {
		return false
	}
	level, err := strconv.Atoi(string(s.delay))
	return err != nil || level > 0
}
