package store

import (
	"cmp"
	"math"
)

// confirmScan dispatches of the records that recovery finds those that consumers saw before, and no others
// (Options.ConfirmedOnly; Java recoverNormally and recoverAbnormally in controller mode). A replica does not know by itself
// what of the end of its log is confirmed: its master may cut it.
//
// What they saw is what the checkpoint says (confirmPhyOffset, as in Java), at most a second or two old after a crash, or
// what the queues have on the disk, if that is more: an entry is made of what is confirmed only. Java keeps those entries
// as well.
type confirmScan struct {
	dispatch func(d *dispatchRecord) error
	to       PhyOffset // what may be shown

	end            PhyOffset // every record before it has its entry
	storeTimestamp int64     // of the last one of them, 0 = unknown; ms
	over           bool      // a record was met that may not be shown
}

// mayShow is up to where recovery shows the log, maxPhy up to where the queues have it.
func (s *MessageStore) mayShow(maxPhy PhyOffset) PhyOffset {
	if !s.o.ConfirmedOnly {
		return math.MaxInt64
	}
	return max(maxPhy, PhyOffset(s.checkpoint.confirmPhyOffset.Load()))
}

// begin starts at from. Everything before has its entry; storeTimestamp is that of the record before it.
func (c *confirmScan) begin(from PhyOffset, storeTimestamp int64) {
	c.end, c.storeTimestamp = from, storeTimestamp
}

func (c *confirmScan) record(d *dispatchRecord) error {
	end := d.phyOffset + PhyOffset(d.size)
	if c.over = c.over || end > c.to; c.over {
		return nil
	}
	c.end, c.storeTimestamp = end, d.storeTimestamp
	return c.dispatch(d)
}

// ended is told the end of the log.
func (c *confirmScan) ended(scan *logScan) {
	if !c.over {
		c.end = scan.end
	}
}

// setShown has the dispatch go on where recovery has ended it. What may be shown from there on ConfirmTo says. The
// checkpoint must not say more than there is: what will be written there one day is not confirmed.
func (s *MessageStore) setShown(c *confirmScan) error {
	at, last := s.cl.maxOffset(), s.checkpoint.physicMsgTimestamp.Load()
	if c.over {
		at, last = c.end, cmp.Or(c.storeTimestamp, s.checkpoint.logicsMsgTimestamp.Load())
	}
	s.reput.recovered(at, last)
	if !s.o.ConfirmedOnly {
		return nil
	}
	if c.over {
		s.log.Warn("the end of the log is shown to consumers when it is confirmed", "phyOffset", at, "end", s.cl.maxOffset())
	}
	s.cl.confirmTo.Store(int64(at))
	before := s.checkpoint.confirmPhyOffset.Swap(int64(at))
	s.checkpoint.shown = s.reput.where
	if before <= int64(at) {
		return nil
	}
	return s.checkpoint.flush()
}

// boundConfirmed has nothing shown behind p that is not confirmed anew: the log ends there, or is somebody else's from
// there on.
func (cl *commitLog) boundConfirmed(p PhyOffset) {
	if to := cl.confirmTo.Load(); to > int64(p) {
		cl.confirmTo.Store(int64(p))
	}
}

// numberOn has the queues go on behind the records from an offset on, which have no entries yet because they are not
// confirmed: the messages of a new master must not get their queue offsets. The caller holds writeMu and has stopped puts.
func (t *consumeQueueTable) numberOn(from PhyOffset) error {
	end := t.cl.wroteEnd()
	w := logWalker{cl: t.cl, o: t.o, at: from, written: end}
	defer w.release()
	var d dispatchRecord
	for {
		ok, err := w.next(end, &d)
		if err != nil || !ok {
			return err
		}
		if !d.consumable() {
			continue
		}
		t.numberBehind(&d, d.topic, d.queueID, int64(d.queueOffset)+int64(innerCount(d.properties)))
		if !t.o.lightDispatch() {
			continue
		}
		for l := d.lightEntries(); l.next(); {
			t.numberBehind(&d, l.name, lightQueueID, l.offset+1)
		}
	}
}

// numberBehind makes next the least offset of the next message of a queue.
func (t *consumeQueueTable) numberBehind(d *dispatchRecord, topic []byte, queueID int32, next int64) {
	before, deleted := t.deletedTopics[string(topic)]
	if deleted && d.phyOffset < before || !isTopicDirName(string(topic)) || queueID < 0 {
		return
	}
	cq := t.findOrCreate(string(topic), queueID)
	cq.next.Store(max(next, cq.next.Load()))
}
