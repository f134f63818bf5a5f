package namesrv

import (
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

var kvCodes = []int{codec.ReqPutKVConfig, codec.ReqGetKVConfig, codec.ReqDeleteKVConfig,
	codec.ReqGetKVListByNamespace}

// KVProcessor serves the KV configuration (Java DefaultRequestProcessor: 100, 101, 102, 219). A change that
// cannot be written is SYSTEM_ERROR, where Java logs and answers success.
type KVProcessor struct{ ns *NameServer }

// Process implements rpc.Processor.
func (p *KVProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqPutKVConfig:
		p.put(r)
	case codec.ReqGetKVConfig:
		p.get(r)
	case codec.ReqDeleteKVConfig:
		p.remove(r)
	case codec.ReqGetKVListByNamespace:
		p.list(r)
	}
}

func (p *KVProcessor) put(r *rpc.Request) {
	var h codec.PutKVConfigRequestHeader
	if err := codec.DecodeHeader(r.Cmd, &h); err != nil {
		r.ReplyError(codec.RespSystemError, "namespace or key is null: "+err.Error())
		return
	}
	if err := p.ns.kv.Put(h.Namespace, h.Key, h.Value); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	p.ns.o.Log.Info("KV configuration put", "namespace", h.Namespace, "key", h.Key, "value", h.Value, "remote",
		r.Conn().RemoteAddr())
	r.OK()
}

func (p *KVProcessor) get(r *rpc.Request) {
	var h codec.KVConfigRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	value, ok := p.ns.kv.Get(h.Namespace, h.Key)
	if !ok {
		r.ReplyError(codec.RespQueryNotFound, "No config item, Namespace: "+h.Namespace+" Key: "+h.Key)
		return
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	answer.Set("value", value) // also an empty one
	r.Reply(answer)
}

func (p *KVProcessor) remove(r *rpc.Request) {
	var h codec.KVConfigRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if err := p.ns.kv.Delete(h.Namespace, h.Key); err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	p.ns.o.Log.Info("KV configuration deleted", "namespace", h.Namespace, "key", h.Key, "remote",
		r.Conn().RemoteAddr())
	r.OK()
}

func (p *KVProcessor) list(r *rpc.Request) {
	var h codec.GetKVListByNamespaceRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	table, ok := p.ns.kv.Namespace(h.Namespace)
	if !ok {
		r.ReplyError(codec.RespQueryNotFound, "No config item, Namespace: "+h.Namespace)
		return
	}
	replyJSON(r, body.KVTable{Table: table})
}
