package broker

import (
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// ConfigProcessor serves GET_BROKER_CONFIG (26): Java AdminBrokerProcessor.getBrokerConfig. Secrets are hidden.
type ConfigProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *ConfigProcessor) Process(r *rpc.Request) {
	version, err := body.Encode(&body.DataVersion{Timestamp: p.b.started})
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	codec.EncodeHeader(answer, &codec.GetBrokerConfigResponseHeader{Version: string(version)})
	answer.Body = []byte(p.b.o.Config.Describe())
	r.Reply(answer)
}
