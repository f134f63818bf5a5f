package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/controller/replicas"
)

// Limits of the notifications.
const (
	notifyTimeout    = 3 * time.Second // for one broker, as Java's
	maxNotices       = 1024            // brokers that wait; further ones find out by themselves within 5 s
	maxNotifyWorkers = 3
)

var errTooManyNotices = errors.New("controller: too many notifications wait")

// NotifyService tells brokers of a new master (1008, oneway; Java ControllerManager.NotifyService). Of several elections
// that wait for one broker the last one counts, and no two are under way to the same broker. Workers run while something
// waits.
type NotifyService struct {
	client *client.Client
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	pending map[string]*replicas.Group // by address; the group as it was after the election
	order   []string
	sending map[string]bool
	workers int
	closed  bool
	wg      sync.WaitGroup

	told, missed atomic.Int64 // brokers
}

func newNotifyService(c *client.Client, log *slog.Logger) *NotifyService {
	s := &NotifyService{client: c, log: log, pending: map[string]*replicas.Group{}, sending: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// submit queues the outcome of an election for brokers. It does not wait.
func (s *NotifyService) submit(addrs []string, g *replicas.Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, addr := range addrs {
		if s.pending[addr] == nil {
			if len(s.order) >= maxNotices {
				s.failed(addr, g, errTooManyNotices)
				continue
			}
			s.order = append(s.order, addr)
		}
		s.pending[addr] = g
	}
	for s.workers < min(maxNotifyWorkers, len(s.order)) && !s.closed {
		s.workers++
		s.wg.Go(s.run)
	}
}

func (s *NotifyService) run() {
	for {
		addr, g := s.next()
		if g == nil {
			return
		}
		s.send(addr, g)
		s.mu.Lock()
		delete(s.sending, addr)
		s.mu.Unlock()
	}
}

// next takes the first broker that nobody sends to; nil ends the worker.
func (s *NotifyService) next() (addr string, g *replicas.Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.order, func(addr string) bool { return !s.sending[addr] })
	if i < 0 || s.closed {
		s.workers--
		return "", nil
	}
	addr = s.order[i]
	g = s.pending[addr]
	s.order = slices.Delete(s.order, i, i+1)
	delete(s.pending, addr)
	s.sending[addr] = true
	return addr, g
}

func (s *NotifyService) send(addr string, g *replicas.Group) {
	req, err := notice(g)
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
		defer cancel()
		err = s.client.Oneway(ctx, addr, req)
	}
	if err != nil {
		s.failed(addr, g, err)
		return
	}
	s.told.Add(1)
	s.log.Info("broker told of its master", "broker", g.Name, "remote", addr, "master", g.Master, "masterEpoch", g.MasterEpoch)
}

// notice is the request that tells a broker its master.
func notice(g *replicas.Group) (*codec.Command, error) {
	req := codec.NewRequest(codec.ReqNotifyBrokerRoleChanged)
	codec.EncodeHeader(req, &codec.NotifyBrokerRoleChangedRequestHeader{MasterAddress: g.Address(g.Master),
		MasterEpoch: &g.MasterEpoch, SyncStateSetEpoch: &g.SyncStateSetEpoch, MasterBrokerID: &g.Master})
	var err error
	req.Body, err = body.Encode(syncStateSet(g))
	return req, err
}

func (s *NotifyService) failed(addr string, g *replicas.Group, err error) {
	s.missed.Add(1)
	s.log.Warn("broker is not told of its new master, it finds out by itself", "broker", g.Name, "remote", addr, "error", err)
}

// close drops what waits and ends what is under way. The client is the caller's.
func (s *NotifyService) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}
