package controller

import (
	"context"
	"errors"
	"net/netip"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/codec"
	"skylark/controller/node"
	"skylark/controller/replicas"
	"skylark/reactor"
	"skylark/reactor/rpc"
)

// Stepper is a controller without goroutine, socket and timer of its own: the one who holds it says when time passes and
// when something arrives, and carries what is sent. So a simulation runs the very code that serves, several members on one
// goroutine. The clock of Options is asked for the time and for AfterFunc; its functions have to run between two calls
// here, followed by Work.
type Stepper struct{ c *Controller }

// StepperOptions are those of a controller, and where its messages go.
type StepperOptions struct {
	Options
	// Send takes a message of Raft to the member with that id. Snapshots want an answer by Sent.
	Send func(to string, m raftpb.Message)
	// Notify takes a oneway request to a broker.
	Notify func(addr string, cmd *codec.Command)
}

// NewStepper reads the log and makes a member that has not done anything yet.
func NewStepper(o StepperOptions) (*Stepper, error) {
	o.NewEngine = func(reactor.Options) reactor.Engine { return noEngine{} }
	c, err := newController(o.Options, true)
	if err != nil {
		return nil, err
	}
	n, err := c.openNode()
	if err != nil {
		c.cancel()
		return nil, errors.Join(err, c.client.Close())
	}
	c.loop = newLoop(c, n)
	for _, m := range c.members.members {
		if m != c.members.self {
			c.addLink(m)
		}
	}
	c.beats = newHeartbeats(c.o.Clock.Now())
	c.sendRaft = func(m *raftpb.Message) { o.Send(c.byRaftID(m.To).id, *m) }
	c.sendNotice = func(addrs []string, g *replicas.Group) {
		for _, addr := range addrs {
			if req, err := notice(g); err == nil {
				o.Notify(addr, req)
			}
		}
	}
	return &Stepper{c}, nil
}

// Frames serves requests of one connection; what is answered at once is in out.
func (s *Stepper) Frames(conn reactor.Conn, frames []codec.Frame, out *reactor.Outbox) {
	s.c.server.OnFrames(conn, frames, out)
}

// Closed tells that a connection has ended.
func (s *Stepper) Closed(conn reactor.Conn) { s.c.server.OnClose(conn, nil) }

// Receive takes a message of another member.
func (s *Stepper) Receive(m raftpb.Message) { s.c.loop.step([]raftpb.Message{m}) }

// Sent tells what became of a snapshot for a member; for other messages it tells only failures.
func (s *Stepper) Sent(to string, snapshot, ok bool) {
	id := node.RaftID(to)
	s.c.loop.post(func() {
		if snapshot {
			s.c.loop.node.SnapshotSent(id, ok)
		}
		if !ok {
			s.c.loop.node.Unreachable(id)
		}
	})
}

// Tick is what happens every [TickInterval].
func (s *Stepper) Tick() {
	s.c.loop.node.Tick()
	s.c.loop.elections.tick(s.c.o.Clock.Now())
}

// TickInterval is Raft's unit of time.
const TickInterval = tickInterval

// Work does all there is to do. After an error, which is the disk's, the controller serves no more.
func (s *Stepper) Work() error {
	l := s.c.loop
	for {
		l.takeMore()
		if !l.work() {
			return *l.err.Load()
		}
		if len(l.posts) == 0 {
			return nil
		}
	}
}

// Node is for looking at.
func (s *Stepper) Node() *node.Node { return s.c.loop.node }

// Close gives the directory free. Nothing is handed on: it is the end of a process that was killed.
func (s *Stepper) Close() error {
	s.c.cancel()
	s.c.server.Close()
	s.c.notify.close()
	return errors.Join(s.c.client.Close(), s.c.loop.node.Close())
}

// noEngine serves nobody.
type noEngine struct{}

func (noEngine) Start(reactor.Handler) error { return nil }
func (noEngine) Addrs() []netip.AddrPort     { return nil }
func (noEngine) StopAccepting()              {}
func (noEngine) Stop(context.Context) error  { return nil }
func (noEngine) Connections() int            { return 0 }
func (noEngine) Name() string                { return "none" }

// inline has a processor serve where its request arrives.
type inline struct{ rpc.Processor }

// ProcessOnLoop implements rpc.LoopProcessor.
func (p inline) ProcessOnLoop(r *rpc.Request) bool {
	p.Process(r)
	return true
}
