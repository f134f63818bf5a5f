package ha

import (
	"encoding/binary"
	"fmt"

	"skylark/store"
)

// SwitchLink is a slave as a master in a group with automatic switching sees it (Java AutoSwitchHAConnection): pure, driven
// by a connection or a simulation. Times are ms.
//
// The slave introduces itself, is told the epochs, says from where on it wants the log, and confirms what it has. What no
// slave can say ends the connection. Bytes of two epochs never share a frame.
type SwitchLink struct {
	epochs *Epochs

	in    [slaveHandshakeBytes]byte
	inN   int
	shook bool // the slave introduced itself
	told  bool // and was told the epochs
	slave slaveHandshake

	started  bool            // the first report came
	next     store.PhyOffset // of the next frame
	ack      store.PhyOffset // up to where the slave has the log, -1 before the first report
	readAt   int64
	wroteAt  int64
	confirm  store.PhyOffset // what the slave was told of it
	notified store.PhyOffset // see Refusal
}

// LogEnds are the two ends of a log and the length of its files.
type LogEnds struct {
	Min, Max  store.PhyOffset
	FileBytes int64
}

// confirmMillis is how long a link that sends nothing keeps to itself that more is confirmed.
const confirmMillis = 20

// NewSwitchLink is a connection accepted at nowMillis.
func NewSwitchLink(epochs *Epochs, nowMillis int64) *SwitchLink {
	return &SwitchLink{epochs: epochs, readAt: nowMillis, wroteAt: nowMillis, ack: -1, notified: -1}
}

// Slave tells who it is; false before it said so.
func (l *SwitchLink) Slave() (id int64, learner, ok bool) {
	return l.slave.id, l.slave.learner, l.shook
}

// Ack is up to where the slave has the log, -1 before its first report.
func (l *SwitchLink) Ack() store.PhyOffset { return l.ack }

// Next is where the transfer is.
func (l *SwitchLink) Next() store.PhyOffset { return l.next }

// Started tells whether the slave has said from where on it wants the log.
func (l *SwitchLink) Started() bool { return l.started }

// Received takes bytes of the slave. An error ends the connection; Refusal may tell the slave why first.
func (l *SwitchLink) Received(b []byte, nowMillis int64, log LogEnds) error {
	for len(b) > 0 {
		n := copy(l.in[l.inN:l.need()], b)
		b = b[n:]
		l.inN += n
		if l.inN < 4 {
			return nil
		}
		state := binary.BigEndian.Uint32(l.in[:])
		if state != stateHandshake && state != stateTransfer {
			return fmt.Errorf("%w: frame of state %d", errStranger, state)
		}
		if l.inN < l.need() {
			continue
		}
		var err error
		if state == stateHandshake {
			err = l.handshake(parseSlaveHandshake(l.in[:]))
		} else {
			err = l.report(store.PhyOffset(binary.BigEndian.Uint64(l.in[4:])), log)
		}
		l.inN = 0
		if err != nil {
			return err
		}
		l.readAt = nowMillis
	}
	return nil
}

// need is how long the frame is that is being read, as far as it is known.
func (l *SwitchLink) need() int {
	switch {
	case l.inN < 4:
		return 4
	case binary.BigEndian.Uint32(l.in[:]) == stateHandshake:
		return slaveHandshakeBytes
	}
	return switchReportBytes
}

// handshake takes an introduction. Java's slave repeats it until it has been answered.
func (l *SwitchLink) handshake(h slaveHandshake) error {
	switch {
	case l.started:
		return fmt.Errorf("%w: it introduces itself again in the middle of the transfer", errStranger)
	case l.shook && h != l.slave:
		return fmt.Errorf("%w: it is replica %d, then %d", errStranger, l.slave.id, h.id)
	case h.id <= 0:
		return fmt.Errorf("%w: no replica has the id %d", errStranger, h.id)
	}
	l.shook, l.slave = true, h
	return nil
}

func (l *SwitchLink) report(offset store.PhyOffset, log LogEnds) error {
	switch {
	case !l.told:
		return fmt.Errorf("%w: it confirms %d before it was told the epochs", errStranger, offset)
	case l.started && (offset < 0 || offset > l.next):
		return fmt.Errorf("%w: it confirms %d, sent was up to %d", errStranger, offset, l.next)
	case l.started:
		l.ack = max(l.ack, offset)
		return nil
	case offset < 0:
		return fmt.Errorf("%w: it asks for %d", errStranger, offset)
	case offset > log.Max:
		l.notified = log.Max
		return fmt.Errorf("%w: it asks for %d, the log ends at %d", errStranger, offset, log.Max)
	case offset > 0 && offset < log.Min:
		l.notified = log.Min
		return fmt.Errorf("ha: the slave asks for %d, the log begins at %d: it has to be copied anew", offset, log.Min)
	}
	l.started, l.next, l.ack = true, offset, offset
	if offset == 0 {
		l.next = log.Min
		if l.slave.lastFile {
			l.next = max(log.Max-log.Max%store.PhyOffset(log.FileBytes), log.Min)
		}
	}
	return nil
}

// Refusal is a heartbeat that tells a slave why it is refused: with the end of the log to one that is ahead of it, with the
// start to one that was left behind. Java's slave finds that it does not fit, and tries again.
func (l *SwitchLink) Refusal() (frame []byte, ok bool) {
	if l.notified < 0 {
		return nil, false
	}
	return appendSwitchHeader(nil, switchHeader{phyOffset: l.notified, epoch: NoEpoch}), true
}

// SwitchSend is what a link has to write next: a Handshake, a heartbeat, or bytes of the log From there.
type SwitchSend struct {
	Handshake, Heartbeat bool
	From                 store.PhyOffset
}

// Due is what is to be written now, if anything: a heartbeat first, so that data cannot keep it away.
//
// An idle link tells also when more is confirmed than it said: consumers of a slave see messages no later then.
func (l *SwitchLink) Due(nowMillis, heartbeatMillis int64, logEnd, confirm store.PhyOffset) (s SwitchSend, ok bool) {
	switch {
	case l.shook && !l.told:
		return SwitchSend{Handshake: true}, true
	case !l.started:
		return s, false
	case nowMillis-l.wroteAt >= heartbeatMillis:
		return SwitchSend{Heartbeat: true, From: l.next}, true
	case l.next < logEnd:
		return SwitchSend{From: l.next}, true
	case confirm > l.confirm && nowMillis-l.wroteAt >= confirmMillis:
		return SwitchSend{Heartbeat: true, From: l.next}, true
	}
	return s, false
}

// Handshake tells the slave the end of the log and its epochs.
func (l *SwitchLink) Handshake(nowMillis int64, logEnd store.PhyOffset) (frame []byte) {
	l.told, l.wroteAt = true, nowMillis
	list := l.epochs.Entries()
	h := masterHandshake{end: logEnd, epoch: NoEpoch, entries: list}
	if len(list) > 0 {
		h.epoch = list[len(list)-1].Epoch
	}
	return appendMasterHandshake(nil, h)
}

// Limit is how many of maxBytes bytes from an offset on a frame may have: none of another epoch.
func (l *SwitchLink) Limit(from store.PhyOffset, maxBytes int) int {
	maxBytes = min(maxBytes, maxSwitchBodyBytes)
	return int(min(l.epochs.At(from).EndOffset-from, store.PhyOffset(maxBytes)))
}

// AppendHead appends the head of a frame of size bytes from an offset on, 0 for a heartbeat.
//
// A heartbeat names the epoch of the byte before it: a slave stores the label of what it has, none of what it may never get.
// Java's slave would keep the label of an epoch that stays empty, and give it to the bytes of the next one.
func (l *SwitchLink) AppendHead(b []byte, from store.PhyOffset, size int, confirm store.PhyOffset) []byte {
	h := switchHeader{size: size, phyOffset: from, epoch: NoEpoch, confirm: confirm}
	at := from
	if size == 0 {
		at--
	}
	if at >= 0 {
		e := l.epochs.At(at)
		h.epoch, h.epochStart = e.Epoch, e.StartOffset
	}
	return appendSwitchHeader(b, h)
}

// Sent notes what is written: n bytes of the log, 0 for a heartbeat, and what the heads said of confirm.
func (l *SwitchLink) Sent(n int, confirm store.PhyOffset, nowMillis int64) {
	l.next += store.PhyOffset(n)
	l.confirm, l.wroteAt = confirm, nowMillis
}

// IdleMillis is how long nothing will be due unless the log grows.
func (l *SwitchLink) IdleMillis(nowMillis, heartbeatMillis int64) int64 {
	if !l.started {
		return heartbeatMillis
	}
	idle := l.wroteAt + heartbeatMillis - nowMillis
	if l.confirm < l.next {
		idle = min(idle, confirmMillis)
	}
	return max(idle, 1)
}

// Expired tells that the slave has been silent for too long.
func (l *SwitchLink) Expired(nowMillis, housekeepingMillis int64) bool {
	return nowMillis-l.readAt > housekeepingMillis
}
