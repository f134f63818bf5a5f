package latency

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"skylark/internal/clock"
)

const (
	// maxQueuedSlow is how many slow requests wait to be logged; a loop never waits for the log.
	maxQueuedSlow = 64
	// maxSlowLines is how many are logged in one slowWindow; the others are counted.
	maxSlowLines = 10
	slowWindow   = 10 * time.Second
	// ReportInterval is how often the histograms are looked at: one line if something was slow.
	ReportInterval = time.Minute
)

// SlowRequest is a request that took longer than the threshold, with its turn's timeline.
type SlowRequest struct {
	Remote  netip.AddrPort
	Class   Class
	Code    int
	Topic   string // "" if the request got no further than its code
	QueueID int32
	// Total is from arrival to the written answer.
	Total time.Duration
	// Stages are those measured; what they leave of Total passed in a turn that was not sampled.
	Stages [NumStages]time.Duration
	// Requests is how many came together and waited for each other, QueueDepth how many waited before them.
	Requests, QueueDepth int
}

// StageText is "append=230ms write=12µs", the longest first.
func (s *SlowRequest) StageText() string {
	var b strings.Builder
	rest := s.Total
	left := s.Stages
	for range left {
		longest := 0
		for st := range left {
			if left[st] > left[longest] {
				longest = st
			}
		}
		if left[longest] <= 0 {
			break
		}
		fmt.Fprintf(&b, "%v=%v ", Stage(longest), short(left[longest]))
		rest -= left[longest]
		left[longest] = 0
	}
	if rest > s.Total/20 {
		fmt.Fprintf(&b, "unsampled=%v ", short(rest))
	}
	return strings.TrimSuffix(b.String(), " ")
}

// tell queues the span for the log. It never waits.
func (s *Span) tell(remote netip.AddrPort, total int64, requests int32, now int64) {
	r := s.rec
	r.hotUntil.Store(now + hotFor)
	r.slow[s.class].Add(int64(requests))
	q := SlowRequest{Remote: remote, Class: s.class, Code: int(s.code), Topic: s.topic, QueueID: s.queueID,
		Total: time.Duration(total), Requests: int(requests), QueueDepth: int(s.depth)}
	for st := range NumStages {
		if s.known&(1<<st) != 0 {
			q.Stages[st] = time.Duration(s.stages[st])
		}
	}
	select {
	case r.queue <- q:
	default:
		r.notTaken.Add(1)
	}
}

// SlowRequestService logs slow requests, one line each, and once a minute what the histograms say if there were any. It
// keeps the snapshots that Recent is made of.
type SlowRequestService struct {
	r       *Recorder
	log     *slog.Logger
	context Context

	mu         sync.Mutex
	last, prev *Snapshot

	lines      int
	windowEnds int64
	kept       int64 // slow requests that were not logged

	stop, done chan struct{}
}

// Context adds what happened around slow requests to the log; what is nil adds nothing.
type Context struct {
	// Line is asked for each slow request: which resource the machine is short of.
	Line func() []slog.Attr
	// Minute is asked with the report: what the process went through since the last one.
	Minute func() []slog.Attr
}

// NewSlowRequestService makes the service of a recorder.
func NewSlowRequestService(r *Recorder, log *slog.Logger, c Context) *SlowRequestService {
	none := func() []slog.Attr { return nil }
	if c.Line == nil {
		c.Line = none
	}
	if c.Minute == nil {
		c.Minute = none
	}
	return &SlowRequestService{r: r, log: log, context: c, last: &Snapshot{}, prev: &Snapshot{}}
}

// Start begins to log; Close ends it.
func (s *SlowRequestService) Start() {
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	go s.run(s.r.clock.NewTicker(ReportInterval))
}

// Close logs what is queued and ends the goroutine.
func (s *SlowRequestService) Close() {
	if s.stop != nil {
		close(s.stop)
		<-s.done
		s.stop = nil
	}
}

func (s *SlowRequestService) run(t clock.Ticker) {
	defer close(s.done)
	defer t.Stop()
	for {
		select {
		case q := <-s.r.queue:
			s.line(&q)
		case <-t.C():
			s.report()
		case <-s.stop:
			for len(s.r.queue) > 0 {
				q := <-s.r.queue
				s.line(&q)
			}
			return
		}
	}
}

// line logs one slow request, or counts it if there were many of late.
func (s *SlowRequestService) line(q *SlowRequest) {
	now := s.r.now()
	if now >= s.windowEnds {
		s.lines, s.windowEnds = 0, now+int64(slowWindow)
	}
	if s.lines == maxSlowLines {
		s.kept++
		return
	}
	s.lines++
	attrs := append([]slog.Attr{slog.Any("remote", q.Remote), slog.Int("code", q.Code), slog.String("class", q.Class.String()),
		slog.String("topic", q.Topic), slog.Int("queueId", int(q.QueueID)), slog.Duration("total", short(q.Total)),
		slog.String("stages", q.StageText()), slog.Int("requests", q.Requests), slog.Int("queueDepth", q.QueueDepth),
		slog.Int64("notLogged", s.kept+s.r.notTaken.Swap(0))}, s.context.Line()...)
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "slow request", attrs...)
	s.kept = 0
}

// report turns the minute over; one line if a request was slow in it, at debug level otherwise.
func (s *SlowRequestService) report() {
	now := s.r.Snapshot()
	s.mu.Lock()
	s.prev, s.last = s.last, now
	base := s.prev
	s.mu.Unlock()
	minute := *now
	minute.Sub(base)
	level := slog.LevelDebug
	if minute.SlowCount() > 0 {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	for c := range NumClasses {
		if minute.Total[c].Count() > 0 {
			attrs = append(attrs, slog.Int64(c.String()+"Slow", minute.Slow[c]), slog.String(c.String(), minute.Total[c].String()))
			attrs = append(attrs, slog.String(c.String()+"P99", minute.stagesText(c)))
		}
	}
	if len(attrs) == 0 {
		return
	}
	s.log.LogAttrs(context.Background(), level, "latency of the last minute", append(attrs, s.context.Minute()...)...)
}

// stagesText is the 99th percentile of the stages of a class.
func (s *Snapshot) stagesText(c Class) string {
	var b strings.Builder
	for st := range NumStages {
		if h := &s.Stages[c][st]; h.Count() > 0 {
			fmt.Fprintf(&b, "%v=%v ", st, short(h.Quantile(0.99)))
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}

// Recent is what happened in the last one to two minutes.
func (s *SlowRequestService) Recent() *Snapshot {
	now := s.r.Snapshot()
	s.mu.Lock()
	base := s.prev
	s.mu.Unlock()
	now.Sub(base)
	return now
}

// RuntimeInfo adds Recent to GET_BROKER_RUNTIME_INFO under keys of our own: latency_send, latency_send_append, ... (the
// texts of Histogram.String), and slowRequests, the number since the start.
func (s *SlowRequestService) RuntimeInfo(into map[string]string) {
	recent := s.Recent()
	for c := range NumClasses {
		if h := &recent.Total[c]; h.Count() > 0 {
			into["latency_"+c.String()] = h.String()
		}
		for st := range NumStages {
			if h := &recent.Stages[c][st]; h.Count() > 0 {
				into["latency_"+c.String()+"_"+st.String()] = h.String()
			}
		}
	}
	var slow int64
	for c := range s.r.slow {
		slow += s.r.slow[c].Load()
	}
	into["slowRequests"] = fmt.Sprint(slow)
}
