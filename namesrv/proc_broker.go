package namesrv

import (
	"fmt"
	"hash/crc32"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

// Limits of what a broker says of itself.
const (
	maxNameBytes        = 1024 // of its name, cluster, zone and addresses
	maxHeartbeatTimeout = 24 * time.Hour
)

var brokerCodes = []int{codec.ReqRegisterBroker, codec.ReqUnregisterBroker, codec.ReqQueryDataVersion,
	codec.ReqBrokerHeartbeat, codec.ReqGetBrokerMemberGroup, codec.ReqGetBrokerClusterInfo,
	codec.ReqWipeWritePermOfBroker, codec.ReqAddWritePermOfBroker}

// BrokerProcessor serves what concerns brokers (Java DefaultRequestProcessor: 103, 104, 322, 904, 901, 106,
// 205, 327). Deviations: see the package comment on who may register what.
type BrokerProcessor struct{ ns *NameServer }

// Process implements rpc.Processor.
func (p *BrokerProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqRegisterBroker:
		p.register(r)
	case codec.ReqUnregisterBroker:
		p.unregister(r)
	case codec.ReqQueryDataVersion:
		p.queryDataVersion(r)
	case codec.ReqBrokerHeartbeat:
		p.heartbeat(r)
	case codec.ReqGetBrokerMemberGroup:
		p.memberGroup(r)
	case codec.ReqGetBrokerClusterInfo:
		replyJSON(r, p.ns.routes.ClusterInfo())
	case codec.ReqWipeWritePermOfBroker, codec.ReqAddWritePermOfBroker:
		p.changePerm(r)
	}
}

func (p *BrokerProcessor) register(r *rpc.Request) {
	reg, ok := decodeRegistration(r)
	if !ok {
		return
	}
	var res RegisterResult
	p.ns.peers.registering(r.Conn(), func() {
		var deadline time.Time
		p.ns.change(func() (eff Effects) {
			res, deadline, eff = p.ns.routes.Register(reg, p.ns.o.Clock.Now())
			return eff
		})
		if res.Status == RegisterOK {
			p.ns.expiry.arm(deadline)
		}
	})
	if res.Status == RegisterRefused {
		r.ReplyError(codec.RespSystemError, res.Remark)
		return
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	codec.EncodeHeader(answer, &codec.RegisterBrokerResponseHeader{HAServerAddr: res.HAServerAddr,
		MasterAddr: res.MasterAddr})
	if p.ns.settings().ReturnOrderTopicConfigToBroker {
		if table, ok := p.ns.kv.Namespace(codec.OrderTopicConfNamespace); ok {
			text, err := body.Encode(body.KVTable{Table: table})
			if err != nil {
				r.ReplyError(codec.RespSystemError, err.Error())
				return
			}
			answer.Body = text
		}
	}
	r.Reply(answer)
}

// decodeRegistration has answered when it is false.
func decodeRegistration(r *rpc.Request) (*Registration, bool) {
	var h codec.RegisterBrokerRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return nil, false
	}
	zone := r.Cmd.Get(codec.ExtZoneName)
	if !checkName(r, "brokerName", h.BrokerName, 1) || !checkName(r, "brokerAddr", h.BrokerAddr, 1) ||
		!checkName(r, "clusterName", h.ClusterName, 1) || !checkName(r, "haServerAddr", h.HAServerAddr, 0) ||
		!checkName(r, codec.ExtZoneName, zone, 0) {
		return nil, false
	}
	if h.BodyCRC32 != 0 && int32(crc32.ChecksumIEEE(r.Cmd.Body)&0x7FFFFFFF) != h.BodyCRC32 {
		r.ReplyError(codec.RespSystemError, "crc32 not match")
		return nil, false
	}
	b, err := body.DecodeRegisterBrokerBody(r.Cmd.Body, h.Compressed, r.Cmd.Version)
	if err != nil {
		r.ReplyError(codec.RespSystemError, "Failed to decode RegisterBrokerBody: "+err.Error())
		return nil, false
	}
	w := &b.TopicConfigSerializeWrapper
	reg := &Registration{
		BrokerIdentity: identity(h.ClusterName, h.BrokerName, h.BrokerAddr, h.BrokerID),
		HAServerAddr:   h.HAServerAddr,
		ZoneName:       zone,
		ActingMaster:   h.EnableActingMaster,
		DataVersion:    w.DataVersion,
		Topics:         w.TopicConfigTable,
		Mappings:       w.TopicQueueMappingInfoMap,
		FilterServers:  b.FilterServerList,
		Conn:           r.Conn().ID(),
	}
	if ms := h.HeartbeatTimeoutMillis; ms != nil && *ms > 0 {
		reg.Timeout = time.Duration(min(*ms, maxHeartbeatTimeout.Milliseconds())) * time.Millisecond
	}
	return reg, true
}

func identity(cluster, name, addr string, id int64) BrokerIdentity {
	return BrokerIdentity{Cluster: cluster, Name: name, Addr: addr, ID: id}
}

// checkName has answered when it is false.
func checkName(r *rpc.Request, field, value string, minBytes int) bool {
	why := ""
	switch {
	case len(value) < minBytes:
		why = fmt.Sprintf("the header field %q is empty", field)
	case len(value) > maxNameBytes:
		why = fmt.Sprintf("the header field %q is longer than %d bytes", field, maxNameBytes)
	default:
		return true
	}
	r.ReplyError(codec.RespInvalidParameter, why)
	return false
}

func (p *BrokerProcessor) unregister(r *rpc.Request) {
	var h codec.UnregisterBrokerRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	id := identity(h.ClusterName, h.BrokerName, h.BrokerAddr, h.BrokerID)
	p.ns.change(func() Effects { return p.ns.routes.Unregister(id) })
	r.OK()
}

func (p *BrokerProcessor) queryDataVersion(r *rpc.Request) {
	var h codec.QueryDataVersionRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	var version *body.DataVersion
	if len(r.Cmd.Body) > 0 {
		version = &body.DataVersion{}
		if err := body.Decode(r.Cmd.Body, version); err != nil {
			r.ReplyError(codec.RespSystemError, "the body is no DataVersion: "+err.Error())
			return
		}
	}
	id := identity(h.ClusterName, h.BrokerName, h.BrokerAddr, h.BrokerID)
	changed, known := p.ns.routes.QueryDataVersion(id, version, p.ns.o.Clock.Now())
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	codec.EncodeHeader(answer, &codec.QueryDataVersionResponseHeader{Changed: changed})
	if known != nil {
		text, err := body.Encode(known)
		if err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		answer.Body = text
	}
	r.Reply(answer)
}

func (p *BrokerProcessor) heartbeat(r *rpc.Request) {
	var h codec.BrokerHeartbeatRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	p.ns.routes.Heartbeat(h.ClusterName, h.BrokerAddr, p.ns.o.Clock.Now())
	r.OK()
}

func (p *BrokerProcessor) memberGroup(r *rpc.Request) {
	var h codec.GetBrokerMemberGroupRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	g := p.ns.routes.MemberGroup(h.ClusterName, h.BrokerName)
	replyJSON(r, body.GetBrokerMemberGroupResponseBody{BrokerMemberGroup: g})
}

func (p *BrokerProcessor) changePerm(r *rpc.Request) {
	var h codec.BrokerNameRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	var n int
	if r.Cmd.Code == codec.ReqWipeWritePermOfBroker {
		n = p.ns.routes.WipeWritePerm(h.BrokerName)
		r.ReplyHeader(&codec.WipeWritePermOfBrokerResponseHeader{WipeTopicCount: int32(n)})
	} else {
		n = p.ns.routes.AddWritePerm(h.BrokerName)
		r.ReplyHeader(&codec.AddWritePermOfBrokerResponseHeader{AddTopicCount: int32(n)})
	}
	p.ns.o.Log.Info("write permission of a broker changed", "code", r.Cmd.Code, "broker", h.BrokerName,
		"topics", n, "remote", r.Conn().RemoteAddr())
}
