package namesrv

import (
	"strings"
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor/rpc"
)

const routeCode = codec.ReqGetRouteInfoByTopic

// faqRemark is what Java appends to the remark of an unknown topic.
const faqRemark = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// RouteProcessor answers GET_ROUTEINFO_BY_TOPIC (105; Java ClientRequestProcessor with ZoneRouteRPCHook). A
// request without topic is INVALID_PARAMETER.
type RouteProcessor struct{ ns *NameServer }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p *RouteProcessor) ProcessOnLoop(r *rpc.Request) bool { return p.serve(r, false) }

// Process implements rpc.Processor.
func (p *RouteProcessor) Process(r *rpc.Request) { p.serve(r, true) }

// serve is false if it would have had to wait. The header is read by hand: a cached route costs no
// allocation.
func (p *RouteProcessor) serve(r *rpc.Request, mayWait bool) bool {
	cfg := p.ns.settings()
	if cfg.NeedWaitForService {
		wait := time.Duration(cfg.WaitSecondsForService) * time.Second
		if p.ns.o.Clock.Now().Sub(p.ns.started) < wait {
			r.ReplyError(codec.RespSystemError, "name server not ready")
			return true
		}
	}
	field := r.Cmd.Lookup("topic")
	if field == nil {
		missing := codec.HeaderError{Field: "topic", Want: "required"}
		r.ReplyError(codec.RespInvalidParameter, missing.Error())
		return true
	}
	topic := field.Value
	if field.Escaped {
		topic = field.AppendValue(nil)
	}
	form := routeForm{acting: cfg.SupportActingMaster,
		standard: r.Cmd.Version >= codec.Version494 || isTrue(r.Cmd, codec.ExtStandardJSONOnly)}
	if cfg.OrderMessageEnable {
		form.order = p.ns.kv.orderConf(topic)
	}
	if zone := zoneOf(r.Cmd); zone != "" {
		if mayWait {
			p.serveZone(r, string(topic), zone, form)
		}
		return mayWait
	}
	if text := p.ns.routes.CachedRoute(topic, form); text != nil {
		replyRoute(r, text)
		return true
	}
	text, ok, err := p.ns.routes.EncodedRoute(string(topic), form, mayWait)
	switch {
	case !ok:
		return false
	case err != nil:
		r.ReplyError(codec.RespSystemError, err.Error())
	case text == nil:
		replyNoRoute(r, string(topic))
	default:
		replyRoute(r, text)
	}
	return true
}

// replyRoute is ReplyBody without an allocation.
func replyRoute(r *rpc.Request, text []byte) {
	if r.Cmd.IsOneway() {
		return
	}
	answer := codec.Command{Language: codec.LanguageJava, Version: codec.AnnouncedVersion,
		Opaque: r.Cmd.Opaque, Flag: codec.FlagResponse, Type: r.Cmd.Type}
	out := r.Out()
	out.SetBuffer(append(answer.AppendHeader(out.Buffer(), len(text)), text...))
}

func replyNoRoute(r *rpc.Request, topic string) {
	r.ReplyError(codec.RespTopicNotExist,
		"No topic route info in name server for the topic: "+topic+faqRemark)
}

// serveZone answers the brokers of a zone, always in the legacy form as Java does.
func (p *RouteProcessor) serveZone(r *rpc.Request, topic, zone string, form routeForm) {
	route := p.ns.routes.Route(topic)
	if route == nil {
		replyNoRoute(r, topic)
		return
	}
	route.OrderTopicConf = form.order
	FilterZone(route, zone)
	replyJSON(r, route)
}

// zoneOf is the zone that the requester wants to keep to, "" for none.
func zoneOf(c *codec.Command) string {
	if !isTrue(c, codec.ExtZoneMode) {
		return ""
	}
	zone := c.Get(codec.ExtZoneName)
	if strings.TrimSpace(zone) == "" {
		return ""
	}
	return zone
}

// isTrue is Java's Boolean.parseBoolean of a field.
func isTrue(c *codec.Command, key string) bool {
	f := c.Lookup(key)
	return f != nil && strings.EqualFold(f.Text(), "true")
}

// replyJSON answers a body in legacy form.
func replyJSON(r *rpc.Request, v any) {
	text, err := body.Encode(v)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.ReplyBody(text)
}
