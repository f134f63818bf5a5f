package broker

import (
	"errors"
	"fmt"
	"time"

	"skylark/broker/conn"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// ConnectionProcessor serves what tools ask about clients: GET_CONSUMER_CONNECTION_LIST (203),
// GET_PRODUCER_CONNECTION_LIST (204), GET_ALL_PRODUCER_INFO (328), and what it passes on to them:
// GET_CONSUMER_RUNNING_INFO (307) and CONSUME_MESSAGE_DIRECTLY (309). Java AdminBrokerProcessor,
// Broker2Client.
type ConnectionProcessor struct{ b *Broker }

// forwardTimeout bounds a call to a client (Java: 10 s).
const forwardTimeout = 10 * time.Second

// Process implements rpc.Processor.
func (p *ConnectionProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqGetConsumerConnectionList:
		p.consumerConnections(r)
	case codec.ReqGetProducerConnectionList:
		p.producerConnections(r)
	case codec.ReqGetAllProducerInfo:
		p.allProducers(r)
	case codec.ReqGetConsumerRunningInfo:
		p.runningInfo(r)
	case codec.ReqConsumeMessageDirectly:
		p.consumeDirectly(r)
	}
}

func connections(clients []*conn.Client) []*body.Connection {
	out := make([]*body.Connection, 0, len(clients))
	for _, c := range clients {
		out = append(out, &body.Connection{ClientAddr: c.Conn.RemoteAddr().String(), ClientID: c.ID,
			Language: c.Language, Version: int32(c.Version)})
	}
	return out
}

func (p *ConnectionProcessor) consumerConnections(r *rpc.Request) {
	var h codec.ConsumerGroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	cg := p.b.consumers.Get(h.ConsumerGroup)
	if cg == nil {
		r.ReplyError(codec.RespConsumerNotOnline, fmt.Sprintf("the consumer group[%s] not online", h.ConsumerGroup))
		return
	}
	typ, from := cg.Type()
	answer := &body.ConsumerConnection{ConnectionSet: connections(cg.Clients()), ConsumeType: typ,
		ConsumeFromWhere: from, MessageModel: cg.Model(), SubscriptionConflict: cg.Conflict(),
		SubscriptionTable: map[string]*body.SubscriptionData{}}
	for t, s := range cg.Subscriptions() {
		d := s.Data
		if answer.SubscriptionConflict != "" && t != codec.RetryTopic(h.ConsumerGroup) {
			// mqadmin and the dashboard print this text and do nothing else with it
			d.SubString += "  (MEMBERS SUBSCRIBE DIFFERENTLY: " + answer.SubscriptionConflict + ")"
		}
		answer.SubscriptionTable[t] = &d
	}
	p.b.replyJSON(r, answer)
}

func (p *ConnectionProcessor) producerConnections(r *rpc.Request) {
	var h codec.ProducerGroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	clients := p.b.producers.Clients(h.ProducerGroup)
	if len(clients) == 0 {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("the producer group[%s] not exist", h.ProducerGroup))
		return
	}
	p.b.replyJSON(r, &body.ProducerConnection{ConnectionSet: connections(clients)})
}

func (p *ConnectionProcessor) allProducers(r *rpc.Request) {
	table := &body.ProducerTableInfo{Data: map[string][]*body.ProducerInfo{}}
	for _, g := range p.b.producers.Groups() {
		for _, c := range p.b.producers.Clients(g) {
			table.Data[g] = append(table.Data[g], &body.ProducerInfo{ClientID: c.ID, Language: c.Language,
				Version: int32(c.Version), RemoteIP: c.Conn.RemoteAddr().String(), LastUpdateTimestamp: c.LastUpdate})
		}
	}
	p.b.replyJSON(r, table)
}

func (p *ConnectionProcessor) runningInfo(r *rpc.Request) {
	var h codec.GetConsumerRunningInfoRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	req := codec.NewRequest(r.Cmd.Code)
	copyFields(req, r.Cmd)
	p.forward(r, h.ConsumerGroup, h.ClientID, req)
}

func (p *ConnectionProcessor) consumeDirectly(r *rpc.Request) {
	var h codec.ConsumeMessageDirectlyRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	rec, view, err := p.messageOf(r, h.MsgID)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	req := codec.NewRequest(r.Cmd.Code)
	copyFields(req, r.Cmd)
	req.Set("brokerName", p.b.cfg.broker.BrokerName)
	if t := p.b.topics.Lookup(view.Topic); t != nil { // the request need not name it
		req.SetInt("topicSysFlag", int64(t.Config.TopicSysFlag))
	}
	if g := p.b.groups.Get(h.ConsumerGroup); g != nil {
		req.SetInt("groupSysFlag", int64(g.Config.GroupSysFlag))
	}
	req.Body = rec
	p.forward(r, h.ConsumerGroup, h.ClientID, req)
}

// messageOf is the message that a client shall consume: the stored one of an offset message id, or without an id the one
// in the request's body, as stored messages are.
func (p *ConnectionProcessor) messageOf(r *rpc.Request, id string) (rec []byte, view codec.Record, err error) {
	switch {
	case id != "":
		_, at, err := codec.ParseOffsetMsgID(id)
		if err != nil {
			return nil, view, fmt.Errorf("the header field \"msgId\" is no offset message id: %w", err)
		}
		if rec, err = p.b.store.ReadRecord(at, nil); err != nil {
			return nil, view, fmt.Errorf("message %s not found: %w", id, err)
		}
	case len(r.Cmd.Body) > 0:
		rec = r.Cmd.Body
	default:
		return nil, view, errors.New("the header field \"msgId\" is missing, and there is no message in the body")
	}
	if view, err = codec.ParseRecord(rec, true); err != nil {
		return nil, view, fmt.Errorf("the message cannot be read: %w", err)
	}
	return rec, view, nil
}

// forward passes a request to a client and its answer back, without a goroutine that waits.
func (p *ConnectionProcessor) forward(r *rpc.Request, groupName, clientID string, req *codec.Command) {
	b := p.b
	var cl *conn.Client
	if cg := b.consumers.Get(groupName); cg != nil {
		cl = cg.Client(clientID)
	}
	if cl == nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("The Consumer <%s> <%s> not online", groupName, clientID))
		return
	}
	if cl.Version < codec.Version318Snapshot {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("The Consumer <%s> Version <%s> too low to finish, "+
			"please upgrade it to V3_1_8_SNAPSHOT", clientID, codec.VersionName(cl.Version)))
		return
	}
	d := r.Defer()
	b.inflight.add()
	b.server.CallAsync(cl.Conn, req, forwardTimeout, func(answer *codec.Command, err error) {
		defer b.inflight.done()
		out := d.Response(codec.RespSystemError, "")
		switch {
		case errors.Is(err, rpc.ErrCallTimeout):
			out.Code = codec.RespConsumeMsgTimeout
			out.Remark = fmt.Sprintf("consumer <%s> <%s> Timeout: %v", groupName, clientID, err)
		case err != nil:
			out.Remark = fmt.Sprintf("invoke consumer <%s> <%s> Exception: %v", groupName, clientID, err)
		default:
			out.Code, out.Remark, out.Body = answer.Code, answer.Remark, answer.Body
			copyFields(out, answer)
		}
		_ = d.Reply(out) // the tool may be gone
	})
}
