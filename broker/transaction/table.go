package transaction

import (
	"strconv"
	"sync"

	"skylark/codec"
)

// transaction is one open transaction. Its fields are guarded by transactions.mu; who has set busy may read them
// without, since nobody else changes them then.
type transaction struct {
	queueOffset int64           // of the present copy in the half queue
	phyOffset   codec.PhyOffset // of the present copy
	origin      int64           // queue offset of the first copy
	topic       string          // real
	group       string          // "" when the message names none
	since       int64           // ms, what its age counts from: its birth, or when it was resumed
	immunity    int64           // ms, -1 = transactionTimeOut
	checks      int             // times its producers were asked
	attempts    int             // rounds in which it could not be asked for lack of a group
	waiting     Reason          // why the last round did not ask
	unknown     bool            // a producer answered "unknown" to the last question
	resumed     bool
	busy        bool // being settled or put back

	// While it is committed and until its op message is written: a place in the log before the commit.
	floor      codec.PhyOffset
	inBatch    bool         // its op message is being written
	prev, next *transaction // openCommits
}

// What a place in the half window can be besides an open transaction: done, by whom.
var (
	committed  = &transaction{}
	rolledBack = &transaction{}
	over       = &transaction{} // replaced by a later copy, given up, settled before the start
)

func done(t *transaction) bool { return t == committed || t == rolledBack || t == over }

// queuedOp is a half offset that wants an op message.
type queuedOp struct {
	half int64
	tx   *transaction // of what a search of the log would find, else nil
}

// transactions is the table of what is open, and of what is done but not yet on the disk as such.
type transactions struct {
	mu     sync.Mutex
	idle   sync.Cond // a transaction is no longer busy
	halves window[*transaction]
	// copies are the transactions whose present copy is not the first, by their origin.
	copies map[int64]*transaction
	open   int
	// ops has for every op message one more than its highest half offset: it is done with when halves.front gets there.
	ops window[int64]
	// queued are half offsets that wait for their op message.
	queued      []queuedOp
	queuedBytes int
	queuedSince int64 // ms, the first
	// openCommits lists commits without op message in the order in which they began; its head says from where on the log
	// has to be searched after a crash.
	openCommits transaction
	groups      map[string]string
}

func (t *transactions) init() {
	t.idle.L = &t.mu
	t.copies, t.groups = map[int64]*transaction{}, map[string]string{}
	t.openCommits.next, t.openCommits.prev = &t.openCommits, &t.openCommits
}

// groupName gives a group's name the same memory in all its transactions.
func (t *transactions) groupName(name []byte) string {
	if s, ok := t.groups[string(name)]; ok {
		return s
	}
	if len(t.groups) >= maxNames {
		clear(t.groups)
	}
	s := string(name)
	t.groups[s] = s
	return s
}

// newTransaction makes the entry of a half message.
func (t *transactions) newTransaction(h *half, topic string, queueOffset codec.QueueOffset, phyOffset codec.PhyOffset,
	born, stored int64) *transaction {
	tx := &transaction{queueOffset: int64(queueOffset), phyOffset: phyOffset, origin: h.origin(queueOffset), topic: topic,
		since: min(born, stored), immunity: -1}
	if born <= 0 || !h.copied && stored-born > maxSkew.Milliseconds() {
		tx.since = stored // the producer's clock is wrong
	}
	if len(h.group) > 0 {
		tx.group = t.groupName(h.group)
	}
	if h.immunity != nil {
		tx.immunity = h.immunityMillis(-1)
	}
	if h.checks != nil {
		tx.checks, _ = strconv.Atoi(string(h.checks))
		tx.checks = max(tx.checks, 0)
		if tx.resumed = tx.checks == 0; tx.resumed {
			tx.since = stored
		}
	}
	return tx
}

// enter puts a transaction into the table under its present copy.
func (t *transactions) enter(tx *transaction) {
	at := t.halves.grow(tx.queueOffset)
	if at == nil || *at != nil {
		return // before the window, or known already
	}
	*at = tx
	t.open++
	if tx.origin != tx.queueOffset {
		t.copies[tx.origin] = tx
	}
}

// find is the open transaction of a half message, nil when it is not open; settled is how it ended, nil if that is not
// known any more.
func (t *transactions) find(queueOffset, origin int64) (tx, settled *transaction) {
	at := t.halves.at(queueOffset)
	if at != nil && *at != nil && !done(*at) {
		return *at, nil
	}
	if tx = t.copies[origin]; tx != nil {
		return tx, nil
	}
	if first := t.halves.at(origin); first != nil && *first != nil && !done(*first) {
		return *first, nil
	}
	if at != nil {
		settled = *at
	}
	return nil, settled
}

// leave takes a transaction out of the table.
func (t *transactions) leave(tx *transaction, how *transaction) {
	if at := t.halves.at(tx.queueOffset); at != nil {
		*at = how
	}
	if t.copies[tx.origin] == tx {
		delete(t.copies, tx.origin)
		if first := t.halves.at(tx.origin); first != nil && *first == over {
			*first = how
		}
	}
	t.open--
}

// moved gives a transaction its next copy. The former one is done.
func (t *transactions) moved(tx *transaction, queueOffset codec.QueueOffset, phyOffset codec.PhyOffset) {
	if at := t.halves.at(tx.queueOffset); at != nil {
		*at = over
	}
	tx.queueOffset, tx.phyOffset = int64(queueOffset), phyOffset
	if at := t.halves.grow(tx.queueOffset); at != nil {
		*at = tx
	}
	t.copies[tx.origin] = tx
}

// begin marks a commit that is about to be put, or another message that a search of the log has to find.
func (t *transactions) begin(tx *transaction, floor codec.PhyOffset) {
	tx.floor = floor
	last := t.openCommits.prev
	tx.prev, tx.next = last, &t.openCommits
	last.next, t.openCommits.prev = tx, tx
}

// end says that a commit has its op message, or failed.
func (t *transactions) end(tx *transaction) {
	if tx.next != nil {
		tx.prev.next, tx.next.prev = tx.next, tx.prev
		tx.prev, tx.next = nil, nil
	}
}

// floor is a place in the log before which every commit has its op message; now is the end of the log, read while mu
// is held.
func (t *transactions) floor(now codec.PhyOffset) codec.PhyOffset {
	if first := t.openCommits.next; first != &t.openCommits {
		return first.floor
	}
	return now
}

// progress moves the windows up and returns the offsets that CID_RMQ_SYS_TRANS has.
func (t *transactions) progress() (halfOffset, opOffset int64) {
	t.halves.advance(done, keepDone)
	t.ops.advance(func(end int64) bool { return end > 0 && end <= t.halves.front }, 0)
	return t.halves.front, t.ops.front
}

// opWritten enters an op message; end is one more than its highest half offset.
func (t *transactions) opWritten(opOffset codec.QueueOffset, end int64) {
	if at := t.ops.grow(int64(opOffset)); at != nil {
		*at = max(end, 1)
	}
}
