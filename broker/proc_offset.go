package broker

import (
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

// OffsetProcessor serves SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31) and
// GET_EARLIEST_MSG_STORETIME (32): Java AdminBrokerProcessor. An unknown queue has the offsets 0, as there.
type OffsetProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *OffsetProcessor) Process(r *rpc.Request) {
	st := p.b.store
	switch r.Cmd.Code {
	case codec.ReqSearchOffsetByTimestamp:
		var h codec.SearchOffsetRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			boundary := store.BoundaryLower
			if h.Upper() {
				boundary = store.BoundaryUpper
			}
			r.ReplyHeader(&codec.OffsetResponseHeader{Offset: st.OffsetByTime(h.Topic, h.QueueID, h.Timestamp,
				boundary)})
		}
	case codec.ReqGetMaxOffset:
		var h codec.GetMaxOffsetRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			r.ReplyHeader(&codec.OffsetResponseHeader{Offset: st.MaxOffset(h.Topic, h.QueueID)})
		}
	case codec.ReqGetMinOffset:
		var h codec.TopicQueueRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			r.ReplyHeader(&codec.OffsetResponseHeader{Offset: st.MinOffset(h.Topic, h.QueueID)})
		}
	case codec.ReqGetEarliestMsgStoreTime:
		var h codec.TopicQueueRequestHeader
		if r.Decode(&h, codec.RespInvalidParameter) {
			r.ReplyHeader(&codec.GetEarliestMsgStoreTimeResponseHeader{Timestamp: st.EarliestStoreTime(h.Topic,
				h.QueueID)})
		}
	}
}
