package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/controller/replicas"
	"skylark/internal/latest"
)

// Limits of the notifications.
const (
	notifyTimeout    = 3 * time.Second // for one broker, as Java's
	maxNotices       = 1024            // brokers that wait; further ones find out by themselves within 5 s
	maxNotifyWorkers = 3
)

var errTooManyNotices = errors.New("controller: too many notifications wait")

// NotifyService tells brokers of a new master (1008, oneway; Java ControllerManager.NotifyService): the group as it was
// after the last election that each of them has not heard of.
type NotifyService struct {
	client *client.Client
	log    *slog.Logger
	queue  *latest.Queue[replicas.Group] // by address

	told, missed atomic.Int64 // brokers
}

func newNotifyService(c *client.Client, log *slog.Logger) *NotifyService {
	s := &NotifyService{client: c, log: log}
	s.queue = latest.New(latest.Options{MaxTargets: maxNotices, Workers: maxNotifyWorkers}, s.send,
		func(addr string, g *replicas.Group) { s.failed(addr, g, errTooManyNotices) })
	return s
}

// submit queues the outcome of an election for brokers. It does not wait.
func (s *NotifyService) submit(addrs []string, g *replicas.Group) { s.queue.Put(g, addrs...) }

func (s *NotifyService) send(ctx context.Context, addr string, g *replicas.Group) {
	req, err := notice(g)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
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
func (s *NotifyService) close() { s.queue.Close() }
