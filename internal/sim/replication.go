package sim

import (
	"fmt"
	"math"
	"time"

	"skylark/broker/replicas"
	"skylark/ha"
	"skylark/store"
)

// replication stands for ha.AutoSwitchHAService: it drives ha.SyncSet, ha.SwitchLink and ha.SwitchFollower over connections
// of the simulated network.
type replication struct {
	b      *brokerProc
	epochs *ha.Epochs
	set    ha.SyncSet
	epoch  int32 // of the last role
	fenced bool

	shown   store.PhyOffset // to consumers, noEnd = no bound
	confirm store.PhyOffset // shown of a master, and on a slave what its master says

	links   []*link
	waiting []waitingPut

	follower *follower // of a slave
	nextTick time.Duration
}

// waitingPut waits for its copies.
type waitingPut struct {
	end      store.PhyOffset
	deadline time.Duration
	done     func(ok bool)
}

const (
	heartbeatMillis    = 5000  // haSendHeartbeatInterval
	housekeepingMillis = 20000 // haHousekeepingInterval
	slaveTimeout       = 3 * time.Second
	setInterval        = 500 * time.Millisecond

	maxFrameBytes   = 1 << 10 // small: a slave that is behind needs many
	maxUnsentFrames = 8       // what the socket takes
)

func newReplication(b *brokerProc) (*replication, error) {
	epochs, err := ha.OpenEpochs(b.h.Disk(), epochPath, b.h.log)
	if err != nil {
		return nil, err
	}
	if err := epochs.TruncateSuffix(b.log.MaxPhyOffset() + 1); err != nil {
		return nil, err
	}
	b.log.Follow()
	b.h.Every(setInterval/2, func() {}) // work is called, though nothing happens
	return &replication{b: b, epochs: epochs, epoch: ha.NoEpoch, shown: b.log.confirm, confirm: b.log.confirm}, nil
}

const noEnd = store.PhyOffset(math.MaxInt64)

func (r *replication) millis() int64 { return r.b.h.Clock().Millis() }

func (r *replication) end() store.PhyOffset { return r.b.log.MaxPhyOffset() }

// setChanged takes the controllers' word.
func (r *replication) setChanged(v *replicas.View) {
	r.set.Word(v.SyncStateSet, v.SyncStateSetEpoch)
	r.publish()
	r.nextTick = 0
}

// takeRole is AutoSwitchHAService.BecomeMaster and BecomeSlave.
func (r *replication) takeRole(id int64, role *replicas.Role) error {
	if last := max(r.epochs.Last(), r.epoch); role.Epoch < last {
		return fmt.Errorf("%w: %d, the last is %d", ha.ErrOldEpoch, role.Epoch, last)
	}
	if role.Master {
		return r.becomeMaster(id, role)
	}
	if !r.b.log.Following() {
		r.b.log.Follow()
		r.leave()
	}
	anew := r.epoch != role.Epoch
	r.epoch = role.Epoch
	if r.follower == nil {
		r.follower = newFollower(r, id)
	}
	r.follower.setMaster(r.b.c.brokerByAddr(role.MasterAddress), anew)
	return nil
}

func (r *replication) becomeMaster(id int64, role *replicas.Role) error {
	log := r.b.log
	switch {
	case log.Following():
		if r.follower != nil {
			r.follower.close()
			r.follower = nil
		}
		end, err := log.CutTail()
		if err != nil {
			return err
		}
		r.shown = -1 // publish says it anew
		if len(role.SyncStateSet) == 1 || !r.b.c.Config.Ack.all() {
			log.ConfirmTo(noEnd)
		}
		if err := r.epochs.TruncateSuffix(end + 1); err != nil {
			return err
		}
		if err := r.beginEpoch(role.Epoch, end); err != nil {
			return err
		}
		r.lead(id, role)
		return log.Lead()
	case r.epoch == role.Epoch:
		r.set.Word(role.SyncStateSet, role.SyncStateSetEpoch)
		r.publish()
		return nil
	}
	if err := r.beginEpoch(role.Epoch, log.MaxPhyOffset()); err != nil {
		return err
	}
	r.lead(id, role)
	return nil
}

func (r *replication) beginEpoch(epoch int32, at store.PhyOffset) error {
	if r.epochs.Last() == epoch {
		return nil
	}
	return r.epochs.Append(epoch, at)
}

func (r *replication) lead(id int64, role *replicas.Role) {
	r.epoch = role.Epoch
	r.set.Lead(id, role.SyncStateSet, role.SyncStateSetEpoch, min(max(r.confirm, r.b.log.DispatchedWhere()), r.end()),
		r.millis())
	r.publish()
	r.nextTick = 0
}

func (r *replication) show(p store.PhyOffset) {
	r.shown = p
	r.b.log.ConfirmTo(p)
}

// leave ends being a master.
func (r *replication) leave() {
	r.publish()
	r.set.Leave()
	if r.shown == noEnd { // what comes from here on others confirm
		r.show(r.end())
	}
	for _, l := range r.links {
		l.conn.Close()
	}
	r.links = nil
	for _, w := range r.waiting {
		w.done(false)
	}
	r.waiting = nil
}

// link is a slave's connection.
type link struct {
	r    *replication
	conn *Conn
	core *ha.SwitchLink
	id   int64
	ack  store.PhyOffset
	// again: the socket took no more; it is looked at again soon.
	again bool
}

// accept takes a slave's connection.
func (r *replication) accept(c *Conn) {
	if !r.set.Leading() {
		c.Close()
		return
	}
	l := &link{r: r, conn: c, core: ha.NewSwitchLink(r.epochs, r.millis()), ack: -1}
	c.Received = func(v any) { l.received(v.([]byte)) }
	c.Closed = l.closed
	r.links = append(r.links, l)
}

func (l *link) ends() ha.LogEnds {
	return ha.LogEnds{Min: l.r.b.log.MinPhyOffset(), Max: l.r.end(), FileBytes: logFileBytes}
}

func (l *link) received(b []byte) {
	r := l.r
	if err := l.core.Received(b, r.millis(), l.ends()); err != nil {
		if frame, ok := l.core.Refusal(); ok {
			l.conn.Send(frame)
		}
		r.b.h.w.Tracef("%s: slave %d: %v", r.b.h.Name, l.id, err)
		l.conn.Close()
		l.closed()
		return
	}
	if id, learner, ok := l.core.Slave(); ok && l.id == 0 {
		for _, other := range r.links {
			if other != l && other.id == id { // it has come back before its old connection has ended
				other.conn.Close()
				other.closed()
				break
			}
		}
		l.id = id
		r.set.Connected(id, learner, r.millis())
	}
	if ack := l.core.Ack(); ack > l.ack {
		l.ack = ack
		if r.set.Acked(l.id, ack, r.end(), r.millis()) {
			r.nextTick = 0
		}
	}
}

func (l *link) closed() {
	r := l.r
	for i, other := range r.links {
		if other == l {
			r.links = append(r.links[:i:i], r.links[i+1:]...)
			if l.id != 0 {
				r.set.Closed(l.id)
				r.nextTick = 0
			}
			return
		}
	}
}

// write sends what is due and finds room.
func (l *link) write() {
	r := l.r
	for l.conn.Open() && len(l.conn.out) < maxUnsentFrames {
		due, ok := l.core.Due(r.millis(), heartbeatMillis, r.end(), r.confirmed())
		switch {
		case !ok:
			return
		case due.Handshake:
			l.conn.Send(l.core.Handshake(r.millis(), r.end()))
		case due.Heartbeat:
			l.conn.Send(l.core.AppendHead(nil, due.From, 0, r.confirmed()))
			l.core.Sent(0, r.confirmed(), r.millis())
		default:
			seg, ok := r.b.log.ReadLog(due.From, l.core.Limit(due.From, 1+r.b.h.w.Rand.IntN(maxFrameBytes)))
			if !ok {
				l.conn.Close()
				l.closed()
				return
			}
			frame := l.core.AppendHead(nil, due.From, len(seg.Bytes), r.confirmed())
			l.conn.Send(append(frame, seg.Bytes...))
			l.core.Sent(len(seg.Bytes), r.confirmed(), r.millis())
		}
	}
	if l.conn.Open() && !l.again { // there is more, when the socket takes it
		l.again = true
		r.b.h.After(time.Millisecond, func() { l.again = false })
	}
}

// work is called after everything that happens.
func (r *replication) work() {
	if r.follower != nil {
		r.follower.work()
	}
	if !r.set.Leading() {
		return
	}
	for _, l := range append([]*link(nil), r.links...) {
		if l.core.Expired(r.millis(), housekeepingMillis) {
			r.b.h.w.Tracef("%s: slave %d is silent", r.b.h.Name, l.id)
			l.conn.Close()
			l.closed()
			continue
		}
		l.write()
	}
	r.publish()
	if r.b.h.w.now >= r.nextTick {
		r.nextTick = r.b.h.w.now + setInterval
		if ask := r.set.Tick(r.end(), r.millis(), r.b.c.Config.Ack.maxBehindMillis()); ask != nil {
			r.b.h.w.Tracef("%s: asks for SyncStateSet %v", r.b.h.Name, ask)
			r.b.m.WantSet(r.b.h.Clock().Now(), ask)
			r.b.h.After(0, func() {}) // has the manager work
		}
	}
}

// publish says what is confirmed, and answers who has waited for it.
func (r *replication) publish() {
	if !r.set.Leading() {
		return
	}
	bound := noEnd
	switch {
	case r.set.Alone():
		r.set.Confirmed(r.end())
	case r.b.c.Config.Ack.all():
		bound = r.set.Confirmed(r.end())
	}
	if r.confirm = bound; bound == noEnd {
		r.confirm = r.end()
	}
	if bound != r.shown {
		r.show(bound)
	}
	waiting := r.waiting
	r.waiting = nil
	for _, w := range waiting {
		switch {
		case r.hasCopies(w.end):
			w.done(true)
		case r.b.h.w.now >= w.deadline:
			w.done(false)
		default:
			r.waiting = append(r.waiting, w)
		}
	}
}

// hasCopies is the rule of acknowledgement.
func (r *replication) hasCopies(end store.PhyOffset) bool {
	ack := r.b.c.Config.Ack
	switch {
	case !r.set.Leading():
		return false
	case !ack.all():
		return true
	case r.set.Confirmed(r.end()) < end:
		return false
	}
	more := ack.least(r.b.c.Config.Brokers) - 1
	return more <= 0 || r.set.Copies(more) >= end
}

// admit tells whether a message may be stored (minInSyncReplicas).
func (r *replication) admit() bool {
	return r.set.InSync() >= r.b.c.Config.Ack.least(r.b.c.Config.Brokers)
}

// copied has done called when the message has its copies, or will not get them in time.
func (r *replication) copied(end store.PhyOffset, done func(ok bool)) {
	if r.hasCopies(end) {
		done(true)
		return
	}
	r.waiting = append(r.waiting, waitingPut{end, r.b.h.w.now + slaveTimeout, done})
	r.b.h.After(slaveTimeout, func() {})
}

// confirmed is up to where this replica says that the log is confirmed.
func (r *replication) confirmed() store.PhyOffset {
	if r.set.Leading() && r.shown == noEnd {
		return r.end()
	}
	return min(r.confirm, r.end())
}
