package conns

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"skylark/codec"
	"skylark/reactor"
)

// Guarded calls a handler and turns its panics into errors: the process and the other connections live on.
type Guarded struct {
	Handler reactor.Handler
	Log     *slog.Logger
}

// Open calls OnOpen.
func (g *Guarded) Open(c reactor.Conn) (err error) {
	defer g.recovered(c, "OnOpen", &err)
	return g.Handler.OnOpen(c)
}

// Frames calls OnFrames. After an error out holds nothing.
func (g *Guarded) Frames(c reactor.Conn, frames []codec.Frame, out *reactor.Outbox) (err error) {
	defer g.recoveredFrames(c, out, &err)
	g.Handler.OnFrames(c, frames, out)
	return nil
}

// Close calls OnClose.
func (g *Guarded) Close(c reactor.Conn, reason error) {
	var err error
	defer g.recovered(c, "OnClose", &err)
	g.Handler.OnClose(c, reason)
}

func (g *Guarded) recoveredFrames(c reactor.Conn, out *reactor.Outbox, err *error) {
	if p := recover(); p != nil {
		out.Release()
		*err = g.report(c, "OnFrames", p)
	}
}

func (g *Guarded) recovered(c reactor.Conn, in string, err *error) {
	if p := recover(); p != nil {
		*err = g.report(c, in, p)
	}
}

func (g *Guarded) report(c reactor.Conn, in string, p any) error {
	g.Log.Error("panic in a connection handler", "in", in, "conn", c.ID(), "remote", c.RemoteAddr(),
		"panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%w: %s: %v", reactor.ErrPanic, in, p)
}
