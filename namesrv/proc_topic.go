package namesrv

import (
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

var topicCodes = []int{codec.ReqGetAllTopicListFromNameserver, codec.ReqDeleteTopicInNamesrv,
	codec.ReqRegisterTopicInNamesrv, codec.ReqGetTopicsByCluster, codec.ReqGetSystemTopicListFromNS,
	codec.ReqGetUnitTopicList, codec.ReqGetHasUnitSubTopicList, codec.ReqGetHasUnitSubUnunitTopicList}

// TopicProcessor serves what concerns topics (Java DefaultRequestProcessor: 206, 216, 217, 224, 304, 311,
// 312, 313).
type TopicProcessor struct{ ns *NameServer }

// Process implements rpc.Processor.
func (p *TopicProcessor) Process(r *rpc.Request) {
	routes := p.ns.routes
	switch r.Cmd.Code {
	case codec.ReqGetAllTopicListFromNameserver:
		p.list(r, p.ns.settings().EnableAllTopicList, routes.AllTopics)
	case codec.ReqGetTopicsByCluster:
		p.byCluster(r)
	case codec.ReqGetSystemTopicListFromNS:
		replyJSON(r, routes.SystemTopics())
	case codec.ReqGetUnitTopicList:
		p.unit(r, func(flag int32) bool { return flag&codec.TopicFlagUnit != 0 })
	case codec.ReqGetHasUnitSubTopicList:
		p.unit(r, func(flag int32) bool { return flag&codec.TopicFlagUnitSub != 0 })
	case codec.ReqGetHasUnitSubUnunitTopicList:
		p.unit(r, func(flag int32) bool {
			return flag&codec.TopicFlagUnitSub != 0 && flag&codec.TopicFlagUnit == 0
		})
	case codec.ReqDeleteTopicInNamesrv:
		p.remove(r)
	case codec.ReqRegisterTopicInNamesrv:
		p.register(r)
	}
}

func (p *TopicProcessor) list(r *rpc.Request, enabled bool, topics func() []string) {
	if !enabled {
		r.ReplyError(codec.RespSystemError, "disable")
		return
	}
	replyJSON(r, body.TopicList{TopicList: topics()})
}

func (p *TopicProcessor) unit(r *rpc.Request, f func(flag int32) bool) {
	p.list(r, p.ns.settings().EnableTopicList, func() []string { return p.ns.routes.UnitTopics(f) })
}

func (p *TopicProcessor) byCluster(r *rpc.Request) {
	var h codec.GetTopicsByClusterRequestHeader
	enabled := p.ns.settings().EnableTopicList
	if enabled && !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	p.list(r, enabled, func() []string { return p.ns.routes.TopicsByCluster(h.Cluster) })
}

func (p *TopicProcessor) remove(r *rpc.Request) {
	var h codec.DeleteTopicInNamesrvRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	n := p.ns.routes.DeleteTopic(h.Topic, h.ClusterName)
	p.ns.o.Log.Info("topic deleted", "topic", h.Topic, "cluster", h.ClusterName, "brokers", n, "remote",
		r.Conn().RemoteAddr())
	r.OK()
}

// register takes one topic of a 5.x broker; one that cannot be taken is ignored, as in Java.
func (p *TopicProcessor) register(r *rpc.Request) {
	var h codec.DeleteTopicInNamesrvRequestHeader // the topic alone, as RegisterTopicRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	var route body.TopicRouteData
	if len(r.Cmd.Body) > 0 {
		if err := body.Decode(r.Cmd.Body, &route); err != nil {
			r.ReplyError(codec.RespSystemError, "the body is no TopicRouteData: "+err.Error())
			return
		}
	}
	if len(route.QueueDatas) > 0 {
		p.ns.change(func() Effects { return p.ns.routes.RegisterTopic(h.Topic, route.QueueDatas) })
	}
	r.OK()
}
