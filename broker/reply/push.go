package reply

import (
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
)

// Timeout is how long a requester may take to confirm a reply (Java Broker2Client.callClient).
const Timeout = 10 * time.Second

// Options of a Pusher; all are set.
type Options struct {
	// Find gives the connection of a client, nil when there is none.
	Find func(clientID string) reactor.Conn
	// Call sends a request to a client and calls done once, with its answer or an error. It keeps nothing of the request.
	Call func(c reactor.Conn, req *codec.Command, timeout time.Duration, done func(*codec.Command, error))
	// StoreHost is the broker's address as the requester sees it in the reply.
	StoreHost func() netip.AddrPort
	Clock     clock.Clock
	Log       *slog.Logger
}

// Pusher pushes replies to requesters.
type Pusher struct{ o Options }

// NewPusher makes a Pusher.
func NewPusher(o Options) *Pusher { return &Pusher{o: o} }

// Reply is what SEND_REPLY_MESSAGE brought. Push keeps nothing of it.
type Reply struct {
	Header *codec.SendMessageHeader
	// Properties are the header's, without escapes.
	Properties []byte
	Body       []byte
	// From is who replies.
	From netip.AddrPort
}

// Push sends a reply to the client that its property REPLY_TO_CLIENT names. done is called once, maybe before Push
// returns, with Java's remark on what went wrong, or "" when the requester has confirmed the reply.
func (p *Pusher) Push(r *Reply, done func(remark string)) {
	id, ok := codec.LookupProperty(r.Properties, codec.PropReplyToClient)
	if !ok {
		p.o.Log.Warn("reply names no client", "topic", string(r.Header.Topic), "remote", r.From)
		done("reply message properties[" + codec.PropReplyToClient + "] is null")
		return
	}
	clientID := string(id)
	c := p.o.Find(clientID)
	if c == nil {
		p.o.Log.Warn("requester is not connected", "client", clientID, "topic", string(r.Header.Topic), "remote", r.From)
		done("push reply message fail, channel of <" + clientID + "> not found.")
		return
	}
	p.o.Call(c, p.request(r), Timeout, func(answer *codec.Command, err error) {
		switch {
		case err != nil:
			p.o.Log.Warn("reply not pushed", "client", clientID, "remote", c.RemoteAddr(), "error", err)
		case answer.Code != codec.RespSuccess:
			p.o.Log.Warn("requester refused its reply", "client", clientID, "remote", c.RemoteAddr(), "code", answer.Code,
				"remark", answer.Remark)
		default:
			done("")
			return
		}
		done("push reply message to " + clientID + "fail.") // sic
	})
}

// request makes PUSH_REPLY_MESSAGE_TO_CLIENT (326): the header of the reply with the time of the push.
func (p *Pusher) request(r *Reply) *codec.Command {
	h, now := r.Header, p.o.Clock.Millis()
	props := codec.RemoveProperty(nil, r.Properties, codec.PropPushReplyTime)
	props = codec.AppendProperty(props, codec.PropPushReplyTime, strconv.FormatInt(now, 10))
	req := codec.NewRequest(codec.ReqPushReplyMessageToClient)
	codec.EncodeHeader(req, &codec.ReplyMessageRequestHeader{ProducerGroup: string(h.ProducerGroup), Topic: string(h.Topic),
		DefaultTopic: string(h.DefaultTopic), DefaultTopicQueueNums: h.DefaultTopicQueueNums, QueueID: h.QueueID,
		SysFlag: h.SysFlag, BornTimestamp: h.BornTimestamp, Flag: h.Flag, Properties: string(props),
		ReconsumeTimes: &h.ReconsumeTimes, UnitMode: h.UnitMode, BornHost: hostPort(r.From),
		StoreHost: hostPort(p.o.StoreHost()), StoreTimestamp: now})
	req.Body = r.Body
	return req
}

// hostPort is "ip:port" as Java writes and splits it: no brackets around an IPv6 address.
func hostPort(a netip.AddrPort) string {
	return a.Addr().String() + ":" + strconv.Itoa(int(a.Port()))
}
