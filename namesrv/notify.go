package namesrv

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"skylark/client"
	"skylark/codec"
)

// Limits of the notifications.
const (
	notifyTimeout           = 300 * time.Millisecond // for one target, as Java's
	maxPendingNotifications = 1024                   // targets that wait; further ones are dropped
	maxNotifyWorkers        = 8
)

var errTooManyNotifications = errors.New("namesrv: too many notifications wait")

// NotifyService tells brokers that the smallest id of their group changed (905, oneway), on connections of
// our own to the addresses they registered. Workers run while something waits. Of several changes that wait
// for one target the last one counts, and no two are under way to the same target, so the last one is the
// last to arrive.
type NotifyService struct {
	client *client.Client
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	pending map[string]*MinBrokerIDChange // by target
	order   []string                      // of the targets in pending
	sending map[string]bool
	workers int
	closed  bool
	wg      sync.WaitGroup
}

// NewNotifyService makes a service that sends through c and closes it at its end.
func NewNotifyService(c *client.Client, log *slog.Logger) *NotifyService {
	s := &NotifyService{client: c, log: log,
		pending: map[string]*MinBrokerIDChange{}, sending: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Submit queues changes. It does not wait.
func (s *NotifyService) Submit(changes []MinBrokerIDChange) {
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		for _, target := range changes[i].Targets {
			s.add(target, &changes[i])
		}
	}
	for s.workers < min(maxNotifyWorkers, len(s.order)) && !s.closed {
		s.workers++
		s.wg.Go(s.run)
	}
}

func (s *NotifyService) add(target string, c *MinBrokerIDChange) {
	if s.pending[target] == nil {
		if len(s.order) >= maxPendingNotifications {
			s.failed(target, c, errTooManyNotifications)
			return
		}
		s.order = append(s.order, target)
	}
	s.pending[target] = c
}

func (s *NotifyService) run() {
	for {
		target, change := s.next()
		if change == nil {
			return
		}
		s.send(target, change)
		s.mu.Lock()
		delete(s.sending, target)
		s.mu.Unlock()
	}
}

// next takes the first target that nobody sends to; nil ends the worker.
func (s *NotifyService) next() (target string, change *MinBrokerIDChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.order, func(target string) bool { return !s.sending[target] })
	if i < 0 || s.closed {
		s.workers--
		return "", nil
	}
	target = s.order[i]
	change = s.pending[target]
	s.order = slices.Delete(s.order, i, i+1)
	delete(s.pending, target)
	s.sending[target] = true
	return target, change
}

func (s *NotifyService) send(target string, c *MinBrokerIDChange) {
	req := codec.NewRequest(codec.ReqNotifyMinBrokerIDChange)
	codec.EncodeHeader(req, &codec.NotifyMinBrokerIDChangeRequestHeader{
		MinBrokerID: &c.MinBrokerID, BrokerName: c.BrokerName, MinBrokerAddr: c.MinBrokerAddr,
		OfflineBrokerAddr: c.OfflineAddr, HABrokerAddr: c.HAAddr})
	ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
	defer cancel()
	if err := s.client.Oneway(ctx, target, req); err != nil {
		s.failed(target, c, err)
	}
}

func (s *NotifyService) failed(target string, c *MinBrokerIDChange, err error) {
	s.log.Warn("broker is not told of the new smallest broker id", "broker", c.BrokerName, "remote", target,
		"error", err)
}

// Forget closes the connections to addresses that are no longer registered.
func (s *NotifyService) Forget(addrs []string) {
	for _, addr := range addrs {
		s.client.Drop(addr)
	}
}

// Close drops what waits and ends what is under way.
func (s *NotifyService) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	_ = s.client.Close() // a closed client has no errors to tell
	s.wg.Wait()
}
