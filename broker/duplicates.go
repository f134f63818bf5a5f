package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"skylark/broker/dedup"
	"skylark/broker/topic"
	"skylark/codec"
	"skylark/reactor/rpc"
	"skylark/store"
)

const (
	// duplicateSweep is how often windows give back memory.
	duplicateSweep = 5 * time.Second
	// duplicateWait is how long a send waits for another of the same id that is being put.
	duplicateWait = 3 * time.Second
)

// makeDuplicates makes the windows of duplicate suppression, if it is on.
func (b *Broker) makeDuplicates() {
	own := b.o.Config.Own()
	if !own.DuplicateSuppressionEnable {
		return
	}
	topics := strings.FieldsFunc(own.DuplicateSuppressionTopics, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
	b.duplicates = dedup.New(dedup.Options{Count: own.DuplicateWindowCount, Keep: millis(own.DuplicateWindowMillis),
		MaxBytes: own.DuplicateWindowMaxBytes, Topics: topics})
}

// startDuplicates fills the windows from the log, unless the controllers say first whose it is.
func (b *Broker) startDuplicates() {
	if b.duplicates == nil {
		return
	}
	if b.replica.switching == nil {
		b.fillDuplicates()
	}
	b.every(duplicateSweep, func() {
		b.duplicates.Sweep(b.clock.Millis(), func(name string) bool { return b.topics.Get(name) != nil })
	})
}

// fillDuplicates fills the windows from the log; no send has come yet.
func (b *Broker) fillDuplicates() {
	if b.duplicates == nil {
		return
	}
	began := b.clock.Millis()
	r, err := b.duplicates.Rebuild(b.store, int64(b.cfg.store.MappedFileSizeCommitLog), began)
	b.log.Info("duplicate windows rebuilt from the log", "messages", r.Messages, "from", int64(r.From), "end", int64(r.End),
		"millis", b.clock.Millis()-began)
	switch {
	case err != nil:
		b.log.Error("duplicate windows are not complete: the log could not be read", "error", err)
	case r.Cut:
		b.log.Warn("duplicate windows are not complete: they go too far back in the log")
	}
}

// Duplicates are the windows of duplicate suppression, nil when it is off.
func (b *Broker) Duplicates() *dedup.Windows { return b.duplicates }

// duplicateInfo is their part of GET_BROKER_RUNTIME_INFO.
func (b *Broker) duplicateInfo(into map[string]string) {
	if b.duplicates != nil {
		b.duplicates.RuntimeInfo(into)
	}
}

// claimed is what became of the id of a send.
type claimed uint8

const (
	claimFresh    claimed = iota // it is to be put; st.tickets are to be settled
	claimAnswered                // it was put before, or cannot be told
	claimLater                   // on a loop: another send of the id is being put
)

// claim looks the message that fill has made up in the window of its topic. The caller's put follows at once: what follows
// may not leave the request to a pool.
func (p *SendMessageProcessor) claim(r *rpc.Request, st *sendTurn, t *topic.Topic) claimed {
	b := p.b
	st.tickets = st.tickets[:0]
	w := b.duplicates.Of(t.Name)
	if w == nil || st.madeID {
		return claimFresh
	}
	one := st.claimOne
	if st.header.Batch {
		one = st.claimBatch
	}
	for end := b.clock.Now().Add(duplicateWait); ; {
		id, state := one(r, w, t)
		if state != claimLater {
			return state
		}
		left := end.Sub(b.clock.Now())
		switch {
		case len(st.gather) > 0:
			st.commit(r.Turn()) // it may be one of these, and nobody shall wait for us while we wait
		case r.OnLoop():
			return claimLater
		case left <= 0 || !w.Wait(id, left, b.clock):
			p.refuse(r, codec.RespSystemBusy, fmt.Sprintf("the same message, %s %s, is being stored since %v", codec.PropUniqKey,
				id, duplicateWait))
			return claimAnswered
		}
	}
}

// claimOne is claim for a single message; claimLater names the id to wait for.
func (st *sendTurn) claimOne(r *rpc.Request, w *dedup.Window, t *topic.Topic) ([]byte, claimed) {
	b, id, half := st.b, st.resp.TransactionID, st.msg.Topic == codec.HalfTopic
	ticket, found, state := w.Claim(id, r.Millis())
	if state == dedup.Known {
		stands := found.Half == half
		if stands && half {
			var served bool
			if stands, served = b.svc().transactions.Stands(found.QueueOffset, r.OnLoop()); !served {
				return id, claimLater
			}
		}
		if stands {
			st.answerKnown(r, w, t, &store.PutResult{PhyOffset: found.PhyOffset, EndOffset: found.End,
				QueueOffset: found.QueueOffset, Count: 1}, &found)
			return nil, claimAnswered
		}
		ticket, _, state = w.ClaimAnew(id, r.Millis())
	}
	if state == dedup.Pending {
		return id, claimLater
	}
	if st.msg.Topic == codec.TimerTopic {
		out, _ := codec.LookupProperty(st.msg.Properties, codec.PropTimerOutMs)
		ticket.Deliver, _ = strconv.ParseInt(string(out), 10, 64)
	}
	st.tickets = append(st.tickets, ticket)
	return nil, claimFresh
}

// claimBatch is claim for a batch, which is a duplicate if every message of it is. Else it is stored whole; messages
// without an id are never duplicates.
func (st *sendTurn) claimBatch(r *rpc.Request, w *dedup.Window, t *topic.Topic) ([]byte, claimed) {
	var put store.PutResult
	var first dedup.Found
	var pending []byte
	fresh := false
	err := codec.EachBatchEntry(st.msg.Body, func(i int, e codec.BatchEntry) error {
		id, ok := codec.LookupProperty(e.Properties, codec.PropUniqKey)
		if !ok || len(id) == 0 {
			fresh = true
			st.tickets = append(st.tickets, dedup.Ticket{})
			return nil
		}
		ticket, found, state := w.Claim(id, r.Millis())
		switch state {
		case dedup.Pending:
			pending = id
			return errPending
		case dedup.Known:
			if i == 0 {
				first = found
			}
			put.PhyOffsets = append(put.PhyOffsets, found.PhyOffset)
			put.EndOffset = max(put.EndOffset, found.End)
			fresh = fresh || found.Half
		default:
			fresh = true
		}
		st.tickets = append(st.tickets, ticket)
		return nil
	})
	if err == nil && (fresh || len(put.PhyOffsets) == 0) {
		return nil, claimFresh
	}
	dropTickets(st.tickets)
	st.tickets = st.tickets[:0]
	if err != nil {
		return pending, claimLater
	}
	put.PhyOffset, put.QueueOffset, put.Count = first.PhyOffset, first.QueueOffset, len(put.PhyOffsets)
	st.answerKnown(r, w, t, &put, &first)
	return nil, claimAnswered
}

var errPending = fmt.Errorf("a message of the batch is being stored")

func dropTickets(list []dedup.Ticket) {
	for i := range list {
		list[i].Drop()
	}
}

// answerKnown answers with the result of the send that came first, when that is as durable as promised.
func (st *sendTurn) answerKnown(r *rpc.Request, w *dedup.Window, t *topic.Topic, put *store.PutResult, first *dedup.Found) {
	b := st.b
	b.log.Debug("a send that is there already is answered with the first result", "topic", t.Name, "queueId", first.QueueID,
		"queueOffset", int64(first.QueueOffset), "phyOffset", int64(first.PhyOffset), "remote", r.Conn().RemoteAddr())
	w.Answered(put.Count)
	a := st.pending(r, t)
	a.put, a.queueID, a.recall = *put, first.QueueID, nil
	if first.Deliver > 0 {
		a.recall = recallHandle(t.Name, b.cfg.broker.BrokerName, strconv.AppendInt(nil, first.Deliver, 10), st.resp.TransactionID)
	}
	st.settle(r.Turn(), &a)
}

// settleTicket tells the window of a single message what became of it.
func (w *pendingSend) settleTicket() {
	if w.put.Status != store.PutOK {
		w.ticket.Drop()
		return
	}
	w.ticket.Store(dedup.Found{PhyOffset: w.put.PhyOffset, End: w.put.EndOffset, QueueOffset: w.put.QueueOffset,
		QueueID: w.queueID, Deliver: w.ticket.Deliver}, w.put.StoreTimestamp)
}

// settleTickets is the same for what was put alone: the messages of a batch, a half message.
func (st *sendTurn) settleTickets(w *pendingSend) {
	for i := range st.tickets {
		t := &st.tickets[i]
		at := w.put.PhyOffset // of a half message
		if len(w.put.PhyOffsets) > 0 {
			at = w.put.PhyOffsets[min(i, len(w.put.PhyOffsets)-1)]
		}
		if w.put.Status != store.PutOK || i >= w.put.Count {
			t.Drop()
			continue
		}
		t.Store(dedup.Found{PhyOffset: at, End: w.put.EndOffset, QueueOffset: w.put.QueueOffset + codec.QueueOffset(i),
			QueueID: w.queueID, Half: w.instead == codec.HalfTopic}, w.put.StoreTimestamp)
	}
	st.tickets = st.tickets[:0]
}
