package broker

import (
	"fmt"

	"skylark/codec"
	"skylark/reactor/rpc"
)

// QueryMessageProcessor serves QUERY_MESSAGE (12) and VIEW_MESSAGE_BY_ID (33): Java QueryMessageProcessor.
// They read what may be cold, so they never run on a loop.
type QueryMessageProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *QueryMessageProcessor) Process(r *rpc.Request) {
	if r.Cmd.Code == codec.ReqViewMessageByID {
		p.view(r)
		return
	}
	var h codec.QueryMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	maxNum := int(h.MaxNum)
	if r.Cmd.Get(codec.ExtUniqueKeyQuery) == "true" {
		maxNum = p.b.cfg.store.DefaultQueryMaxNum
	}
	records, lastUpdate, lastPhy := p.b.store.QueryByKey(h.Topic, h.Key, maxNum, h.BeginTimestamp,
		h.EndTimestamp)
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	codec.EncodeHeader(answer, &codec.QueryMessageResponseHeader{IndexLastUpdateTimestamp: lastUpdate,
		IndexLastUpdatePhyOffset: lastPhy})
	if len(records) == 0 {
		answer.Code, answer.Remark = codec.RespQueryNotFound, "can not find message, maybe time range not correct"
	}
	for _, rec := range records {
		answer.Body = append(answer.Body, rec...)
	}
	r.Reply(answer)
}

func (p *QueryMessageProcessor) view(r *rpc.Request) {
	var h codec.ViewMessageRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	rec, err := p.b.store.ReadRecord(h.Offset, nil)
	if err != nil {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("can not find message by the offset, %d", h.Offset))
		return
	}
	r.ReplyBody(rec)
}
