package ha

import (
	"errors"
	"fmt"

	"skylark/store"
)

// errStranger closes a connection whose report no slave of this log can make.
var errStranger = errors.New("ha: the report is none of a slave of this log")

// logEnds are the two ends of a log and the length of its files.
type logEnds struct {
	min, max  store.PhyOffset
	fileBytes int64
}

// masterLink is a slave as its master sees it (Java DefaultHAConnection): pure, driven by HAConnection. Times are ms.
type masterLink struct {
	reports  reports
	started  bool            // the first report came
	next     store.PhyOffset // of the next frame
	ack      store.PhyOffset // up to where the slave has the log
	readAt   int64           // of the last report
	wroteAt  int64           // of the last frame
	notified store.PhyOffset // see refusal
}

// send is what a link has to write next.
type send struct {
	heartbeat bool
	from      store.PhyOffset
}

// newMasterLink is a connection accepted at nowMillis.
func newMasterLink(nowMillis int64) masterLink {
	return masterLink{readAt: nowMillis, wroteAt: nowMillis, notified: -1}
}

// received takes bytes of the slave. An error ends the connection; refusal may tell the slave why first. acked says that
// the slave has more than before.
func (l *masterLink) received(b []byte, nowMillis int64, log logEnds) (acked bool, err error) {
	offset, ok := l.reports.last(b)
	if !ok {
		return false, nil
	}
	l.readAt = nowMillis
	if l.started {
		if offset < 0 || offset > l.next {
			return false, fmt.Errorf("%w: it confirms %d, sent was up to %d", errStranger, offset, l.next)
		}
		if offset <= l.ack {
			return false, nil
		}
		l.ack = offset
		return true, nil
	}
	switch {
	case offset < 0:
		return false, fmt.Errorf("%w: it asks for %d", errStranger, offset)
	case offset > log.max:
		l.notified = log.max
		return false, fmt.Errorf("%w: it asks for %d, the log ends at %d", errStranger, offset, log.max)
	case offset > 0 && offset < log.min:
		l.notified = log.min
		return false, fmt.Errorf("ha: the slave asks for %d, the log begins at %d: it has to be copied anew", offset, log.min)
	}
	l.started, l.next, l.ack = true, offset, offset
	if offset == 0 {
		l.next = max(log.max-log.max%store.PhyOffset(log.fileBytes), log.min)
	}
	return true, nil
}

// refusal is a heartbeat that tells a slave of ours why it is refused: with the end of the log to one that is ahead of it,
// with the start to one that was left behind. Java's slave finds that it does not fit, logs both offsets, and tries again.
func (l *masterLink) refusal() (h header, ok bool) {
	return header{phyOffset: l.notified}, l.notified >= 0
}

// due is what is to be written now, if anything: a heartbeat first, so that data cannot keep it away (Java).
func (l *masterLink) due(nowMillis, heartbeatMillis int64, logEnd store.PhyOffset) (s send, ok bool) {
	switch {
	case !l.started:
		return s, false
	case nowMillis-l.wroteAt >= heartbeatMillis:
		return send{heartbeat: true, from: l.next}, true
	case l.next < logEnd:
		return send{from: l.next}, true
	}
	return s, false
}

// sent notes what was written: n bytes of the log, 0 for a heartbeat.
func (l *masterLink) sent(n int, nowMillis int64) {
	l.next += store.PhyOffset(n)
	l.wroteAt = nowMillis
}

// expired tells that the slave has been silent for too long.
func (l *masterLink) expired(nowMillis, housekeepingMillis int64) bool {
	return nowMillis-l.readAt > housekeepingMillis
}
