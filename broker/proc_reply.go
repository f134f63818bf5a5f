package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"skylark/broker/reply"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor"
	"skylark/reactor/rpc"
	"skylark/store"
)

// ReplyMessageProcessor serves SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325): Java ReplyMessageProcessor. The
// reply is stored (storeReplyMessageEnable) and pushed to the requester; the answer comes when the requester has
// confirmed it, and under SYNC_FLUSH when it is on disk too. Nothing waits meanwhile but the answer.
//
// The answer tells of the push alone, as in Java: 0 with the id of the stored reply, or "0" when it could not be stored;
// 1 when the requester did not get it, whether stored or not.
//
// Deviations: docs/compat.md.
type ReplyMessageProcessor struct {
	b    *Broker
	send *SendMessageProcessor
}

// makeReplies wires request-reply to the rest.
func (b *Broker) makeReplies() {
	b.requesters = reply.NewRequesters()
	b.replies = reply.NewPusher(reply.Options{Find: b.requester, Call: b.server.CallAsync,
		StoreHost: func() netip.AddrPort { return b.storeHost }, Clock: b.clock, Log: b.o.Log.With("part", "reply")})
}

// requester is the open connection of a client: a producer's by its heartbeats, else the one its last request came by.
func (b *Broker) requester(clientID string) reactor.Conn {
	if cl := b.producers.ByClientID(clientID); cl != nil {
		return cl.Conn
	}
	return b.requesters.Find(clientID)
}

// noteRequester remembers who has sent a request.
func (b *Broker) noteRequester(clientID []byte, c reactor.Conn) {
	b.requesters.Note(clientID, c)
	b.forgetIfClosed(c)
}

// Process implements rpc.Processor.
func (p *ReplyMessageProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.SendMessageHeader
	if err := h.Decode(r.Cmd); err != nil {
		p.send.refuse(r, codec.RespInvalidParameter, err.Error())
		return
	}
	if p.send.tooEarly(r) {
		return
	}
	t := b.topics.Lookup(h.Topic)
	if t == nil {
		if t = p.send.createTopic(r, &h); t == nil {
			return
		}
	}
	if p.send.refused(r, &h, t) {
		return
	}
	props := h.Properties.AppendValue(nil)
	w := &pendingReply{b: b, d: r.Defer(), queueID: h.QueueID}
	if h.QueueID < 0 {
		w.queueID = anyQueue(t)
	}
	w.left.Store(2)
	b.inflight.add()
	p.store(r, &h, t, props, w)
	b.replies.Push(&reply.Reply{Header: &h, Properties: props, Body: r.Cmd.Body, From: r.Conn().RemoteAddr()},
		func(remark string) {
			w.remark = remark
			w.done()
		})
}

// pendingReply is an answer that waits for the requester and the disk.
type pendingReply struct {
	b       *Broker
	d       rpc.Deferred
	queueID int32
	put     store.PutResult
	stored  bool   // as durable as promised
	remark  string // of the push
	left    atomic.Int32
}

// done ends one of the two; the second answers.
func (w *pendingReply) done() {
	if w.left.Add(-1) > 0 {
		return
	}
	defer w.b.inflight.done()
	answer := w.d.Response(codec.RespSuccess, w.remark)
	answer.Set(codec.PropMsgRegion, w.b.cfg.broker.RegionId)
	answer.SetBool(codec.PropTraceSwitch, w.b.cfg.broker.TraceOn)
	if w.remark != "" {
		answer.Code = codec.RespSystemError
	}
	switch {
	case w.stored:
		codec.EncodeHeader(answer, &codec.SendMessageResponseHeader{MsgID: offsetMsgID(w.b.storeHost, w.put.PhyOffset),
			QueueID: w.queueID, QueueOffset: w.put.QueueOffset})
	case w.remark == "": // clients want the fields
		codec.EncodeHeader(answer, &codec.SendMessageResponseHeader{MsgID: "0", QueueID: w.queueID})
	}
	_ = w.d.Reply(answer) // a closed connection needs no answer
}

// store puts the reply into its topic and ends that part of w, now or when it is durable. What keeps it from being
// stored is logged: the requester gets it all the same.
func (p *ReplyMessageProcessor) store(r *rpc.Request, h *codec.SendMessageHeader, t *topic.Topic, props []byte,
	w *pendingReply) {
	b := p.b
	if !b.o.Config.Broker().StoreReplyMessageEnable {
		w.done()
		return
	}
	m, err := p.message(r, h, t, props, w.queueID)
	if err == nil {
		if w.put = b.store.Append(m); w.put.Status != store.PutOK {
			_, remark := putError(&w.put)
			err = errors.New(remark)
		}
	}
	if err != nil {
		b.log.Warn("reply not stored", "topic", t.Name, "remote", r.Conn().RemoteAddr(), "error", err)
		w.done()
		return
	}
	b.countPut(t, m, &w.put, w.put.StoreTimestamp-r.Millis())
	flushed := func(status store.PutStatus) {
		w.stored = status != store.ServiceNotAvailable
		w.done()
	}
	if !m.WaitStoreMsgOK || !b.syncDurability() || b.store.Durable(w.put.EndOffset, b.syncFlushTimeout(), flushed) {
		flushed(store.PutOK)
	}
}

// message is the reply as it is stored: its properties as they came. A delay holds up the stored copy only.
func (p *ReplyMessageProcessor) message(r *rpc.Request, h *codec.SendMessageHeader, t *topic.Topic, props []byte,
	queueID int32) (*codec.Message, error) {
	b := p.b
	m := &codec.Message{Topic: t.Name, QueueID: queueID, Flag: h.Flag, SysFlag: h.SysFlag & replySysFlags,
		BornTimestamp: h.BornTimestamp, BornHost: r.Conn().RemoteAddr(), StoreHost: b.storeHost,
		ReconsumeTimes: h.ReconsumeTimes, Body: r.Cmd.Body, Properties: props}
	var s seen
	for name, value := range codec.EachProperty(props) {
		s.note(name, value)
	}
	m.WaitStoreMsgOK = !s.noWait
	if why := s.illegal(h, t, false); why != "" {
		return nil, errors.New(why)
	}
	level := 0
	if s.delay != nil {
		var err error
		if level, err = strconv.Atoi(string(s.delay)); err != nil {
			return nil, fmt.Errorf("the property DELAY has the value %q, which is no number", s.delay)
		}
	}
	switch {
	case level > 0:
		b.svc().schedule.Rewrite(m, level)
	case s.timer && !s.timerOut:
		if status, err := b.rewriteTimed(m); status != store.PutOK {
			return nil, fmt.Errorf("%v: %w", status, err)
		}
	}
	return m, nil
}

// replySysFlags are the flags that tell how to read the body.
const replySysFlags = codec.SysFlagCompressed | codec.SysFlagCompressionMask

// tooEarly refuses sends before startAcceptSendRequestTimeStamp.
func (p *SendMessageProcessor) tooEarly(r *rpc.Request) bool {
	at := p.b.startAccept.Load()
	if r.Millis() >= at {
		return false
	}
	p.refuse(r, codec.RespSystemError, "broker unable to service, until "+
		time.UnixMilli(at).Format("2006-01-02 15:04:05,000"))
	return true
}
