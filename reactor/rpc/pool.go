package rpc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/latency"
	"skylark/reactor"
)

// PoolOptions describe one class of requests (Java's executors of BrokerController).
type PoolOptions struct {
	Name    string
	Workers int // e.g. sendMessageThreadPoolNums
	// Capacity is the most requests that wait, e.g. sendThreadPoolQueueCapacity.
	Capacity int
	// MaxBytes is the memory their frames may take, DefaultPoolBytes when 0. Java counts requests only, so that ten
	// thousand sends of 4 MiB wait in 40 GB. A queue that is empty takes any frame.
	MaxBytes int
	// MaxWait is how long a request may wait before it is refused, e.g. waitTimeMillsInSendQueue; 0 = for ever.
	MaxWait time.Duration
	// Eager starts all workers at once; else they are started when work waits and none is idle, up to Workers.
	Eager bool
	// Stalled tells that what the workers need does not move; all that waits is refused then (Java BrokerFastFailure
	// while isOSPageCacheBusy). It is asked every 10 ms while something waits and no worker is idle.
	Stalled func() bool
}

// DefaultPoolBytes bounds the frames that wait in one pool, unless PoolOptions.MaxBytes says otherwise.
const DefaultPoolBytes = 256 << 20

// sweepInterval is how often the head of a queue that holds something is checked against MaxWait (Java: 10 ms).
const sweepInterval = 10 * time.Millisecond

// Pool is a fixed number of workers on one bounded queue of units.
type Pool struct {
	o        PoolOptions
	server   *Server
	mu       sync.Mutex
	work     sync.Cond // workers wait here
	empty    sync.Cond // waitEmpty waits here
	queue    []*unit   // ring: queue[head:], compacted when head grows
	head     int
	waiting  int // requests in the queue
	bytes    int // of their frames
	running  int // units being served
	idle     int // workers that wait and have not been signalled
	started  int
	closed   bool
	sweeping bool
	busy     []workerState
	wg       sync.WaitGroup
}

// workerState is what a worker is doing, read by the fast failure for its reason.
type workerState struct {
	since atomic.Int64 // ms, 0 = idle
	code  atomic.Int32
	stage atomic.Uint32 // latency.Stage + 1
}

func newPool(s *Server, o PoolOptions) *Pool {
	if o.Workers < 1 {
		o.Workers = 1
	}
	if o.Capacity < 1 {
		o.Capacity = 1
	}
	if o.MaxBytes < 1 {
		o.MaxBytes = DefaultPoolBytes
	}
	p := &Pool{o: o, server: s, busy: make([]workerState, o.Workers)}
	p.work.L, p.empty.L = &p.mu, &p.mu
	if o.Eager {
		for range o.Workers {
			p.startWorker()
		}
	}
	return p
}

func (p *Pool) startWorker() {
	id := p.started
	p.started++
	p.wg.Add(1)
	go p.run(id)
}

// submit queues u, or its first requests if not all of them fit. refused holds the others, u itself when none fits or
// the pool is closed; nil: all are queued.
func (p *Pool) submit(u *unit) (refused *unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := p.room(u); n {
	case len(u.frames):
	case 0:
		return u
	default:
		refused = u.split(n)
	}
	p.queue = append(p.queue, u)
	p.waiting += len(u.frames)
	p.bytes += len(u.buf)
	switch {
	case p.idle > 0:
		p.idle-- // here and not in the worker: the next submit must not count on it
		p.work.Signal()
	case p.started < p.o.Workers:
		p.startWorker()
	}
	if (p.o.MaxWait > 0 || p.o.Stalled != nil) && !p.sweeping && p.idle == 0 {
		p.sweeping = true
		p.server.clock.AfterFunc(sweepInterval, p.sweep)
	}
	return refused
}

// room is how many of u's requests fit; mu is held.
func (p *Pool) room(u *unit) int {
	if p.closed {
		return 0
	}
	n := min(len(u.frames), p.o.Capacity-p.waiting)
	if p.bytes+len(u.buf) <= p.o.MaxBytes {
		return n
	}
	free := p.o.MaxBytes - p.bytes
	for i := range u.frames[:n] {
		if u.frames[i].end > free && (p.waiting > 0 || i > 0) {
			return i
		}
	}
	return n
}

// pop takes the head; mu is held and the queue is not empty.
func (p *Pool) pop() *unit {
	u := p.queue[p.head]
	p.queue[p.head] = nil
	p.head++
	p.waiting -= len(u.frames)
	p.bytes -= len(u.buf)
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	} else if p.head > 1024 && p.head*2 > len(p.queue) {
		n := copy(p.queue, p.queue[p.head:])
		clear(p.queue[n:])
		p.queue, p.head = p.queue[:n], 0
	}
	return u
}

func (p *Pool) depth() int { return len(p.queue) - p.head }

func (p *Pool) run(id int) {
	defer p.wg.Done()
	t := &Turn{server: p.server}
	t.span.Watch(&p.busy[id].stage)
	var out reactor.Outbox
	for {
		p.mu.Lock()
		for p.depth() == 0 && !p.closed {
			p.idle++ // whoever signals takes it off again
			p.work.Wait()
		}
		if p.depth() == 0 {
			p.mu.Unlock()
			return
		}
		u := p.pop()
		p.running++
		depth := p.waiting
		p.mu.Unlock()
		p.serve(id, t, &out, u, depth)
		p.mu.Lock()
		p.running--
		if p.running == 0 && p.depth() == 0 {
			p.empty.Broadcast()
		}
		p.mu.Unlock()
	}
}

func (p *Pool) serve(id int, t *Turn, out *reactor.Outbox, u *unit, depth int) {
	t.conn, t.out = u.conn, out
	t.beginSpan(u.arrived, depth)
	defer t.span.End(u.conn.RemoteAddr())
	waited := time.Duration(t.millis-u.millis) * time.Millisecond
	if p.o.MaxWait > 0 && waited >= p.o.MaxWait {
		for i := range u.frames {
			t.span.Count(u.frames[i].rt.class, u.frames[i].rt.code)
		}
		u.answerFrom(0, codeSystemBusy, p.timeoutRemark(waited, depth+len(u.frames), t.millis))
		t.reset()
		u.release()
		return
	}
	w := &p.busy[id]
	for i := range u.frames {
		if i > 0 && p.o.MaxWait > 0 { // those before it may have taken long
			now := p.server.clock.Millis()
			if waited = time.Duration(now-u.millis) * time.Millisecond; waited >= p.o.MaxWait {
				u.answerFrom(i, codeSystemBusy, p.timeoutRemark(waited, depth+len(u.frames)-i, now))
				break
			}
		}
		if err := t.cmd.Decode(u.frame(i)); err != nil { // it decoded on the loop
			panic("BUG: rpc: " + err.Error())
		}
		t.cmd.Code = codec.NormalizeRequestCode(t.cmd.Code)
		t.req = Request{Cmd: &t.cmd, turn: t}
		t.span.Count(u.frames[i].rt.class, t.cmd.Code)
		w.code.Store(int32(t.cmd.Code))
		w.since.Store(t.millis)
		p.server.serve(u.frames[i].rt, &t.req)
	}
	t.end()
	w.since.Store(0)
	t.span.Enter(latency.Write)
	if !out.Empty() {
		_ = u.conn.SendOutbox(out) // a closed connection needs no answer
	}
	t.reset()
	u.release()
}

// sweep refuses queued requests that waited too long while every worker was busy, or all while the pool is stalled.
func (p *Pool) sweep() {
	if p.o.Stalled != nil && p.o.Stalled() {
		p.RefuseAll(func(waited time.Duration, size int) string {
			return fmt.Sprintf("[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, "+
				"size of queue: %d", waited.Milliseconds(), size)
		})
	}
	now := p.server.clock.Millis()
	var late []*unit
	p.mu.Lock()
	size := p.waiting
	for p.o.MaxWait > 0 && p.depth() > 0 && now-p.queue[p.head].millis >= p.o.MaxWait.Milliseconds() {
		late = append(late, p.pop())
	}
	again := p.depth() > 0 && !p.closed
	p.sweeping = again
	if p.running == 0 && p.depth() == 0 {
		p.empty.Broadcast()
	}
	p.mu.Unlock()
	for _, u := range late {
		waited := time.Duration(now-u.millis) * time.Millisecond
		u.answerFrom(0, codeSystemBusy, p.timeoutRemark(waited, size, now))
		u.release()
	}
	if again {
		p.server.clock.AfterFunc(sweepInterval, p.sweep)
	}
}

// timeoutRemark begins with Java's text and adds the reason.
func (p *Pool) timeoutRemark(waited time.Duration, size int, now int64) string {
	busy, longest, code, stage := 0, int64(0), int32(0), latency.Serve
	for i := range p.busy {
		if since := p.busy[i].since.Load(); since > 0 {
			busy++
			if d := now - since; d >= longest {
				longest, code = d, p.busy[i].code.Load()
				if st := p.busy[i].stage.Load(); st > 0 {
					stage = latency.Stage(st - 1)
				}
			}
		}
	}
	return fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, "+
		"size of queue: %d; pool %s: %d of %d workers busy, the longest for %dms with request %d (%v)",
		waited.Milliseconds(), size, p.o.Name, busy, p.o.Workers, longest, code, stage)
}

// Name is the class's name.
func (p *Pool) Name() string { return p.o.Name }

// Size is the number of waiting requests, Capacity the most that may wait.
func (p *Pool) Size() int { p.mu.Lock(); defer p.mu.Unlock(); return p.waiting }

// Capacity is the most requests that may wait.
func (p *Pool) Capacity() int { return p.o.Capacity }

// HeadWait is how long the first waiting request has waited, 0 when none does.
func (p *Pool) HeadWait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.depth() == 0 {
		return 0
	}
	return time.Duration(p.server.clock.Millis()-p.queue[p.head].millis) * time.Millisecond
}

// RefuseAll answers everything that waits with SYSTEM_BUSY and the remark that why makes of the wait and queue size
// (Java BrokerFastFailure: PCBUSY_CLEAN_QUEUE).
func (p *Pool) RefuseAll(why func(waited time.Duration, size int) string) {
	p.mu.Lock()
	size := p.waiting
	var all []*unit
	for p.depth() > 0 {
		all = append(all, p.pop())
	}
	if p.running == 0 {
		p.empty.Broadcast()
	}
	p.mu.Unlock()
	now := p.server.clock.Millis()
	for _, u := range all {
		u.answerFrom(0, codeSystemBusy, why(time.Duration(now-u.millis)*time.Millisecond, size))
		u.release()
	}
}

// waitEmpty waits until nothing is queued or running, at most d, and tells whether that is so.
func (p *Pool) waitEmpty(d time.Duration) bool {
	timeout := false
	timer := p.server.clock.AfterFunc(max(d, 0), func() {
		p.mu.Lock()
		timeout = true
		p.empty.Broadcast()
		p.mu.Unlock()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.running > 0 || p.depth() > 0) && !timeout {
		p.empty.Wait()
	}
	return p.running == 0 && p.depth() == 0
}

// close lets the workers serve what is queued and end.
func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	p.work.Broadcast()
	p.mu.Unlock()
	p.wg.Wait() // whatever was queued had a worker
}
