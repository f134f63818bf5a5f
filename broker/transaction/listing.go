package transaction

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"skylark/codec"
	"skylark/store"
)

// Open describes an open transaction.
type Open struct {
	Topic, Group string
	UniqKey      string // "" when the half message could not be read
	QueueOffset  codec.QueueOffset
	PhyOffset    codec.PhyOffset
	AgeMillis    int64
	Checks       int // times its producers were asked
	Reason       Reason
}

// GivenUp describes a transaction in TRANS_CHECK_MAX_TIME_TOPIC. PhyOffset is that of the message there.
type GivenUp struct {
	Open
	PhyOffset   codec.PhyOffset
	StoreHost   netip.AddrPort
	SinceMillis int64 // ms since 1970 when it was given up
	Reason      Reason
	Resumed     bool // was brought back
}

// MsgID is what RESUME_CHECK_HALF_MESSAGE wants.
func (g *GivenUp) MsgID() string {
	return string(codec.AppendOffsetMsgID(nil, g.StoreHost, g.PhyOffset))
}

func (tx *transaction) describe(uniqKey string, now int64) Open {
	why := tx.waiting
	if why == Asked && tx.unknown {
		why = Unknown
	}
	return Open{Topic: tx.topic, Group: tx.group, UniqKey: uniqKey, QueueOffset: codec.QueueOffset(tx.queueOffset),
		PhyOffset: tx.phyOffset, AgeMillis: now - tx.since, Checks: tx.checks, Reason: why}
}

// OpenTransactions lists up to limit open transactions, those first that are furthest behind in the half queue. It may
// wait for the disk.
func (s *TransactionalMessageService) OpenTransactions(limit int) (out []Open) {
	now := s.o.Clock.Millis()
	s.t.mu.Lock()
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if len(out) >= limit {
			break
		}
		if tx != nil && !done(tx) {
			out = append(out, tx.describe("", now))
		}
	}
	s.t.mu.Unlock()
	for i := range out {
		raw, err := s.o.Store.ReadRecord(out[i].PhyOffset, nil)
		if err != nil {
			continue
		}
		if rec, err := codec.ParseRecord(raw, false); err == nil {
			id, _ := rec.Property(codec.PropUniqKey)
			out[i].UniqKey = string(id)
		}
	}
	return out
}

// givenUpList keeps the last given-up transactions.
type givenUpList struct {
	mu   sync.Mutex
	list []GivenUp // the oldest first
}

func (l *givenUpList) add(g GivenUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= MaxGivenUp {
		l.list = append(l.list[:0], l.list[len(l.list)-MaxGivenUp+1:]...)
	}
	l.list = append(l.list, g)
}

// GivenUp lists the last MaxGivenUp given-up transactions, the oldest first.
func (s *TransactionalMessageService) GivenUp() []GivenUp {
	s.givenUp.mu.Lock()
	list := slices.Clone(s.givenUp.list)
	s.givenUp.mu.Unlock()
	for i := range list {
		list[i].Resumed = s.counts.isResumed(list[i].PhyOffset)
	}
	return list
}

// loadGivenUp reads the end of TRANS_CHECK_MAX_TIME_TOPIC.
func (s *TransactionalMessageService) loadGivenUp() {
	lo, hi := s.o.Store.MinOffset(codec.TransCheckMaxTimeTopic, queue), s.o.Store.MaxOffset(codec.TransCheckMaxTimeTopic, queue)
	set := s.o.Settings()
	s.eachRecord(codec.TransCheckMaxTimeTopic, int64(max(lo, hi-MaxGivenUp)),
		func(_ int64, rec *codec.Record) {
			if rec == nil {
				return
			}
			h := parseHalf(rec.Properties)
			checks, _ := strconv.Atoi(string(h.checks))
			g := GivenUp{PhyOffset: rec.PhyOffset, StoreHost: rec.StoreHost, SinceMillis: rec.StoreTimestamp, Reason: TooOld,
				Open: Open{Topic: string(h.realTopic), Group: string(h.group),
					UniqKey: string(h.uniqKey), PhyOffset: rec.PreparedTransactionOffset,
					AgeMillis: rec.StoreTimestamp - rec.BornTimestamp, Checks: checks}}
			switch {
			case len(h.group) == 0:
				g.Reason = NoGroup
			case checks >= set.CheckMax:
				g.Reason = CheckedEnough
			}
			s.givenUp.add(g)
		})
}

// Errors of Resume; nothing has changed then.
var (
	ErrNotGivenUp = errors.New("the message is not in " + codec.TransCheckMaxTimeTopic)
	ErrResumed    = errors.New("the transaction has been brought back already")
)

// Resume brings a given-up transaction back to be checked anew (Java resumeCheckHalfMessage); p is its message in
// TRANS_CHECK_MAX_TIME_TOPIC. A put that was refused is no error.
func (s *TransactionalMessageService) Resume(p codec.PhyOffset) (put store.PutResult, err error) {
	if !s.ready(false) {
		return put, ErrLoading
	}
	raw, err := s.o.Store.ReadRecord(p, nil)
	if err != nil {
		return put, err
	}
	rec, err := codec.ParseRecord(raw, false)
	if err != nil {
		return put, err
	}
	if string(rec.Topic) != codec.TransCheckMaxTimeTopic {
		return put, fmt.Errorf("%w: it is in %s", ErrNotGivenUp, rec.Topic)
	}
	h := parseHalf(rec.Properties)
	topic, _, err := h.target()
	if err != nil {
		return put, err
	}
	if h.copied {
		s.t.mu.Lock()
		tx, _ := s.t.find(-1, h.origin(-1))
		s.t.mu.Unlock()
		if tx != nil {
			return put, ErrResumed
		}
	}
	switch first, err := s.counts.resume(p, s.currentFloor()); {
	case err != nil:
		s.counts.notResumed(p)
		return put, err
	case !first:
		return put, ErrResumed
	}
	m := message(&rec)
	props := codec.RemoveProperty(nil, rec.Properties, codec.PropTransactionCheckTimes)
	m.Properties = codec.AppendProperty(props, codec.PropTransactionCheckTimes, "0")
	m.PreparedTransactionOffset = rec.PhyOffset
	if put = s.o.Store.Append(&m); put.Status != store.PutOK {
		s.counts.notResumed(p)
		return put, nil
	}
	s.Prepared(&m, topic, &put)
	s.stats.prepared.Add(-1)
	s.stats.resumed.Add(1)
	s.o.Stored(&m, &put)
	s.o.Log.Info("transaction brought back", "topic", topic, "group", string(h.group), "uniqKey", string(h.uniqKey),
		"queueOffset", int64(put.QueueOffset), "phyOffset", int64(put.PhyOffset))
	return put, nil
}

// RuntimeInfo adds what GET_BROKER_RUNTIME_INFO tells of transactions: keys of ours.
func (s *TransactionalMessageService) RuntimeInfo(into map[string]string) {
	st := s.Stats()
	for key, n := range map[string]int64{"transactionOpen": int64(st.Open), "transactionOldestOpenMillis": st.OldestMillis,
		"transactionWithoutProducer": int64(st.NoProducer), "transactionPreparedTotal": st.Prepared,
		"transactionCommittedTotal": st.Committed, "transactionRolledBackTotal": st.RolledBack,
		"transactionAskedTotal": st.Asked, "transactionGivenUpTotal": st.GivenUp, "transactionResumedTotal": st.Resumed} {
		into[key] = strconv.FormatInt(n, 10)
	}
}
