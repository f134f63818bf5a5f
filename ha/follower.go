package ha

import (
	"errors"
	"fmt"
	"log/slog"

	"skylark/store"
	"skylark/zerocopy"
)

// FollowLog is what a slave's side needs of its log; *store.MessageStore is one.
type FollowLog interface {
	MinPhyOffset() store.PhyOffset
	MaxPhyOffset() store.PhyOffset
	ReadLog(from store.PhyOffset, maxBytes int) (zerocopy.Segment, bool)
	AppendLog(at store.PhyOffset, b []byte) error
	RecordStart(p store.PhyOffset) (store.PhyOffset, error)
	TruncateLog(p store.PhyOffset) error
	DropLog(keep bool) error
	// DispatchedWhere is up to where consumers were ever shown the log, also by an earlier process.
	DispatchedWhere() store.PhyOffset
}

// Range is the log of a master: [Min, Max).
type Range struct{ Min, Max store.PhyOffset }

// Bounds of the comparison of two logs.
const (
	// firstCompareBytes at the end of the slave's log are compared with the master's at each connection.
	firstCompareBytes = 64 << 10
	// compareGrowth is how much more is compared when all of that differs.
	compareGrowth = 16
	// maxCompareBytes is more than any log has.
	maxCompareBytes = 1 << 50
	// quietHeartbeats in a row, without data between them, say that the master's log ends there.
	quietHeartbeats = 3
)

// errAgain ends a connection that shall be made again at once: the slave's log has changed, or it knows more of the master.
var errAgain = errors.New("ha: the slave begins anew")

// errMasterEmpty says that the master lost its log. The slave's is the only copy then and is not touched.
var errMasterEmpty = errors.New("ha: the master's log ends before the slave's begins; if the master's data is lost, do " +
	"not start it as master, or remove the data of the slave to follow it")

// follower is a slave's log and its conversation with a master (Java DefaultHAClient): pure but for the log, driven by
// HAClient. Times are ms.
//
// # Where it begins
//
// An empty log asks for 0 as Java's does and gets the master's last file. Any other one asks for bytes it has: the last
// firstCompareBytes. What comes is compared; when all are equal it appends what follows. Records hold their offset, store
// time and id, so logs that agree there agree before.
//
//	they differ at a byte       cut at the start of that record, connect again
//	they differ from the start  compare more, down to the start of the log; with nothing in common: keep aside, copy anew
//	the master ends earlier     cut at its end, once what lies before it was compared
//	the master begins later     drop, copy from the master's start on
//
// It confirms only what was compared or appended.
type follower struct {
	log  FollowLog
	slog *slog.Logger

	window  store.PhyOffset // bytes to compare
	startAt store.PhyOffset // of an empty log, 0 = as the master says
	master  Range           // as far as known; Max -1 = unknown
	floor   store.PhyOffset // the master serves nothing from before it

	begun   bool
	stored  bool            // something of this connection
	from    store.PhyOffset // where the comparison began
	lowest  store.PhyOffset // where it can begin: what both have, as far as known
	check   store.PhyOffset // everything before was compared, or is ours from this connection
	checkTo store.PhyOffset // end of the comparison
	cutAt   store.PhyOffset // where the log ends after it, -1 = nowhere

	head     [headerBytes]byte
	headN    int
	body     int // bytes of the current frame to come
	quiet    int // heartbeats while bytes to compare are awaited
	reported store.PhyOffset
	readAt   int64
	wroteAt  int64
}

func newFollower(log FollowLog, l *slog.Logger) *follower {
	return &follower{log: log, slog: l, window: firstCompareBytes, master: Range{-1, -1}}
}

// begin prepares for a new connection and gives the first report. known is the master's log, if somebody could ask.
func (f *follower) begin(nowMillis int64, known *Range) (store.PhyOffset, error) {
	f.headN, f.body, f.quiet, f.cutAt, f.stored = 0, 0, 0, -1, false
	f.readAt, f.wroteAt, f.begun = nowMillis, nowMillis, true
	if known != nil {
		f.master = *known
	}
	master := f.master
	f.master = Range{-1, -1} // it may be another one next time
	own := Range{f.log.MinPhyOffset(), f.log.MaxPhyOffset()}
	if own.Max > own.Min && master.Max >= 0 && master.Max <= own.Min {
		return 0, fmt.Errorf("%w: master [%d,%d), slave [%d,%d)", errMasterEmpty, master.Min, master.Max, own.Min, own.Max)
	}
	if own.Max > 0 && master.Min > own.Max {
		f.slog.Error("the master's log begins behind ours: it is copied anew", "master", master.Min, "phyOffset", own.Max)
		if err := f.log.DropLog(false); err != nil {
			return 0, err
		}
		f.startAt, own = master.Min, Range{}
	}
	if own.Max == 0 && f.startAt > 0 {
		f.startAt = max(f.startAt, master.Min) // files expire while the slave starts
	}
	if own.Max == 0 || own.Max == own.Min {
		f.check, f.checkTo = f.startAt, f.startAt
		f.from, f.reported = f.startAt, f.startAt
		if own.Max > 0 {
			f.from, f.check, f.checkTo, f.reported = own.Max, own.Max, own.Max, own.Max
		}
		return f.reported, nil
	}
	end := own.Max
	if master.Max >= 0 && master.Max < end {
		end, f.cutAt = master.Max, master.Max
	}
	f.lowest = max(own.Min, master.Min, min(f.floor, end), 1) // 0 would mean the master's last file
	f.from = max(end-f.window, f.lowest)
	f.check, f.checkTo, f.reported = f.from, end, f.from
	return f.from, nil
}

// received takes bytes of the master. An error ends the connection; with errAgain it is made again at once.
func (f *follower) received(b []byte, nowMillis int64) error {
	if len(b) > 0 {
		f.readAt = nowMillis
	}
	for len(b) > 0 {
		if f.body > 0 {
			n := min(len(b), f.body)
			if err := f.take(b[:n]); err != nil {
				return err
			}
			f.body -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.headN:], b)
		f.headN += n
		b = b[n:]
		if f.headN < headerBytes {
			return nil
		}
		f.headN = 0
		h, err := parseHeader(f.head[:])
		if err == nil {
			err = f.frame(h)
		}
		if err != nil {
			return err
		}
		f.body = h.size
	}
	return nil
}

// frame judges where a frame begins.
func (f *follower) frame(h header) error {
	empty := f.log.MaxPhyOffset() == 0
	switch {
	case empty && h.size == 0 && f.startAt > 0 && h.phyOffset > f.startAt:
		f.startAt = h.phyOffset
	case empty && h.size == 0:
		return nil
	case empty && f.check != h.phyOffset:
		f.check, f.checkTo = h.phyOffset, h.phyOffset
		return nil
	case h.phyOffset == f.check:
		if h.size > 0 {
			f.quiet = 0
			return nil
		}
		return f.heartbeat()
	case h.size > 0:
		return fmt.Errorf("ha: the master sends from %d, expected was %d", h.phyOffset, f.check)
	case h.phyOffset < f.check:
		f.master = Range{-1, h.phyOffset}
	default:
		f.master = Range{h.phyOffset, -1}
	}
	return fmt.Errorf("%w: the master is at %d, the slave asked for %d", errAgain, h.phyOffset, f.check)
}

// heartbeat at the expected place: the master has no more for now. After some in a row its log ends there: before what is
// to be compared, or in the middle of it.
func (f *follower) heartbeat() error {
	if f.check >= f.checkTo {
		return nil
	}
	if f.quiet++; f.quiet < quietHeartbeats {
		return nil
	}
	if f.check > f.from {
		return f.cut(f.check, "the master's log ends there")
	}
	return f.widen("the master has nothing there")
}

// widen compares more at the next connection.
func (f *follower) widen(why string) error {
	if f.from <= f.lowest {
		return fmt.Errorf("ha: nothing in common with the master from %d on: %s", f.lowest, why)
	}
	f.window = min(f.window*compareGrowth, maxCompareBytes)
	return fmt.Errorf("%w: %s; the last %d bytes are compared", errAgain, why, f.window)
}

// take compares or appends a piece of a body.
func (f *follower) take(b []byte) error {
	for len(b) > 0 && f.check < f.checkTo {
		n, err := f.compare(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if f.check == f.checkTo {
			if err := f.compared(); err != nil {
				return err
			}
		}
	}
	if len(b) == 0 {
		return nil
	}
	if err := f.log.AppendLog(f.check, b); err != nil {
		return f.foreign(err)
	}
	f.check += store.PhyOffset(len(b))
	f.stored = true
	return nil
}

// compared ends the comparison: both logs are the same up to here.
func (f *follower) compared() error {
	f.window = firstCompareBytes
	if f.cutAt < 0 || f.cutAt >= f.log.MaxPhyOffset() {
		return nil
	}
	return f.cut(f.cutAt, "the master's log ends there")
}

// compare takes a piece that the log has already.
func (f *follower) compare(b []byte) (int, error) {
	seg, ok := f.log.ReadLog(f.check, min(len(b), int(f.checkTo-f.check)))
	if !ok {
		return 0, fmt.Errorf("ha: the slave's log has nothing at %d any more", f.check)
	}
	defer seg.Owner.Release()
	n := len(seg.Bytes)
	for i, c := range seg.Bytes {
		if c != b[i] {
			return 0, f.differs(f.check + store.PhyOffset(i))
		}
	}
	f.check += store.PhyOffset(n)
	return n, nil
}

// differs cuts the log before the byte at p.
func (f *follower) differs(p store.PhyOffset) error {
	start, err := f.log.RecordStart(p)
	if err != nil {
		return err
	}
	own := f.log.MinPhyOffset()
	switch {
	case start > f.from: // what lies between was equal
		return f.cut(start, "the master's log differs")
	case f.from > f.lowest:
		return f.widen(fmt.Sprintf("the master's log differs at %d", p))
	case start > own:
		return f.cut(start, "the master's log differs")
	}
	f.slog.Error("nothing in common with the master: the log is put aside and copied anew", "phyOffset", p)
	if err := f.log.DropLog(true); err != nil {
		return err
	}
	f.startAt = 0
	return fmt.Errorf("%w: nothing in common with the master's log", errAgain)
}

// cut ends the log at the last record start before p, or there.
func (f *follower) cut(p store.PhyOffset, why string) error {
	start, err := f.log.RecordStart(p)
	if err != nil {
		return err
	}
	f.slog.Error("slave's log is cut to the common point with its master", "phyOffset", start, "end", f.log.MaxPhyOffset(),
		"reason", why)
	if start <= f.log.MinPhyOffset() {
		err = f.log.DropLog(true)
		f.startAt = 0
	} else {
		err = f.log.TruncateLog(start)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s at %d", errAgain, why, start)
}

// foreign takes bytes back that turned out to be no records: the logs differ before them, or the link is broken.
func (f *follower) foreign(err error) error {
	if !errors.Is(err, store.ErrForeignLog) {
		return err
	}
	f.slog.Error("the master's bytes are no continuation of our log", "phyOffset", f.check, "err", err)
	start, startErr := f.log.RecordStart(f.log.MaxPhyOffset())
	if startErr != nil {
		return errors.Join(err, startErr)
	}
	if start < f.log.MaxPhyOffset() {
		err = errors.Join(err, f.log.TruncateLog(start))
	}
	f.window = min(f.window*compareGrowth, maxCompareBytes)
	return err
}

// report is the offset to tell the master now, if there is something new or it is time.
func (f *follower) report(nowMillis, heartbeatMillis int64) (store.PhyOffset, bool) {
	if f.check <= f.reported && nowMillis-f.wroteAt < heartbeatMillis {
		return 0, false
	}
	if f.stored || f.log.MaxPhyOffset() > 0 { // what is stored may be in a write buffer still, where readers do not see it
		f.reported = max(f.check, f.reported)
	}
	f.wroteAt = nowMillis
	return f.reported, true
}

// unreported is how much was compared or appended since the last report.
func (f *follower) unreported() int64 { return int64(f.check - f.reported) }

// nextReport is when report has something to say though nothing came.
func (f *follower) nextReport(heartbeatMillis int64) int64 { return f.wroteAt + heartbeatMillis }

// expired tells that the master has been silent for too long.
func (f *follower) expired(nowMillis, housekeepingMillis int64) bool {
	return nowMillis-f.readAt > housekeepingMillis
}
