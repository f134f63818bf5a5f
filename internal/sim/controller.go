package sim

import (
	"fmt"
	"net/netip"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/codec"
	"skylark/config"
	"skylark/controller"
	"skylark/reactor"
)

// controllerProc is a member of the group of controllers: the product's code by controller.Stepper.
type controllerProc struct {
	c *Cluster
	h *Host
	s *controller.Stepper

	applied uint64 // what the checker has looked at
}

func (c *Cluster) controllerAddr(i int) string { return fmt.Sprintf("10.0.1.%d:9878", i+1) }

func (c *Cluster) controllerConfig(i int, more string) (*config.Set, error) {
	var peers []string
	for j := range c.Config.Controllers {
		peers = append(peers, fmt.Sprintf("n%d-%s", j, c.controllerAddr(j)))
	}
	set := config.NewControllerSet()
	f, err := config.Parse(fmt.Sprintf("controllerDLegerGroup=g\ncontrollerDLegerSelfId=n%d\ncontrollerStorePath=/c\n"+
		"configStorePath=/c/controller.conf\ncontrollerDLegerPeers=%s\n%s", i, strings.Join(peers, ";"), more),
		"/c/controller.conf")
	if err == nil {
		_, err = set.Load(f)
	}
	return set, err
}

// Start implements Process.
func (p *controllerProc) Start(h *Host) error {
	p.h = h
	set, err := p.c.controllerConfig(p.c.controllerIndex(h), p.c.Config.ControllerKeys)
	if err != nil {
		return err
	}
	p.s, err = controller.NewStepper(controller.StepperOptions{
		Options: controller.Options{Config: set, FS: h.Disk(), Clock: h.Clock(), Log: h.log},
		Send:    p.send, Notify: p.notify})
	if err != nil {
		p.s = nil
		return err
	}
	h.Every(controller.TickInterval, p.s.Tick)
	return nil
}

func (p *controllerProc) send(to string, m raftpb.Message) {
	other := p.c.controllerByID(to)
	snap := m.Type == raftpb.MsgSnap
	p.h.w.Net.Datagram(p.h, other, func() { other.proc.(*controllerProc).s.Receive(m) },
		func() { p.s.Sent(to, snap, false) })
	if snap {
		p.h.After(p.h.w.Net.maxDelay, func() { p.s.Sent(to, true, true) })
	}
}

// notify is oneway, over a connection of its own.
func (p *controllerProc) notify(addr string, cmd *codec.Command) {
	if b := p.c.brokerByAddr(addr); b != nil && p.h.image == nil {
		frame := cmd.AppendTo(nil)
		p.h.Dial(b, portBroker, func(c *Conn) {
			if c != nil {
				c.Send(frame)
				c.Close()
			}
		})
	}
}

// Work implements Process.
func (p *controllerProc) Work() {
	err := p.s.Work()
	if p.h.image != nil {
		return
	}
	if err != nil {
		p.h.w.Fail("%s: a disk that works gives no error: %w", p.h.Name, err)
		return
	}
	p.h.w.Check.controller(p)
}

// Accept implements Process.
func (p *controllerProc) Accept(c *Conn) {
	rc := &rpcConn{c: c}
	c.Received = func(v any) {
		frame, _, _, err := codec.SplitFrame(v.([]byte), codec.MaxFrameBytes)
		if err != nil {
			p.h.w.Fail("%s: %w", p.h.Name, err)
			return
		}
		var out reactor.Outbox
		p.s.Frames(rc, []codec.Frame{frame}, &out)
		_ = rc.SendOutbox(&out) // of a connection that is closed nobody hears
	}
	c.Closed = func() { p.s.Closed(rc) }
}

// Kill implements Process.
func (p *controllerProc) Kill() {
	if p.s != nil {
		_ = p.s.Close() // of a disk that has failed
	}
}

// rpcConn is a connection as servers see it. Every piece that travels is a whole frame.
type rpcConn struct {
	c       *Conn
	context any
}

var anyAddr = netip.MustParseAddrPort("10.0.0.1:1")

// ID implements reactor.Conn, as the following do.
func (r *rpcConn) ID() uint64 { return r.c.ID }

// RemoteAddr is any.
func (r *rpcConn) RemoteAddr() netip.AddrPort { return anyAddr }

// LocalAddr is any.
func (r *rpcConn) LocalAddr() netip.AddrPort { return anyAddr }

// PendingBytes is 0.
func (r *rpcConn) PendingBytes() int { return 0 }

// Context is the handler's.
func (r *rpcConn) Context() any { return r.context }

// SetContext sets it.
func (r *rpcConn) SetContext(v any) { r.context = v }

// Close ends the connection.
func (r *rpcConn) Close(error) { r.c.Close() }

// Send sends frames.
func (r *rpcConn) Send(p []byte) error {
	if !r.c.Open() {
		return reactor.ErrClosed
	}
	for len(p) > 0 {
		_, n, _, err := codec.SplitFrame(p, codec.MaxFrameBytes)
		if err != nil {
			return err
		}
		r.c.Send(append([]byte(nil), p[:n]...))
		p = p[n:]
	}
	return nil
}

// SendOutbox sends what the outbox holds.
func (r *rpcConn) SendOutbox(o *reactor.Outbox) error {
	defer o.Release()
	return r.Send(o.Buffer())
}
