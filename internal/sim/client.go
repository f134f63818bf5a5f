package sim

import (
	"fmt"
	"time"

	"skylark/store"
)

// Ports of hosts: what a connection is for.
const (
	portBroker     = "broker"     // requests of controllers, in frames
	portClient     = "client"     // sends and reads
	portHA         = "ha"         // replication
	portController = "controller" // requests of brokers, in frames
)

// sendRequest and the following are what clients and brokers say to each other. The broker's processors are not part of
// the simulation.
type (
	sendRequest struct {
		n     int // of the request
		id    uint64
		queue int
	}
	sendAnswer struct {
		n       int
		status  sendStatus
		offset  store.QueueOffset
		at, end store.PhyOffset
	}
	getRequest struct {
		n      int
		queue  int
		offset store.QueueOffset
	}
	getAnswer struct {
		n     int
		found bool
		e     entry
	}
)

// sendStatus is what became of a send.
type sendStatus uint8

const (
	sendOK      sendStatus = iota
	sendRefused            // not stored
	sendUnknown            // stored, without the copies that were promised: it may be lost, or not
)

// clientProc sends and reads, one at a time each.
type clientProc struct {
	c        *Cluster
	h        *Host
	number   int
	conns    map[int]*Conn // by host of the broker
	request  int
	waiting  map[int]func(answer any)
	believed int // index in Cluster.Brokers: where the last send went well
	next     []store.QueueOffset
	acked    int
}

const (
	clientTimeout = 3 * time.Second
	clientPause   = 60 * time.Millisecond
)

// Start implements Process.
func (p *clientProc) Start(h *Host) error {
	p.h, p.conns, p.waiting = h, map[int]*Conn{}, map[int]func(any){}
	p.next = make([]store.QueueOffset, p.c.Config.Queues)
	h.After(h.w.between(0, time.Second), p.send)
	h.After(h.w.between(0, time.Second), p.read)
	return nil
}

// Work implements Process.
func (p *clientProc) Work() {}

// Accept implements Process.
func (p *clientProc) Accept(c *Conn) { c.Close() }

// Kill implements Process.
func (p *clientProc) Kill() {}

// call sends a request; done gets the answer, or nil.
func (p *clientProc) call(broker *Host, make func(n int) any, done func(answer any)) {
	p.request++
	n := p.request
	finished := func(a any) {
		if p.waiting[n] != nil {
			delete(p.waiting, n)
			done(a)
		}
	}
	p.waiting[n] = finished
	timeout := p.h.After(clientTimeout, func() {
		if c := p.conns[broker.ID]; c != nil { // what comes later on it is nobody's
			delete(p.conns, broker.ID)
			c.Close()
		}
		finished(nil)
	})
	p.waiting[n] = func(a any) {
		timeout.Stop()
		delete(p.waiting, n)
		done(a)
	}
	if c := p.conns[broker.ID]; c != nil && c.Open() {
		c.Send(make(n))
		return
	}
	p.h.Dial(broker, portClient, func(c *Conn) {
		f := p.waiting[n]
		switch {
		case f == nil && c != nil:
			c.Close()
		case f == nil:
		case c == nil:
			f(nil)
		default:
			p.conns[broker.ID] = c
			c.Received = p.received
			c.Closed = func() {
				if p.conns[broker.ID] == c {
					delete(p.conns, broker.ID)
				}
				if f := p.waiting[n]; f != nil {
					f(nil)
				}
			}
			c.Send(make(n))
		}
	})
}

func (p *clientProc) received(v any) {
	n := 0
	switch a := v.(type) {
	case *sendAnswer:
		n = a.n
	case *getAnswer:
		n = a.n
	}
	if f := p.waiting[n]; f != nil {
		f(v)
	}
}

// send sends one message, and then the next.
func (p *clientProc) send() {
	if p.c.quiet {
		p.h.After(clientPause, p.send)
		return
	}
	w := p.h.w
	p.c.lastMessage++
	id, queue, began := p.c.lastMessage, w.Rand.IntN(p.c.Config.Queues), w.now
	to := p.believed
	w.Check.sent(id, queue)
	p.call(p.c.Brokers[to], func(n int) any { return &sendRequest{n, id, queue} }, func(answer any) {
		o := op{put: true, queue: queue, id: id}
		a, _ := answer.(*sendAnswer)
		switch {
		case a == nil || a.status == sendUnknown:
			w.Check.history.put(p.number, o, began, 0)
			w.Check.Counts["unknown"]++
			w.Tracef("%s: %d to %s unknown", p.h.Name, id, p.c.Brokers[to].Name)
		case a.status == sendRefused:
			w.Check.Counts["refused"]++
		default:
			w.Tracef("%s: %d to %s is at queue %d offset %d, [%d,%d)", p.h.Name, id, p.c.Brokers[to].Name, queue, a.offset, a.at,
				a.end)
			p.acked++
			p.c.lastAcked = w.now
			w.Check.acked(id, a.offset, a.at, a.end)
			o.offset = a.offset
			w.Check.history.put(p.number, o, began, w.now)
		}
		pause := w.between(0, clientPause)
		if a == nil || a.status != sendOK {
			p.believed = (p.believed + 1) % len(p.c.Brokers)
			pause = w.between(0, 5*clientPause)
		}
		p.h.After(pause, p.send)
	})
}

// read reads one place of a queue, of any broker, and then the next.
func (p *clientProc) read() {
	w := p.h.w
	queue, broker, began := w.Rand.IntN(p.c.Config.Queues), p.c.Brokers[w.Rand.IntN(len(p.c.Brokers))], w.now
	offset := p.next[queue]
	if offset > 0 && w.chance(0.2) {
		offset = store.QueueOffset(w.Rand.Int64N(int64(offset)))
	}
	p.call(broker, func(n int) any { return &getRequest{n, queue, offset} }, func(answer any) {
		if a, _ := answer.(*getAnswer); a != nil && a.found {
			w.Tracef("%s: %s shows %d at queue %d offset %d", p.h.Name, broker.Name, a.e.id, queue, offset)
			w.Check.shown(broker.Name, a.e.id, queue, offset, a.e)
			w.Check.history.add(p.number, op{queue: queue, id: a.e.id, offset: offset}, began, w.now)
			p.next[queue] = max(p.next[queue], offset+1)
		}
		p.h.After(w.between(0, 2*clientPause), p.read)
	})
}

func clientName(i int) string { return fmt.Sprintf("client%d", i+1) }
