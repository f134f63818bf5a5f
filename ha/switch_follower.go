package ha

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"skylark/store"
)

// errOldMaster says that the peer was master before one that wrote part of our log: it does not know yet, or it is gone.
var errOldMaster = errors.New("ha: the peer is an old master")

// errMasterLost says that the master has no log where ours was confirmed, and what to do. Nothing is touched.
var errMasterLost = errors.New("ha: the master's log ends before this replica's begins, of which consumers were shown " +
	"messages: the master has lost them, or never had them. To keep them, stop the master, set enableElectUncleanMaster=true " +
	"at the controllers until this replica is elected, and start the other one again; to give them up, stop this replica and " +
	"move its commitlog, consumequeue, index, checkpoint and epochFileCheckpoint away")

// SwitchFollower is a slave's log and its conversation with a master in a group with automatic switching (Java
// AutoSwitchHAClient): pure but for the log and the file of epochs. Times are ms.
//
// The master tells its epochs. The slave cuts its log where its own epochs say that both are the same (the consistent
// point), keeps what it cuts, and follows from there. Java trusts the epochs alone. Here the last bytes before that point
// are compared too, as on a classic slave, because Java's masters may give two epochs the same name (see Epochs).
type SwitchFollower struct {
	log    FollowLog
	epochs *Epochs
	slog   *slog.Logger
	f      *follower

	shaken    bool // the master told its epochs
	head      [switchHeaderBytes]byte
	headN     int
	hello     []byte // body of the master's handshake so far
	body      int    // bytes of the current frame to come
	known     *Range
	masterMin store.PhyOffset // what a refusal told, -1 = nothing
	masterEnd store.PhyOffset // at the handshake
	first     bool            // the first report is due
	quiet     int             // heartbeats in a row though there should be more
	confirm   store.PhyOffset // as the master said
	out       [switchReportBytes]byte
}

// NewSwitchFollower follows with a log and its epochs.
func NewSwitchFollower(log FollowLog, epochs *Epochs, l *slog.Logger) *SwitchFollower {
	return &SwitchFollower{log: log, epochs: epochs, slog: l, f: newFollower(log, l), masterMin: -1}
}

// Begin prepares for a new connection and gives the slave's handshake. known is the master's log, if somebody could ask.
func (s *SwitchFollower) Begin(nowMillis, id int64, lastFile, learner bool, known *Range) []byte {
	s.shaken, s.first, s.headN, s.body, s.hello, s.quiet = false, false, 0, 0, nil, 0
	s.known = known
	s.f.readAt, s.f.wroteAt = nowMillis, nowMillis
	return appendSlaveHandshake(nil, slaveHandshake{lastFile: lastFile, learner: learner, id: id})
}

// Received takes bytes of the master. An error ends the connection; see Again.
func (s *SwitchFollower) Received(b []byte, nowMillis int64) error {
	if len(b) > 0 {
		s.f.readAt = nowMillis
	}
	for len(b) > 0 {
		if s.body > 0 {
			n := min(len(b), s.body)
			if err := s.take(b[:n], nowMillis); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		need := masterHandshakeBytes
		if s.shaken {
			need = switchHeaderBytes
		}
		n := copy(s.head[s.headN:need], b)
		b = b[n:]
		if s.headN += n; s.headN < need {
			return nil
		}
		s.headN = 0
		if err := s.frame(nowMillis); err != nil {
			return err
		}
	}
	return nil
}

// take takes n bytes of a body.
func (s *SwitchFollower) take(b []byte, nowMillis int64) error {
	s.body -= len(b)
	if s.shaken {
		return s.f.take(b)
	}
	s.hello = append(s.hello, b...)
	if s.body > 0 {
		return nil
	}
	return s.align(nowMillis)
}

// frame judges a head.
func (s *SwitchFollower) frame(nowMillis int64) error {
	h, err := parseMasterHead(s.head[:])
	if err != nil {
		return err
	}
	if want := uint32(stateTransfer); !s.shaken {
		want = stateHandshake
		if h.state != want {
			return fmt.Errorf("ha: the master is in state %d, the slave in %d", h.state, want)
		}
		s.body = h.size
		if h.size == 0 {
			return s.align(nowMillis)
		}
		return nil
	} else if h.state != want {
		return fmt.Errorf("ha: the master is in state %d, the slave in %d", h.state, want)
	}
	start := store.PhyOffset(binary.BigEndian.Uint64(s.head[20:]))
	confirm := store.PhyOffset(binary.BigEndian.Uint64(s.head[28:]))
	if h.size == 0 {
		err = s.heartbeat(h)
	} else if err = s.f.frame(header{phyOffset: h.phyOffset, size: h.size}); err == nil {
		s.quiet = 0
		err = s.label(h, start)
	}
	if err != nil {
		return err
	}
	s.body, s.confirm = h.size, max(confirm, 0)
	return nil
}

// heartbeat judges one. One at another place than expected is a refusal of a master of ours. A Java master without a log
// says -1, one that has deleted what the slave needs says nothing else.
func (s *SwitchFollower) heartbeat(h masterHead) error {
	if h.phyOffset < 0 {
		return nil
	}
	if h.phyOffset > s.f.check {
		s.masterMin = h.phyOffset
	}
	switch {
	case s.log.MaxPhyOffset() == 0:
		return nil
	case h.phyOffset == s.f.check && h.phyOffset >= max(s.f.checkTo, s.masterEnd):
		return nil
	case h.phyOffset == s.f.check:
		if s.quiet++; s.quiet < quietHeartbeats {
			return nil
		}
		return fmt.Errorf("ha: the master sends nothing from %d on, though its log ends at %d: has it deleted that?",
			s.f.check, s.masterEnd)
	}
	return fmt.Errorf("%w: the master is at %d, the slave asked for %d", errAgain, h.phyOffset, s.f.check)
}

// label stores the epoch of the bytes that follow, before they are stored.
func (s *SwitchFollower) label(h masterHead, start store.PhyOffset) error {
	if h.phyOffset+store.PhyOffset(h.size) <= s.f.checkTo || h.epoch == NoEpoch { // they are here already
		return nil
	}
	switch last := s.epochs.Last(); {
	case h.epoch == last:
		return nil
	case h.epoch < last:
		return fmt.Errorf("%w: it sends epoch %d, the log is in epoch %d", errOldMaster, h.epoch, last)
	}
	return s.epochs.Append(h.epoch, start)
}

// align cuts the log to what it has in common with the master's, by the epochs, and says from where on to send.
func (s *SwitchFollower) align(nowMillis int64) error {
	head, err := parseMasterHead(s.head[:])
	if err != nil {
		return err
	}
	master, err := parseEpochEntries(s.hello)
	if err != nil {
		return err
	}
	s.hello = nil
	end := max(head.phyOffset, 0)
	s.masterEnd = end
	if err := s.epochs.TruncateSuffix(s.log.MaxPhyOffset()); err != nil { // labels of bytes that are not here
		return err
	}
	own := s.epochs.Entries()
	if last := s.epochs.Last(); head.epoch < last {
		return fmt.Errorf("%w: its last epoch is %d, ours %d", errOldMaster, head.epoch, last)
	}
	if err := s.cutTo(own, master, end); err != nil {
		return err
	}
	s.f.floor = 0
	if len(master) > 0 {
		s.f.floor = master[0].StartOffset // a Java master sends nothing from before its first epoch
	}
	ends := Range{Min: max(s.masterMin, -1), Max: end}
	if s.known != nil {
		ends.Min = max(ends.Min, s.known.Min)
	}
	s.masterMin = -1
	if _, err = s.f.begin(nowMillis, &ends); err != nil {
		return err
	}
	if err := s.epochs.TruncateSuffix(s.log.MaxPhyOffset()); err != nil { // begin may have dropped the log
		return err
	}
	s.shaken, s.first = true, true
	s.slog.Info("master's epochs are known", "masterEpoch", head.epoch, "masterEnd", end, "phyOffset", s.f.check,
		"end", s.log.MaxPhyOffset())
	return nil
}

// cutTo ends the log at the consistent point.
func (s *SwitchFollower) cutTo(own, master []EpochEntry, masterEnd store.PhyOffset) error {
	lo, hi := s.log.MinPhyOffset(), s.log.MaxPhyOffset()
	switch {
	case hi <= lo:
		return nil
	case masterEnd <= lo:
		return s.emptyMaster(master, masterEnd)
	}
	point, ok := consistentPoint(own, master, hi, masterEnd)
	if !ok { // bytes of before the first epoch may be the same; they are compared
		point = min(hi, masterEnd)
		if len(own) > 0 {
			point = min(point, own[0].StartOffset)
		}
		if len(own) > 0 && len(master) > 0 {
			point = min(point, master[0].StartOffset)
		}
	}
	if point >= hi {
		return nil
	}
	start, err := s.log.RecordStart(max(point, lo))
	if err != nil {
		return err
	}
	log := s.slog.Warn
	if start < s.Confirmed() {
		log = s.slog.Error
	}
	log("slave's log is cut to the point that it has in common with its master by their epochs", "phyOffset", start,
		"end", hi, "masterEnd", masterEnd, "confirmed", s.Confirmed(), "epochs", tail(own, 3), "masterEpochs", tail(master, 3))
	if start <= lo {
		err = s.log.DropLog(true)
	} else {
		err = s.log.TruncateLog(start)
	}
	if err != nil {
		return err
	}
	return s.epochs.TruncateSuffix(s.log.MaxPhyOffset())
}

// emptyMaster is for a master whose log ends before ours begins. It was elected because it has everything that was
// confirmed. If nothing of our log ever was, nothing acknowledged is in it, and it is put aside as any tail that was not
// confirmed: the first master died with its first message, say, and with minInSyncReplicas=2 the next one cannot take
// any before we follow. Else the master has lost what it had, and we may have the only copy.
//
// What was confirmed in the last second before a crash we may not know. But then the master had it, and lost its data within
// that second; and what is put aside is kept.
func (s *SwitchFollower) emptyMaster(master []EpochEntry, masterEnd store.PhyOffset) error {
	lo, hi, shown := s.log.MinPhyOffset(), s.log.MaxPhyOffset(), s.log.DispatchedWhere()
	last, elected := s.epochs.Last(), NoEpoch
	if len(master) > 0 {
		elected = master[len(master)-1].Epoch
	}
	if lo > 0 || shown > 0 || last == NoEpoch || elected <= last {
		return fmt.Errorf("%w: master's epoch %d end %d, replica's epoch %d log [%d,%d), shown to %d", errMasterLost, elected,
			masterEnd, last, lo, hi, shown)
	}
	s.slog.Warn("the master was elected without a log: ours, of which nothing was ever confirmed, is put aside", "end", hi,
		"epoch", last, "masterEpoch", elected)
	if err := s.log.DropLog(true); err != nil {
		return err
	}
	return s.epochs.TruncateSuffix(s.log.MaxPhyOffset())
}

// Due is a report to send to the master now, if there is something new or it is time. It is good until the next call.
func (s *SwitchFollower) Due(nowMillis, heartbeatMillis int64) (frame []byte, ok bool) {
	if !s.shaken {
		return nil, false
	}
	offset := s.f.reported
	if s.first {
		s.first = false
		s.f.wroteAt = nowMillis
	} else if offset, ok = s.f.report(nowMillis, heartbeatMillis); !ok {
		return nil, false
	}
	return appendSwitchReport(s.out[:0], offset), true
}

// Unreported is how much was compared or appended since the last report; much, if the first one is due.
func (s *SwitchFollower) Unreported() int64 {
	switch {
	case !s.shaken:
		return 0
	case s.first:
		return math.MaxInt64
	}
	return int64(s.f.unreported())
}

// NextReport is when Due has something to say though nothing came.
func (s *SwitchFollower) NextReport(heartbeatMillis int64) int64 {
	return s.f.nextReport(heartbeatMillis)
}

// Shaken tells whether the handshake is over.
func (s *SwitchFollower) Shaken() bool { return s.shaken }

// Confirmed is up to where the log is confirmed, as the master said last.
func (s *SwitchFollower) Confirmed() store.PhyOffset { return min(s.confirm, s.f.check) }

// Again tells that an error of Received asks for a new connection at once.
func (s *SwitchFollower) Again(err error) bool { return errors.Is(err, errAgain) }

// Expired tells that the master has been silent for too long.
func (s *SwitchFollower) Expired(nowMillis, housekeepingMillis int64) bool {
	return s.f.expired(nowMillis, housekeepingMillis)
}
