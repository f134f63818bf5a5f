package controller

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/codec"
	"skylark/controller/node"
	"skylark/controller/replicas"
)

const (
	// tickInterval is Raft's unit of time: a leader is missed after 1 to 2 s.
	tickInterval = 100 * time.Millisecond
	// maxPosted bounds the requests and messages that wait for the loop.
	maxPosted = 4096
	// maxSteps bounds the requests among them that carry Raft's messages, a frame each at most.
	maxSteps = 16
	// maxAtOnce is how many of them are taken before the node works and the disk is synced once for all.
	maxAtOnce = 256
)

// loop owns the node: everything that touches it runs on one goroutine.
type loop struct {
	c     *Controller
	node  *node.Node
	posts chan func()
	stop  chan struct{}
	done  chan struct{}
	role  atomic.Pointer[node.Role] // as of the last work
	err   atomic.Pointer[error]     // why the node is of no use any more
	steps atomic.Int32              // posted by step

	proposals map[node.Ticket]func(node.Result)
	reads     map[node.Ticket]func(ok bool)
	elections elections
}

func newLoop(c *Controller, n *node.Node) *loop {
	l := &loop{c: c, node: n, posts: make(chan func(), maxPosted), stop: make(chan struct{}), done: make(chan struct{}),
		proposals: map[node.Ticket]func(node.Result){}, reads: map[node.Ticket]func(bool){}}
	l.elections = elections{c: c, l: l, running: map[string]bool{}}
	l.role.Store(&node.Role{})
	return l
}

// post has f run on the loop soon; it does not wait. false: there is no room, or the loop has ended.
func (l *loop) post(f func()) bool {
	if l.err.Load() != nil {
		return false
	}
	select {
	case l.posts <- f:
		return true
	default:
		return false
	}
}

func (l *loop) run() {
	defer close(l.done)
	ticker := l.c.o.Clock.NewTicker(tickInterval)
	defer ticker.Stop()
	defer func() {
		if e := recover(); e != nil {
			l.fail(fmt.Errorf("controller: %v\n%s", e, debug.Stack()))
		}
	}()
	if !l.work() {
		return
	}
	for {
		select {
		case f := <-l.posts:
			f()
			l.takeMore()
		case <-ticker.C():
			l.node.Tick()
			l.elections.tick(l.c.o.Clock.Now())
		case <-l.stop:
			l.resign()
			return
		}
		if !l.work() {
			return
		}
	}
}

func (l *loop) takeMore() {
	for range maxAtOnce {
		select {
		case f := <-l.posts:
			f()
		default:
			return
		}
	}
}

// work has the node work and does what is left to do. It is false when the loop has to end.
func (l *loop) work() bool {
	before := *l.role.Load()
	out, err := l.node.Work()
	if err != nil {
		l.fail(err)
		return false
	}
	if out.Role != before {
		l.role.Store(&out.Role)
		l.roleChanged(before, out.Role)
	}
	for i := range out.Messages {
		l.c.sendRaft(&out.Messages[i])
	}
	for _, r := range out.Results {
		if done := l.proposals[r.Ticket]; done != nil {
			delete(l.proposals, r.Ticket)
			done(r)
		}
	}
	for _, t := range out.Reads {
		l.finishRead(t, true)
	}
	for _, t := range out.FailedReads {
		l.finishRead(t, false)
	}
	return true
}

func (l *loop) finishRead(t node.Ticket, ok bool) {
	if done := l.reads[t]; done != nil {
		delete(l.reads, t)
		done(ok)
	}
}

func (l *loop) roleChanged(before, now node.Role) {
	if now.Ready == before.Ready && now.Leader == before.Leader && now.LeaderID == before.LeaderID {
		return
	}
	if now.LeaderID != before.LeaderID && now.LeaderID != 0 {
		l.c.tally.leaderChanges.Add(1)
	}
	leader := l.c.byRaftID(now.LeaderID)
	l.c.o.Log.Info("controller role", "self", l.c.members.self.id, "leader", now.Leader, "ready", now.Ready, "term", now.Term,
		"leaderId", leader.id)
	if now.Ready && !before.Ready {
		l.elections.checkAll = true
	}
}

// fail ends the controller: it answers with the reason from now on.
func (l *loop) fail(err error) {
	l.err.Store(&err)
	l.role.Store(&node.Role{})
	l.c.o.Log.Error("controller has failed and serves no more", "error", err)
	l.endAll(errors.Join(node.ErrLostLeadership, err))
	close(l.c.failed)
}

// endAll answers what waits.
func (l *loop) endAll(err error) {
	for _, t := range slices.Sorted(maps.Keys(l.proposals)) {
		done := l.proposals[t]
		delete(l.proposals, t)
		done(node.Result{Ticket: t, Err: err})
	}
	for _, t := range slices.Sorted(maps.Keys(l.reads)) {
		l.finishRead(t, false)
	}
}

// resign gives the leadership away before a clean stop, so that the others need not miss this one first.
func (l *loop) resign() {
	if l.node.Role().Leader {
		l.node.Resign()
		l.work()
	}
	l.role.Store(&node.Role{})
	l.endAll(node.ErrLostLeadership)
}

// propose adds what is known of the living and proposes an event; done gets the outcome, on the loop, always.
func (l *loop) propose(e *replicas.Event, done func(node.Result)) {
	l.c.tally.proposals.Add(1)
	l.lookAround(e)
	t, err := l.node.Propose(e)
	if err != nil {
		done(node.Result{Err: err})
		return
	}
	l.proposals[t] = done
}

func (l *loop) lookAround(e *replicas.Event) {
	g := l.node.State().Group(e.Broker)
	if g == nil {
		return
	}
	ids := make([]int64, len(g.Replicas))
	for i := range g.Replicas {
		ids[i] = g.Replicas[i].ID
	}
	e.Live, e.Unknown = l.c.beats.look(l.c.o.Clock.Now(), e.Broker, ids)
}

// read calls done when the state may be read; ok is false if it is not this node's to tell.
func (l *loop) read(confirm bool, done func(err error)) {
	if !confirm {
		if l.node.Role().Ready {
			done(nil)
		} else {
			done(node.ErrNotLeader)
		}
		return
	}
	t, err := l.node.Read()
	if err != nil {
		done(err)
		return
	}
	l.reads[t] = func(ok bool) {
		if ok {
			done(nil)
		} else {
			done(node.ErrLostLeadership)
		}
	}
}

// step hands messages of another controller to the node. Members that keep to the protocol have one request each under way.
func (l *loop) step(ms []raftpb.Message) bool {
	if l.steps.Add(1) > maxSteps {
		l.steps.Add(-1)
		return false
	}
	posted := l.post(func() {
		l.steps.Add(-1)
		for i := range ms {
			l.node.Step(ms[i])
		}
	})
	if !posted {
		l.steps.Add(-1)
	}
	return posted
}

// refusal is code and remark for a request that came to nothing.
func (l *loop) refusal(err error) (code int, remark string) {
	if e := l.err.Load(); e != nil {
		return codec.RespSystemError, "the controller has failed: " + (*e).Error()
	}
	switch {
	case errors.Is(err, node.ErrNotLeader), errors.Is(err, node.ErrLostLeadership):
		return codec.RespControllerNotLeader, "The controller is not in leader state"
	case errors.Is(err, node.ErrBusy):
		return codec.RespSystemBusy, err.Error()
	default:
		return codec.RespControllerInvalidRequest, err.Error()
	}
}
