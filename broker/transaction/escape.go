package transaction

import (
	"fmt"
	"sync"
	"time"

	"skylark/codec"
)

// EscapeOptions of an EscapeService.
type EscapeOptions struct {
	// Options are those of the service of a master here; what puts and asks is not used.
	Options
	// Acting tells that this slave acts as master, and may give messages to other brokers.
	Acting func() bool
	// Send gives a half message, as its producer sent it, to another broker of its topic.
	Send func(m *codec.Message) error
}

// EscapeService moves the open transactions of a master that is gone to other brokers, which ask about them from then on
// (Java TransactionalMessageServiceImpl.check on an acting master, escapeMessage). It runs on slaves.
//
// They go in their order and at once, however old, so that the progress in the half queue says which are gone: the master
// takes it over when it comes back, and asks about the others only. What cannot be sent is tried again with the next round,
// and the transactions behind it wait. Java skips what it could not send three times.
type EscapeService struct {
	o     EscapeOptions
	view  *TransactionalMessageService // of this time as acting master; it never puts anything
	moved int
	stop  chan struct{}
	done  sync.WaitGroup
}

// NewEscapeService makes the service.
func NewEscapeService(o EscapeOptions) *EscapeService {
	return &EscapeService{o: o, stop: make(chan struct{})}
}

// Start begins to look, every transactionCheckInterval but every 5 s at least, whether it is wanted.
func (e *EscapeService) Start() { e.done.Go(e.run) }

// Close ends it.
func (e *EscapeService) Close() {
	close(e.stop)
	e.done.Wait()
}

// escapeInterval is the longest pause between two rounds.
const escapeInterval = 5 * time.Second

func (e *EscapeService) run() {
	for {
		t := e.o.Clock.NewTicker(min(e.o.Settings().CheckInterval, escapeInterval))
		select {
		case <-e.stop:
			t.Stop()
			return
		case <-t.C():
		}
		t.Stop()
		if !e.o.Acting() {
			e.view, e.moved = nil, 0 // the master puts and settles again
			continue
		}
		if err := e.round(); err != nil {
			e.o.Log.Warn("open transactions wait for their master: they cannot be moved", "moved", e.moved, "error", err)
		}
	}
}

// round moves what is open.
func (e *EscapeService) round() error {
	if e.view == nil {
		e.view = New(e.o.Options)
		e.view.stop = e.stop
		if !e.view.load() {
			return nil
		}
	}
	s, before := e.view, e.moved
	defer func() {
		s.t.mu.Lock()
		at, _ := s.t.progress()
		s.t.mu.Unlock()
		if e.moved == before && at == s.saved.half {
			return
		}
		if err := s.o.Offsets.Commit(s.o.StoreHost(), Group, codec.HalfTopic, queue, codec.QueueOffset(at)); err != nil {
			s.o.Log.Error("progress of the transactions not kept", "queueOffset", at, "error", err)
		}
		s.saved.half = at
		s.o.Log.Warn("open transactions of the master moved to other brokers", "moved", e.moved-before, "queueOffset", at)
	}()
	for _, tx := range s.openInOrder() {
		select {
		case <-e.stop:
			return nil
		default:
		}
		if !e.o.Acting() {
			return nil
		}
		if err := e.move(tx); err != nil {
			return err
		}
		e.moved++
	}
	return nil
}

// openInOrder are the open transactions by their present copies.
func (s *TransactionalMessageService) openInOrder() (out []*transaction) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, tx := range s.t.halves.items[s.t.halves.head:] {
		if tx != nil && !done(tx) {
			out = append(out, tx)
		}
	}
	return out
}

// move sends one to another broker.
func (e *EscapeService) move(tx *transaction) error {
	s := e.view
	rec, err := s.read(tx.phyOffset)
	if err != nil {
		s.o.Log.Error("open transaction lost: its half message is gone", "topic", tx.topic, "group", tx.group, "queueOffset",
			tx.queueOffset, "phyOffset", int64(tx.phyOffset), "error", err)
	} else {
		m, err := original(rec)
		if err == nil {
			err = e.o.Send(m)
		}
		if err != nil {
			return fmt.Errorf("transaction: half message %d of %s: %w", tx.queueOffset, tx.topic, err)
		}
	}
	s.t.mu.Lock()
	s.t.leave(tx, over)
	s.t.mu.Unlock()
	return nil
}

// original is a half message as its producer sent it.
func original(rec *codec.Record) (*codec.Message, error) {
	h := parseHalf(rec.Properties)
	topic, queueID, err := h.target()
	if err != nil {
		return nil, err
	}
	m := message(rec)
	m.Topic, m.QueueID = topic, queueID
	m.SysFlag = m.SysFlag&^codec.SysFlagTransactionMask | codec.SysFlagTransactionPrepared
	m.Properties = codec.RemoveProperty(nil, rec.Properties, brokersOwn...)
	return &m, nil
}
