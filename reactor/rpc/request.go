package rpc

import (
	"errors"

	"skylark/codec"
	"skylark/reactor"
)

// Request is one request while it is served. It and its command live until Process returns; Defer makes what is
// needed to answer later.
type Request struct {
	Cmd  *codec.Command
	turn *Turn
}

// Conn is where the request came from.
func (r *Request) Conn() reactor.Conn { return r.turn.conn }

// Turn is the request's turn.
func (r *Request) Turn() *Turn { return r.turn }

// OnLoop tells that an event loop serves the request: nothing may wait.
func (r *Request) OnLoop() bool { return r.turn.onLoop }

// Millis is when the turn began, ms since 1970.
func (r *Request) Millis() int64 { return r.turn.millis }

// Reply puts the answer into the turn's outbox; a oneway request gets none.
func (r *Request) Reply(c *codec.Command) {
	if !r.Cmd.IsOneway() {
		r.turn.out.SetBuffer(c.AppendTo(r.turn.out.Buffer()))
	}
}

// OK answers code 0 without fields or body.
func (r *Request) OK() { r.Reply(codec.NewResponse(r.Cmd, 0, "")) }

// ReplyError answers a code with a remark.
func (r *Request) ReplyError(code int, remark string) {
	r.Reply(codec.NewResponse(r.Cmd, code, remark))
}

// ReplyBody answers code 0 with a body.
func (r *Request) ReplyBody(body []byte) {
	c := codec.NewResponse(r.Cmd, 0, "")
	c.Body = body
	r.Reply(c)
}

// ReplyHeader answers code 0 with the fields of a header struct.
func (r *Request) ReplyHeader(header any) {
	c := codec.NewResponse(r.Cmd, 0, "")
	codec.EncodeHeader(c, header)
	r.Reply(c)
}

// Out is the outbox for hand-made frames. The caller looks at Cmd.IsOneway itself.
func (r *Request) Out() *reactor.Outbox { return r.turn.out }

// Decode reads the header struct; an error has been answered when it returns false (code invalidParameter, the
// field named).
func (r *Request) Decode(header any, invalidParameter int) bool {
	err := codec.DecodeHeader(r.Cmd, header)
	if err == nil {
		return true
	}
	var he *codec.HeaderError
	if errors.As(err, &he) {
		r.ReplyError(invalidParameter, he.Error())
	} else {
		r.ReplyError(codeSystemError, err.Error())
	}
	return false
}

// Deferred answers a request after its turn. It holds no bytes of the frame.
type Deferred struct {
	Conn   reactor.Conn
	Opaque int32
	Type   codec.SerializeType
	Oneway bool
	Code   int // of the request
}

// Defer keeps what a later answer needs.
func (r *Request) Defer() Deferred {
	return Deferred{Conn: r.turn.conn, Opaque: r.Cmd.Opaque, Type: r.Cmd.Type, Oneway: r.Cmd.IsOneway(), Code: r.Cmd.Code}
}

// Response makes an empty answer for d.
func (d *Deferred) Response(code int, remark string) *codec.Command {
	return &codec.Command{Code: code, Remark: remark, Language: codec.LanguageJava, Version: codec.AnnouncedVersion,
		Opaque: d.Opaque, Flag: codec.FlagResponse, Type: d.Type}
}

// Reply sends the answer from any goroutine.
func (d *Deferred) Reply(c *codec.Command) error {
	if d.Oneway {
		return nil
	}
	return d.Conn.Send(c.AppendTo(nil))
}
