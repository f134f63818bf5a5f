package controller

import (
	"time"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/controller/node"
	"skylark/controller/replicas"
	"skylark/reactor/rpc"
)

func syncStateSet(g *replicas.Group) *body.SyncStateSet {
	return &body.SyncStateSet{SyncStateSet: g.SyncStateSet, SyncStateSetEpoch: g.SyncStateSetEpoch}
}

// masterID is nil for no master, as Java leaves the field out.
func masterID(g *replicas.Group) *int64 {
	if g.Master == 0 {
		return nil
	}
	return &g.Master
}

// respond makes an answer with header and body; nil leaves either out.
func respond(d *rpc.Deferred, code int, remark string, header, content any) *codec.Command {
	c := d.Response(code, remark)
	if header != nil {
		codec.EncodeHeader(c, header)
	}
	if content != nil {
		var err error
		if c.Body, err = body.Encode(content); err != nil {
			return d.Response(codec.RespSystemError, "the answer does not encode: "+err.Error())
		}
	}
	return c
}

// replyFunc makes the answer to a decision.
type replyFunc func(d *rpc.Deferred, dec *replicas.Decision) *codec.Command

// propose posts an event and answers with what reply makes of the decision.
func (c *Controller) propose(r *rpc.Request, e *replicas.Event, reply replyFunc) {
	c.proposeWhen(r, e, func() bool { return true }, reply)
}

// An event that has to wait for something is looked at so often, after so long each time.
const (
	maxLooks     = 10
	lookInterval = 50 * time.Millisecond
)

// proposeWhen is propose that waits for a moment until ready, which is called on the loop, is true; then it goes on anyway.
func (c *Controller) proposeWhen(r *rpc.Request, e *replicas.Event, ready func() bool, reply replyFunc) {
	d := r.Defer()
	l := c.loop
	looks := 0
	var run func()
	run = func() {
		if looks++; looks < maxLooks && l.node.Role().Ready && !ready() {
			c.o.Clock.AfterFunc(lookInterval, func() {
				if !l.post(run) {
					c.answer(&d, d.Response(l.refusal(node.ErrBusy)))
				}
			})
			return
		}
		l.propose(e, func(res node.Result) {
			if res.Err != nil {
				c.answer(&d, d.Response(l.refusal(res.Err)))
				return
			}
			c.answer(&d, reply(&d, &res.Decision))
		})
	}
	if !l.post(run) {
		r.ReplyError(l.refusal(node.ErrBusy))
	}
}

// read posts a question to the state.
func (c *Controller) read(r *rpc.Request, reply func(d *rpc.Deferred, s *replicas.State) *codec.Command) {
	d := r.Defer()
	l, confirm := c.loop, c.settings().IsProcessReadEvent
	posted := l.post(func() {
		l.read(confirm, func(err error) {
			if err != nil {
				c.answer(&d, d.Response(l.refusal(err)))
				return
			}
			c.answer(&d, reply(&d, l.node.State()))
		})
	})
	if !posted {
		r.ReplyError(l.refusal(node.ErrBusy))
	}
}

// answer sends; a peer that is gone or does not read finds out by itself.
func (c *Controller) answer(d *rpc.Deferred, cmd *codec.Command) {
	if err := d.Reply(cmd); err != nil {
		c.o.Log.Debug("answer not sent", "code", d.Code, "remote", d.Conn.RemoteAddr(), "error", err)
	}
}
