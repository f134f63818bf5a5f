//go:build unix

package gnet

import (
	"fmt"
	"log/slog"

	gn "github.com/panjf2000/gnet/v2"
)

// events is what gnet calls, always on the connection's loop.
type events struct {
	gn.BuiltinEventEngine
	eng *Engine
}

// OnOpen is gnet's: the descriptor is in the loop's epoll now.
func (ev *events) OnOpen(g gn.Conn) ([]byte, gn.Action) {
	c := g.Context().(*conn)
	c.g, c.fd, c.loop = g, g.Fd(), ev.eng.loopOf(g.EventLoop())
	c.enrolled = true
	ev.eng.table.Add(c)
	return nil, gn.None
}

// OnTraffic is called after a read, and by a wake-up without one.
func (ev *events) OnTraffic(g gn.Conn) gn.Action {
	p, _ := g.Next(-1) // all of the read; gnet's own inbound buffer stays empty, so this copies nothing
	return g.Context().(*conn).serve(p)
}

// OnClose comes before gnet closes the descriptor.
func (ev *events) OnClose(g gn.Conn, err error) gn.Action {
	g.Context().(*conn).finish(err)
	return gn.None
}

// logger carries gnet's own lines into ours, its chatter at debug level.
type logger struct{ log *slog.Logger }

func (l logger) Debugf(format string, args ...any) {
	l.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (l logger) Infof(format string, args ...any) {
	l.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (l logger) Warnf(format string, args ...any) {
	l.log.Warn("gnet: " + fmt.Sprintf(format, args...))
}
func (l logger) Errorf(format string, args ...any) {
	l.log.Error("gnet: " + fmt.Sprintf(format, args...))
}
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error("gnet: " + fmt.Sprintf(format, args...))
}
