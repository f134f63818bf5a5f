package namesrv

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/internal/latest"
)

// Limits of the notifications.
const (
	notifyTimeout           = 300 * time.Millisecond // for one target, as Java's
	maxPendingNotifications = 1024                   // targets that wait; further ones are dropped
	maxNotifyWorkers        = 8
)

var errTooManyNotifications = errors.New("namesrv: too many notifications wait")

// NotifyService tells brokers that the smallest id of their group changed (905, oneway), on connections of our own to the
// addresses they registered: the last change that each of them has not heard of.
type NotifyService struct {
	client *client.Client
	log    *slog.Logger
	queue  *latest.Queue[MinBrokerIDChange] // by target
}

// NewNotifyService makes a service that sends through c and closes it at its end.
func NewNotifyService(c *client.Client, log *slog.Logger) *NotifyService {
	s := &NotifyService{client: c, log: log}
	s.queue = latest.New(latest.Options{MaxTargets: maxPendingNotifications, Workers: maxNotifyWorkers}, s.send,
		func(target string, c *MinBrokerIDChange) { s.failed(target, c, errTooManyNotifications) })
	return s
}

// Submit queues changes. It does not wait.
func (s *NotifyService) Submit(changes []MinBrokerIDChange) {
	for i := range changes {
		s.queue.Put(&changes[i], changes[i].Targets...)
	}
}

func (s *NotifyService) send(ctx context.Context, target string, c *MinBrokerIDChange) {
	req := codec.NewRequest(codec.ReqNotifyMinBrokerIDChange)
	codec.EncodeHeader(req, &codec.NotifyMinBrokerIDChangeRequestHeader{
		MinBrokerID: &c.MinBrokerID, BrokerName: c.BrokerName, MinBrokerAddr: c.MinBrokerAddr,
		OfflineBrokerAddr: c.OfflineAddr, HABrokerAddr: c.HAAddr})
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
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
	s.queue.Close()
	_ = s.client.Close() // a closed client has no errors to tell
}
