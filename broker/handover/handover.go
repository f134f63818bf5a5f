package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"skylark/broker/forward"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/store"
)

// Errors of HandOver. The role has not moved.
var (
	// ErrNoController: this broker is not in controller mode, where alone a role can move.
	ErrNoController = errors.New("handover: this broker has no controller (enableControllerMode): its role cannot move while " +
		"it runs")
	// ErrNotMaster: there is nothing to hand over.
	ErrNotMaster = errors.New("handover: this broker is not the master")
	// ErrBusy: one is under way.
	ErrBusy = errors.New("handover: the role is being handed over already")
	// ErrReplica: no replica can take the role, or not the wanted one.
	ErrReplica = errors.New("handover: no replica can take over")
	// ErrController: the controllers could not be asked, or said no.
	ErrController = errors.New("handover: the controllers did not elect the replica")
)

// Times of a hand-over.
const (
	// callTimeout bounds a question to a controller or a replica while nothing is held.
	callTimeout = 3 * time.Second
	// nearBytes: a replica that lacks less gets the rest while requests are held.
	nearBytes = 1 << 20
	// nearInterval is the pause between two looks at a replica that is far behind.
	nearInterval = 20 * time.Millisecond
	// holdLimit is how long the replica may take to get the rest, tables included.
	holdLimit = 400 * time.Millisecond
	// electTimeout bounds one question for the election.
	electTimeout = 700 * time.Millisecond
	// pollInterval is the pause between two looks while requests are held.
	pollInterval = 2 * time.Millisecond
	// readyTimeout is how long the answer waits for the new master to serve.
	readyTimeout = 3 * time.Second
)

// Options of the service. All are required.
type Options struct {
	Clock  clock.Clock
	Log    *slog.Logger
	Client *client.Client
	Gate   *forward.Gate

	Cluster, BrokerName string
	Self                func() string   // this broker's address, as registered
	Controllers         func() []string // empty: not in controller mode
	Master              func() bool
	// Quiet waits until what had passed the gate before it was closed is put.
	Quiet func(ctx context.Context)
	// Pause and Resume are store.PausePuts and ResumePuts.
	Pause        func(why error)
	Resume       func()
	MaxPhyOffset func() store.PhyOffset
	// ForwardTime is how long the old address serves clients afterwards.
	ForwardTime func() time.Duration
}

// Service hands the role over when it is told to.
type Service struct {
	o      Options
	mu     sync.Mutex // held by the one hand-over
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes the service. It runs nothing.
func New(o Options) *Service {
	s := &Service{o: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends what is under way.
func (s *Service) Close() {
	s.cancel()
	s.wg.Wait()
}

// plan is who gets the role from whom.
type plan struct {
	self, to int64
	addr     string
	epoch    int32 // of this master
	log      *slog.Logger
}

// HandOver does it and tells who is master now. With an error the role has not moved, unless it says otherwise.
func (s *Service) HandOver(h *codec.HandoverRequestHeader) (*codec.HandoverResponseHeader, error) {
	if !s.mu.TryLock() {
		return nil, ErrBusy
	}
	defer s.mu.Unlock()
	switch {
	case len(s.o.Controllers()) == 0:
		return nil, ErrNoController
	case !s.o.Master():
		return nil, ErrNotMaster
	}
	p, err := s.choose(h.To)
	if err != nil {
		return nil, err
	}
	p.log.Info("the role of master is handed over")
	began := s.o.Clock.Now()
	if err := s.prepare(s.ctx, p, callTimeout); err != nil {
		return nil, err
	}
	if err := s.awaitNear(p, time.Duration(h.WaitMillis)*time.Millisecond); err != nil {
		return nil, err
	}
	answer := &codec.HandoverResponseHeader{MasterBrokerID: p.to, MasterAddress: p.addr,
		CaughtUpMillis: s.o.Clock.Now().Sub(began).Milliseconds(), ForwardMillis: s.o.ForwardTime().Milliseconds()}
	return answer, s.move(p, answer)
}

// choose asks the controllers for the replicas.
func (s *Service) choose(to int64) (*plan, error) {
	var data body.BrokerReplicasInfo
	names, err := body.Encode([]string{s.o.BrokerName})
	if err != nil {
		return nil, err
	}
	_, err = s.askLeader(s.ctx, callTimeout, func() *codec.Command {
		req := codec.NewRequest(codec.ReqControllerGetSyncStateData)
		req.Body = names
		return req
	}, func(answer *codec.Command) error { return body.Decode(answer.Body, &data) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrController, err)
	}
	info := data.ReplicasInfoTable[s.o.BrokerName]
	if info == nil || info.MasterAddress != s.o.Self() || info.MasterBrokerID == nil || info.MasterEpoch == nil {
		return nil, fmt.Errorf("%w: the controllers have another one", ErrNotMaster)
	}
	p := &plan{self: *info.MasterBrokerID, epoch: *info.MasterEpoch}
	var ready []int64
	for _, r := range info.InSyncReplicas {
		if r.BrokerID == p.self || r.Alive == nil || !*r.Alive {
			continue
		}
		ready = append(ready, r.BrokerID)
		if to == r.BrokerID || to < 0 && p.to == 0 {
			p.to, p.addr = r.BrokerID, r.BrokerAddress
		}
	}
	slices.Sort(ready)
	switch {
	case p.to != 0:
		p.log = s.o.Log.With("to", p.to, "remote", p.addr, "masterEpoch", p.epoch)
		return p, nil
	case len(ready) == 0:
		return nil, fmt.Errorf("%w: none has everything that was confirmed and is alive", ErrReplica)
	default:
		return nil, fmt.Errorf("%w: %d has not, or is not alive; those that have everything: %v", ErrReplica, to, ready)
	}
}

// prepare has the replica copy the tables. Java's brokers do not know the request: they copy by the clock.
func (s *Service) prepare(ctx context.Context, p *plan, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req := codec.NewRequest(codec.ReqHandover)
	codec.EncodeHeader(req, &codec.HandoverRequestHeader{Prepare: true})
	_, err := s.o.Client.Do(ctx, p.addr, req)
	if client.IsResponse(err, codec.RespRequestCodeNotSupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: replica %d does not copy the tables: %w", ErrReplica, p.to, err)
	}
	return nil
}

// position is the end of the replica's log.
func (s *Service) position(ctx context.Context, p *plan) (store.PhyOffset, error) {
	answer, err := s.o.Client.Do(ctx, p.addr, codec.NewRequest(codec.ReqGetBrokerHAStatus))
	if err != nil {
		return 0, fmt.Errorf("%w: replica %d: %w", ErrReplica, p.to, err)
	}
	var info body.HARuntimeInfo
	if err := body.Decode(answer.Body, &info); err != nil {
		return 0, fmt.Errorf("%w: replica %d: %w", ErrReplica, p.to, err)
	}
	if info.HAClientRuntimeInfo == nil {
		return 0, fmt.Errorf("%w: replica %d does not say where its log ends", ErrReplica, p.to)
	}
	return info.HAClientRuntimeInfo.MaxOffset, nil
}

// awaitNear waits until the replica lacks little.
func (s *Service) awaitNear(p *plan, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, max(limit, callTimeout))
	defer cancel()
	for {
		at, err := s.position(ctx, p)
		if err != nil {
			return err
		}
		behind := s.o.MaxPhyOffset() - at
		if behind <= nearBytes {
			return nil
		}
		if !s.pause(ctx, nearInterval) {
			return fmt.Errorf("%w: replica %d is still %d bytes behind", ErrReplica, p.to, behind)
		}
	}
}

// pause is false when ctx has ended.
func (s *Service) pause(ctx context.Context, d time.Duration) bool {
	t := s.o.Clock.NewTicker(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// errPaused is what the broker's own puts meet meanwhile; they are tried again.
var errPaused = errors.New("the role of master is being handed over")

// move holds requests until the replica is master.
func (s *Service) move(p *plan, answer *codec.HandoverResponseHeader) error {
	s.o.Gate.Hold()
	ctx, cancel := context.WithTimeout(s.ctx, holdLimit)
	defer cancel()
	s.o.Quiet(ctx)
	s.o.Pause(errPaused)
	if err := s.giveRest(ctx, p); err != nil {
		s.keep(p, err)
		return err
	}
	epoch, err := s.elect(p)
	if err != nil {
		s.keep(p, err)
		return err
	}
	answer.MasterEpoch = epoch
	ready := s.o.Gate.Forward(p.addr, s.o.ForwardTime())
	s.wg.Go(func() { s.resumeAsSlave(p) })
	late, stop := context.WithTimeout(s.ctx, readyTimeout)
	defer stop()
	select {
	case <-ready:
	case <-late.Done():
		p.log.Warn("the new master does not serve yet", "limit", readyTimeout)
	}
	n, since := s.o.Gate.Held()
	answer.HeldRequests, answer.HeldMillis = n, s.o.Clock.Now().Sub(since).Milliseconds()
	p.log.Info("the role of master is handed over: done", "newMasterEpoch", epoch, "held", n, "heldMillis", answer.HeldMillis)
	return nil
}

// keep takes everything back. A broker that stops without knowing who is master leaves puts paused.
func (s *Service) keep(p *plan, why error) {
	p.log.Warn("the role of master was not handed over", "error", why)
	if s.ctx.Err() == nil {
		s.o.Resume()
		s.o.Gate.Release()
	}
}

// giveRest waits until the replica has the whole log, and the newest tables.
func (s *Service) giveRest(ctx context.Context, p *plan) error {
	end := s.o.MaxPhyOffset()
	for {
		at, err := s.position(ctx, p)
		if err == nil && at >= end {
			break
		}
		if !s.pause(ctx, pollInterval) {
			return fmt.Errorf("%w: replica %d did not get the last %d bytes within %v: %w", ErrReplica, p.to, end-at, holdLimit,
				cmp.Or(err, ctx.Err()))
		}
	}
	return s.prepare(ctx, p, holdLimit)
}

// resumeAsSlave ends the pause when the role has changed here. Until then nothing may be put.
func (s *Service) resumeAsSlave(p *plan) {
	for s.o.Master() {
		if !s.pause(s.ctx, pollInterval) {
			break
		}
	}
	s.o.Resume()
	p.log.Debug("this broker is a slave now")
}
