package broker

import (
	"fmt"
	"strconv"

	"skylark/codec"
	"skylark/config"
	"skylark/reactor/rpc"
)

// ColdProcessor serves UPDATE_COLD_DATA_FLOW_CTR_CONFIG (2001), REMOVE_COLD_DATA_FLOW_CTR_CONFIG (2002),
// GET_COLD_DATA_FLOW_CTR_INFO (2003) and SET_COMMITLOG_READ_MODE (2004): Java AdminBrokerProcessor.
//
// Deviations: a threshold that is no number refuses the request, where Java logs it and says success. Mode 1 (random)
// stops reading ahead and leaves the mappings' advice alone: nothing here reads the log by page faults.
type ColdProcessor struct{ b *Broker }

// Modes of SET_COMMITLOG_READ_MODE: the numbers of madvise.
const (
	readModeNormal = 0
	readModeRandom = 1
)

// Process implements rpc.Processor.
func (p *ColdProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqUpdateColdDataFlowCtrConfig:
		p.update(r)
	case codec.ReqRemoveColdDataFlowCtrConfig:
		p.b.cold.Remove(string(r.Cmd.Body))
		r.OK()
	case codec.ReqGetColdDataFlowCtrInfo:
		info := p.b.cold.Info()
		p.b.replyJSON(r, &info)
	default:
		p.setReadMode(r)
	}
}

// update takes a body of properties, group=bytes a line.
func (p *ColdProcessor) update(r *rpc.Request) {
	file, err := config.Parse(string(r.Cmd.Body), "request body")
	if err != nil {
		r.ReplyError(codec.RespSystemError, "string2Properties error: "+err.Error())
		return
	}
	thresholds := map[string]int64{}
	for group, text := range file.Map() {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || codec.ValidateGroup(group) != nil {
			r.ReplyError(codec.RespInvalidParameter, fmt.Sprintf("%s=%s is not a group and a number of bytes", group, text))
			return
		}
		thresholds[group] = v
	}
	for group, v := range thresholds {
		if err := p.b.cold.Set(group, v); err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		p.b.log.Info("cold read threshold set", "group", group, "bytes", v, "remote", r.Conn().RemoteAddr())
	}
	r.OK()
}

func (p *ColdProcessor) setReadMode(r *rpc.Request) {
	text := r.Cmd.Get("READ_AHEAD_MODE")
	mode, err := strconv.Atoi(text)
	switch {
	case text == "":
		r.ReplyError(codec.RespSystemError, "set commitlog readahead mode param error")
	case err != nil:
		r.ReplyError(codec.RespSystemError, "set commitlog readahead mode failed")
	case mode != readModeNormal && mode != readModeRandom:
		r.ReplyError(codec.RespInvalidParameter, "set commitlog readahead mode param value error")
	default:
		p.b.store.SetReadAhead(mode == readModeNormal)
		r.Reply(codec.NewResponse(r.Cmd, codec.RespSuccess, "set commitlog readahead mode success, mode: "+text))
	}
}
