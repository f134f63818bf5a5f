package replicas

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
)

// Limits and rhythms of the service.
const (
	// tick is how often the manager is told the time.
	tick = 100 * time.Millisecond
	// callTimeout bounds a request to a controller (Java: 3 s).
	callTimeout = 3 * time.Second
	// maxJobs is what may wait for one controller; further heartbeats are left out, requests fail.
	maxJobs = 64
	// maxSenders bounds the controllers that are talked to.
	maxSenders = 64
	// relistInterval is how often the list of controllers is made anew (Java: 2 min).
	relistInterval = 2 * time.Minute
)

// Alive is what a heartbeat tells of the log.
type Alive struct {
	Epoch         int32
	MaxOffset     codec.PhyOffset
	ConfirmOffset codec.PhyOffset
}

// ServiceOptions are what the service needs of a broker. All are set.
type ServiceOptions struct {
	Manager      Options
	FS           vfs.FS
	IdentityPath string // brokerIdentity
	Clock        clock.Clock
	Log          *slog.Logger

	Call   func(ctx context.Context, addr string, req *codec.Command) (*codec.Command, error)
	Oneway func(ctx context.Context, addr string, req *codec.Command) error
	// Controllers lists the controllers; asked at the start and every two minutes.
	Controllers func(ctx context.Context) ([]string, error)
	// SendTimeout bounds the sending of a heartbeat (sendHeartbeatTimeoutMillis).
	SendTimeout time.Duration
	Priority    int32 // brokerElectionPriority
	Alive       func() Alive

	// TakeRole changes the broker's role and returns when it is done; one at a time. ctx ends when the service does.
	TakeRole func(ctx context.Context, id int64, r *Role) error
	// SetChanged is told the controllers' word on the SyncStateSet. It must not wait.
	SetChanged func(set []int64, epoch int32)
	// SetRefused is told that the last WantSet will not come true. It must not wait.
	SetRefused func()
	// Fence stops and starts the taking of messages. It must not wait.
	Fence func(on bool)
}

// Service runs a Manager.
type Service struct {
	o       ServiceOptions
	m       *Manager
	events  chan func(now time.Time)
	wake    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	senders map[string]chan job // the loop's own
	status  atomic.Pointer[Status]

	mu     sync.Mutex
	wish   []int64 // of the replication, nil: none
	closed bool
}

// Status is what the service knows, for operators and tests.
type Status struct {
	Stage  Stage
	ID     int64
	Leader string
	Role   Role
	Fenced bool
}

// job is a heartbeat, or a request.
type job struct {
	beat bool
	req  Request
}

// NewService makes a service that does nothing before Start.
func NewService(o ServiceOptions) *Service {
	s := &Service{o: o, m: NewManager(o.Manager), events: make(chan func(time.Time), 256), wake: make(chan struct{}, 1),
		senders: map[string]chan job{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.status.Store(&Status{Stage: s.m.Stage(), ID: s.m.ID()})
	return s
}

// Start begins.
func (s *Service) Start() {
	s.wg.Go(s.run)
	s.wg.Go(s.relist)
}

// Close ends the service; a change of role under way is cancelled and waited for. It may be called without Start, and twice.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// Status is what the service knows now.
func (s *Service) Status() Status { return *s.status.Load() }

// Notified takes NOTIFY_BROKER_ROLE_CHANGED.
func (s *Service) Notified(v *View) { s.post(func(now time.Time) { s.m.Notified(now, v) }) }

// LookNow has the controllers asked at once who is master.
func (s *Service) LookNow() { s.post(s.m.LookNow) }

// WantSet is what the replication of a master wants the SyncStateSet to be. It does not wait.
func (s *Service) WantSet(set []int64) {
	s.mu.Lock()
	s.wish = append([]int64{}, set...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// post has the loop call f.
func (s *Service) post(f func(now time.Time)) {
	select {
	case s.events <- f:
	case <-s.ctx.Done():
	}
}

func (s *Service) run() {
	t := s.o.Clock.NewTicker(tick)
	defer t.Stop()
	s.m.Tick(s.o.Clock.Now())
	for {
		s.work()
		select {
		case <-s.ctx.Done():
			for _, jobs := range s.senders {
				close(jobs)
			}
			return
		case <-t.C():
			s.m.Tick(s.o.Clock.Now())
		case f := <-s.events:
			f(s.o.Clock.Now())
		case <-s.wake:
			s.mu.Lock()
			wish := s.wish
			s.wish = nil
			s.mu.Unlock()
			if wish != nil {
				s.m.WantSet(s.o.Clock.Now(), wish)
			}
		}
	}
}

// work does what the manager says.
func (s *Service) work() {
	for {
		out := s.m.Work()
		for _, l := range out.Log {
			if l.Error {
				s.o.Log.Error(l.Text, l.Args...)
			} else {
				s.o.Log.Info(l.Text, l.Args...)
			}
		}
		for _, addr := range out.Heartbeats {
			s.send(addr, job{beat: true})
		}
		for _, r := range out.Requests {
			if !s.send(r.To, job{req: r}) {
				s.m.Answer(s.o.Clock.Now(), r.ID, &Answer{Kind: r.Kind, Err: context.DeadlineExceeded})
			}
		}
		if out.Fence != nil {
			s.o.Fence(*out.Fence)
		}
		if out.Set != nil {
			s.o.SetChanged(out.Set.SyncStateSet, out.Set.SyncStateSetEpoch)
		}
		if out.Refused {
			s.o.SetRefused()
		}
		if out.Role != nil {
			s.takeRole(out.Role)
		}
		s.publish()
		if out.Save == nil {
			return
		}
		err := out.Save.Save(s.o.FS, s.o.IdentityPath)
		s.m.Saved(s.o.Clock.Now(), err)
	}
}

func (s *Service) publish() {
	role, _ := s.m.Role()
	s.status.Store(&Status{Stage: s.m.Stage(), ID: s.m.ID(), Leader: s.m.Leader(), Role: role, Fenced: s.m.Fenced()})
}

func (s *Service) takeRole(r *Role) {
	id := s.m.ID()
	s.wg.Go(func() {
		err := s.o.TakeRole(s.ctx, id, r)
		s.post(func(now time.Time) { s.m.RoleDone(now, err) })
	})
}

// send queues a job for a controller; false if there is no room.
func (s *Service) send(addr string, j job) bool {
	jobs := s.senders[addr]
	if jobs == nil {
		if len(s.senders) >= maxSenders {
			return false
		}
		jobs = make(chan job, maxJobs)
		s.senders[addr] = jobs
		s.wg.Go(func() { s.sender(addr, jobs) })
	}
	select {
	case jobs <- j:
		return true
	default:
		return false
	}
}

// sender writes to one controller, in order: a heartbeat is there before what is asked next.
func (s *Service) sender(addr string, jobs chan job) {
	for j := range jobs {
		if s.ctx.Err() != nil {
			continue
		}
		if j.beat {
			s.beat(addr)
			continue
		}
		s.wg.Go(func() { s.call(&j.req) })
	}
}

func (s *Service) beat(addr string) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.SendTimeout)
	defer cancel()
	o, alive, id := &s.o.Manager, s.o.Alive(), s.Status().ID
	timeout, priority := o.HeartbeatTimeout.Milliseconds(), s.o.Priority
	req := codec.NewRequest(codec.ReqBrokerHeartbeat)
	codec.EncodeHeader(req, &codec.BrokerHeartbeatRequestHeader{ClusterName: o.Cluster, BrokerAddr: o.Address,
		BrokerName: o.Name, BrokerID: &id, Epoch: &alive.Epoch, MaxOffset: &alive.MaxOffset,
		ConfirmOffset: &alive.ConfirmOffset, HeartbeatTimeoutMillis: &timeout, ElectionPriority: &priority})
	if err := s.o.Oneway(ctx, addr, req); err != nil {
		s.o.Log.Debug("no heartbeat to a controller", "controller", addr, "error", err)
	}
}

func (s *Service) call(r *Request) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	req, err := r.Command(s.o.Clock.Now())
	var answer *codec.Command
	if err == nil {
		answer, err = s.o.Call(ctx, r.To, req)
	}
	a := &Answer{Kind: r.Kind, Err: err}
	if err == nil {
		a = ReadAnswer(r, answer)
	}
	if a.Err != nil {
		s.o.Log.Debug("controller does not answer", "controller", r.To, "request", r.Kind.String(), "error", a.Err)
	}
	s.post(func(now time.Time) { s.m.Answer(now, r.ID, a) })
}

// relist keeps the list of controllers up to date.
func (s *Service) relist() {
	t := s.o.Clock.NewTicker(relistInterval)
	defer t.Stop()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
		list, err := s.o.Controllers(ctx)
		cancel()
		switch {
		case err != nil:
			s.o.Log.Warn("addresses of the controllers cannot be found out", "error", err)
		case len(list) > 0:
			s.post(func(time.Time) { s.m.SetControllers(list) })
		}
		select {
		case <-s.ctx.Done():
			return
		case <-t.C():
		}
	}
}
