package sim

import (
	"errors"
	"path"
	"time"

	"skylark/broker/replicas"
	"skylark/codec"
	"skylark/ha"
	"skylark/internal/vfs"
	"skylark/store"
)

// brokerProc is a broker in controller mode: replicas.Manager decides, the cores of package ha copy, and this is the shell
// around them that the product has goroutines for.
type brokerProc struct {
	c   *Cluster
	h   *Host
	log *CommitLog
	m   *replicas.Manager
	ha  *replication

	calls map[string]*controllerConn // by address
}

const (
	identityPath = "/b/brokerIdentity"
	abortPath    = "/b/abort"
	epochPath    = "/b/epochFileCheckpoint"
	confirmPath  = "/b/confirm" // stands for the store's checkpoint

	managerTick   = 100 * time.Millisecond
	flushInterval = 200 * time.Millisecond
	callTimeout   = 3 * time.Second
)

// Start implements Process.
func (b *brokerProc) Start(h *Host) error {
	b.h, b.calls = h, map[string]*controllerConn{}
	fs := h.Disk()
	_, err := fs.Stat(abortPath)
	unclean := err == nil
	if b.log, err = openLog(h, b.c.Config.Queues); err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(fs, abortPath, nil, false); err != nil {
		return err
	}
	identity, err := replicas.LoadIdentity(fs, identityPath, clusterName, groupName)
	if err != nil {
		return err
	}
	if b.ha, err = newReplication(b); err != nil {
		return err
	}
	b.m = replicas.NewManager(replicas.Options{Cluster: clusterName, Name: groupName, Address: b.c.brokerAddr(h),
		Controllers: b.c.controllerAddrs(), Identity: identity, HeartbeatInterval: time.Second,
		HeartbeatTimeout: 10 * time.Second, SyncControllerMetadataPeriod: 10 * time.Second,
		SyncBrokerMetadataPeriod: 5 * time.Second, Unclean: unclean, Jitter: h.w.Rand.Int64N})
	b.m.Tick(h.Clock().Now())
	h.Every(managerTick, func() { b.m.Tick(h.Clock().Now()) })
	h.Every(flushInterval, func() { b.flush() })
	return nil
}

func (b *brokerProc) flush() {
	if b.log.synced < b.log.MaxPhyOffset() {
		b.disk(b.log.Sync())
	}
	if b.h.image == nil {
		b.disk(b.log.saveConfirm())
	}
}

// disk fails the run for an error that is not the disk's.
func (b *brokerProc) disk(err error) {
	if err != nil && b.h.image == nil {
		b.h.w.Fail("%s: a disk that works gives no error: %w", b.h.Name, err)
	}
}

// Work implements Process: it does what the manager wants done.
func (b *brokerProc) Work() {
	for b.h.image == nil && !b.h.w.Failed() {
		out := b.m.Work()
		now := b.h.Clock().Now()
		for _, l := range out.Log {
			if l.Error {
				b.h.log.Error(l.Text, l.Args...)
			} else {
				b.h.log.Info(l.Text, l.Args...)
			}
		}
		for _, addr := range out.Heartbeats {
			b.beat(addr)
		}
		for _, r := range out.Requests {
			b.request(r)
		}
		if out.Fence != nil {
			b.ha.fenced = *out.Fence
		}
		if out.Set != nil {
			b.h.w.Tracef("%s: SyncStateSet %v epoch %d", b.h.Name, out.Set.SyncStateSet, out.Set.SyncStateSetEpoch)
			b.ha.setChanged(out.Set)
		}
		if out.Role != nil {
			b.takeRole(out.Role)
		}
		if out.Save == nil {
			if out.Role == nil {
				break
			}
			continue
		}
		err := out.Save.Save(b.h.Disk(), identityPath)
		b.disk(err)
		b.m.Saved(now, err)
	}
	if b.h.image == nil {
		b.ha.work()
	}
}

// takeRole changes the role. It takes its time now and then, before and after, as in a broker with much to dispatch; the
// manager hears news meanwhile.
func (b *brokerProc) takeRole(r *replicas.Role) {
	w := b.h.w
	take := func() {
		err := b.ha.takeRole(b.m.ID(), r)
		if b.h.image != nil {
			return
		}
		w.Tracef("%s: epoch %d, master %v (%d): %v", b.h.Name, r.Epoch, r.Master, r.MasterID, err)
		switch {
		case err != nil && !errors.Is(err, ha.ErrOldEpoch): // that it has followed a newer master meanwhile may be
			w.Fail("%s does not take its role: %w", b.h.Name, err)
			return
		case err == nil && r.Master:
			w.Check.becameMaster(b, r.Epoch)
		}
		done := func() { b.m.RoleDone(b.h.Clock().Now(), err) }
		if w.chance(0.8) {
			done()
			return
		}
		b.h.After(w.between(0, time.Second), done)
	}
	if w.chance(0.8) {
		take()
		return
	}
	b.h.After(w.between(0, time.Second), take)
}

// id is the broker's id at the controllers.
func (b *brokerProc) id() int64 { return b.m.ID() }

// confirmedKnown tells that the broker has a role: it says of its log what is confirmed.
func (b *brokerProc) confirmedKnown() bool {
	_, ok := b.m.Role()
	return ok
}

func (b *brokerProc) confirmed() store.PhyOffset { return b.ha.confirmed() }

// confirmedRecords is confirmed without what there is of a last record: nobody is shown it, and a new master cuts it.
func (b *brokerProc) confirmedRecords() store.PhyOffset {
	p, _ := b.log.RecordStart(b.confirmed()) // never fails
	return p
}

// beat tells a controller that the broker lives, as replicas.Service does.
func (b *brokerProc) beat(addr string) {
	id, epoch, timeout, priority := b.m.ID(), b.ha.epochs.Last(), int64(10000), int32(1<<31-1)
	end, confirm := b.log.MaxPhyOffset(), b.confirmed()
	req := codec.NewRequest(codec.ReqBrokerHeartbeat)
	codec.EncodeHeader(req, &codec.BrokerHeartbeatRequestHeader{ClusterName: clusterName, BrokerAddr: b.c.brokerAddr(b.h),
		BrokerName: groupName, BrokerID: &id, Epoch: &epoch, MaxOffset: &end, ConfirmOffset: &confirm,
		HeartbeatTimeoutMillis: &timeout, ElectionPriority: &priority})
	b.controller(addr).send(req, nil)
}

// request asks a controller for something.
func (b *brokerProc) request(r replicas.Request) {
	cmd, err := r.Command(b.h.Clock().Now())
	if err != nil {
		b.h.w.Fail("%s: %w", b.h.Name, err)
		return
	}
	b.controller(r.To).send(cmd, func(answer *codec.Command) {
		a := &replicas.Answer{Kind: r.Kind, Err: errNoAnswer}
		if answer != nil {
			a = replicas.ReadAnswer(&r, answer)
		}
		b.m.Answer(b.h.Clock().Now(), r.ID, a)
	})
}

var errNoAnswer = errors.New("sim: no answer")

// Accept implements Process.
func (b *brokerProc) Accept(c *Conn) {
	switch c.Port {
	case portHA:
		b.ha.accept(c)
	case portBroker:
		c.Received = func(v any) { b.notified(v.([]byte)) }
	case portClient:
		c.Received = func(v any) { b.serve(c, v) }
	default:
		c.Close()
	}
}

// notified takes NOTIFY_BROKER_ROLE_CHANGED.
func (b *brokerProc) notified(frame []byte) {
	var cmd codec.Command
	var hdr codec.NotifyBrokerRoleChangedRequestHeader
	f, _, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	if err = errors.Join(err, cmd.Decode(f)); err == nil {
		err = codec.DecodeHeader(&cmd, &hdr)
	}
	if err != nil {
		b.h.w.Fail("%s: %w", b.h.Name, err)
		return
	}
	v, err := replicas.ReadNotice(&hdr, cmd.Body)
	if err != nil {
		b.h.w.Fail("%s: %w", b.h.Name, err)
		return
	}
	b.m.Notified(b.h.Clock().Now(), v)
}

// serve answers a client.
func (b *brokerProc) serve(c *Conn, v any) {
	switch r := v.(type) {
	case *sendRequest:
		b.put(c, r)
	case *getRequest:
		e, ok := b.log.Get(r.queue, r.offset)
		if !b.confirmedKnown() { // it is not in the routes before it has a role
			ok = false
		}
		c.Send(&getAnswer{r.n, ok, e})
	}
}

// put stores a message and answers when its copies are there.
func (b *brokerProc) put(c *Conn, r *sendRequest) {
	if b.log.Following() || b.ha.fenced || !b.ha.admit() {
		c.Send(&sendAnswer{n: r.n, status: sendRefused})
		return
	}
	e, offset, err := b.log.Put(r.queue, r.id)
	if err != nil {
		b.disk(err)
		return
	}
	answer := &sendAnswer{n: r.n, offset: offset, at: e.at, end: e.End()}
	b.ha.copied(e.End(), func(ok bool) {
		if !ok {
			answer.status = sendUnknown
		}
		c.Send(answer)
	})
}

// Stop ends the process in order: everything is on the disk, and nobody has to look for what is torn.
func (b *brokerProc) Stop() {
	b.disk(b.log.Sync())
	if b.h.image == nil {
		b.disk(b.h.Disk().Remove(abortPath))
	}
	if b.h.image == nil {
		b.disk(b.h.Disk().SyncDir(path.Dir(abortPath)))
	}
	if b.h.image == nil {
		b.h.Kill()
	}
}

// Kill implements Process.
func (b *brokerProc) Kill() {}

// controllerConn is a broker's connection to a controller, made when it is needed.
type controllerConn struct {
	b       *brokerProc
	to      *Host
	conn    *Conn
	dialing bool
	queue   []func(c *Conn)
	waiting map[int32]func(*codec.Command)
	opaque  int32
}

func (b *brokerProc) controller(addr string) *controllerConn {
	cc := b.calls[addr]
	if cc == nil {
		cc = &controllerConn{b: b, to: b.c.controllerByAddr(addr), waiting: map[int32]func(*codec.Command){}}
		b.calls[addr] = cc
	}
	return cc
}

// send sends a request; done, if it is not nil, gets the answer or nil.
func (cc *controllerConn) send(cmd *codec.Command, done func(*codec.Command)) {
	cc.opaque++
	cmd.Opaque = cc.opaque
	opaque, frame := cc.opaque, cmd.AppendTo(nil)
	if done != nil {
		timeout := cc.b.h.After(callTimeout, func() { cc.answer(opaque, nil) })
		cc.waiting[opaque] = func(a *codec.Command) {
			timeout.Stop()
			done(a)
		}
	}
	if cc.conn != nil && cc.conn.Open() {
		cc.conn.Send(frame)
		return
	}
	cc.queue = append(cc.queue, func(c *Conn) {
		if c != nil {
			c.Send(frame)
		} else {
			cc.answer(opaque, nil)
		}
	})
	if cc.dialing {
		return
	}
	cc.dialing = true
	cc.b.h.Dial(cc.to, portController, func(c *Conn) {
		cc.dialing = false
		if cc.conn = c; c != nil {
			c.Received = func(v any) { cc.received(v.([]byte)) }
			c.Closed = cc.closed
		}
		queue := cc.queue
		cc.queue = nil
		for _, f := range queue {
			f(c)
		}
	})
}

func (cc *controllerConn) received(frame []byte) {
	var cmd codec.Command
	f, _, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	if err = errors.Join(err, cmd.Decode(f)); err != nil {
		cc.b.h.w.Fail("%s: %w", cc.b.h.Name, err)
		return
	}
	cc.answer(cmd.Opaque, &cmd)
}

func (cc *controllerConn) answer(opaque int32, a *codec.Command) {
	if f := cc.waiting[opaque]; f != nil {
		delete(cc.waiting, opaque)
		f(a)
	}
}

// closed fails what waits.
func (cc *controllerConn) closed() {
	cc.conn = nil
	for o := int32(1); o <= cc.opaque; o++ {
		cc.answer(o, nil)
	}
}
