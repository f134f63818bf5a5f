package slave

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"skylark/broker/group"
	"skylark/broker/offset"
	"skylark/broker/pop"
	"skylark/broker/schedule"
	"skylark/broker/topic"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/codec/fastjson"
	"skylark/internal/clock"
	"skylark/store/timer"
)

const (
	// Interval is how often everything is copied (Java 4.x: 10 s, 5.x: 60 s).
	Interval = 10 * time.Second
	// TimerInterval is how often the timer's progress is (Java 5.x: 3 s), and that of delayed messages.
	TimerInterval = 3 * time.Second
	// OffsetsInterval is how often a Skylark master is asked whether consumer offsets have changed: what was consumed since
	// comes again after a failover.
	OffsetsInterval = time.Second
	// offsetsShare bounds the time that this takes, on the master and here: a round that took d is followed by a pause of
	// offsetsShare·d at least, so that large tables are copied less often.
	offsetsShare = 20
	// offsetsTimeout bounds such a round: it must not hold up the others.
	offsetsTimeout = 3 * time.Second
	// callTimeout bounds one request; a table of some MiB takes a while.
	callTimeout = 10 * time.Second
	// maxTellMaster bounds the offsets that are given back to a master in one round.
	maxTellMaster = 10_000
)

// FieldMark is a field of GET_ALL_CONSUMER_OFFSET among Skylark brokers, both ways: what offset.Manager.Mark says. A master
// answers with an empty body if its mark is the one that the slave names. Java's masters pass over it.
const FieldMark = "skylarkOffsetsMark"

// noMark is one that no offsets have.
const noMark = "-"

// Options of the service: the tables it keeps, and how to reach the master.
type Options struct {
	Client *client.Client
	Clock  clock.Clock
	Log    *slog.Logger
	// Master is the address of the master's broker, "" while it is unknown.
	Master func() string

	Topics   *topic.Manager
	Groups   *group.Manager
	Offsets  *offset.Manager
	Schedule *schedule.ScheduleMessageService
	Modes    *pop.ModeManager
	Timer    *timer.TimerMessageStore // nil without timerWheelEnable
	// Acting tells that this broker delivers delayed and timed messages itself: their progress is ours then.
	Acting func() bool
}

// SlaveSynchronize copies tables when it is told to. Its methods may be called from several goroutines.
type SlaveSynchronize struct {
	o Options

	mu       sync.Mutex // one round at a time
	master   string     // of the last round
	before   offset.Table
	mark     string           // of before, "" if the master does not say any
	due      time.Time        // of the next SyncOffsets
	topics   body.DataVersion // as the master said last
	groups   body.DataVersion
	failing  map[string]string // step → what was logged last
	versions map[string]bool   // steps that the master does not know
}

// New makes the service.
func New(o Options) *SlaveSynchronize {
	return &SlaveSynchronize{o: o, failing: map[string]string{}, versions: map[string]bool{}}
}

// SyncAll copies all tables now; false if a step failed or there is no master.
func (s *SlaveSynchronize) SyncAll(ctx context.Context) bool {
	addr := s.o.Master()
	if addr == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr != s.master {
		s.master, s.mark = addr, ""
		clear(s.versions)
	}
	ok := s.step(ctx, "topics", s.syncTopics)
	ok = s.step(ctx, "consumer offsets", s.syncAllOffsets) && ok
	ok = s.step(ctx, "subscription groups", s.syncGroups) && ok
	ok = s.step(ctx, "request modes", s.syncModes) && ok
	if !s.o.Acting() {
		ok = s.step(ctx, "delay offsets", s.syncDelayOffsets) && ok
		ok = s.step(ctx, "timer checkpoint", s.syncTimer) && ok
		ok = s.step(ctx, "timer metrics", s.syncTimerMetrics) && ok
	}
	return ok
}

// SyncOffsets copies consumer offsets if they have changed on the master. It does nothing if a round like this is not due,
// or the master does not say whether they have (Java's).
func (s *SlaveSynchronize) SyncOffsets(ctx context.Context) {
	began := s.o.Clock.Now()
	addr := s.o.Master()
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr == "" || addr != s.master || s.mark == "" || began.Before(s.due) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, offsetsTimeout)
	defer cancel()
	s.step(ctx, "consumer offsets", func(ctx context.Context) error { return s.syncOffsets(ctx, s.mark) })
	now := s.o.Clock.Now()
	s.due = now.Add(min(offsetsShare*now.Sub(began), Interval))
}

// SyncTimer copies the progress of timed and delayed messages only.
func (s *SlaveSynchronize) SyncTimer(ctx context.Context) {
	if s.o.Master() == "" || s.o.Acting() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step(ctx, "timer checkpoint", s.syncTimer)
	s.step(ctx, "delay offsets", s.syncDelayOffsets)
}

// step does one table and logs a failure, once, and its end.
func (s *SlaveSynchronize) step(ctx context.Context, name string, f func(ctx context.Context) error) bool {
	if s.versions[name] {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := f(ctx)
	if client.IsResponse(err, codec.RespRequestCodeNotSupported) {
		s.versions[name] = true
		s.o.Log.Info("the master does not serve a table", "table", name, "remote", s.master)
		return true
	}
	was := s.failing[name]
	switch {
	case err != nil && was != err.Error():
		s.failing[name] = err.Error()
		s.o.Log.Warn("table not copied from the master", "table", name, "remote", s.master, "err", err)
	case err == nil && was != "":
		delete(s.failing, name)
		s.o.Log.Info("table copied from the master again", "table", name, "remote", s.master)
	}
	return err == nil
}

// ask gets a body of the master. fast is its port for such requests, listenPort - 2, where Java's slave asks for some
// tables; one that does not listen there is asked at the main port.
func (s *SlaveSynchronize) ask(ctx context.Context, code int, fast bool) ([]byte, error) {
	if fast {
		if addr, ok := fastAddr(s.o.Master()); ok {
			answer, err := s.o.Client.Do(ctx, addr, codec.NewRequest(code))
			var refused *client.ResponseError
			if err == nil {
				return answer.Body, nil
			}
			if errors.As(err, &refused) {
				return nil, err
			}
		}
	}
	answer, err := s.o.Client.Do(ctx, s.o.Master(), codec.NewRequest(code))
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func fastAddr(addr string) (string, bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", false
	}
	n, err := strconv.Atoi(port)
	if err != nil || n <= 2 {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(n-2)), true
}

func (s *SlaveSynchronize) syncTopics(ctx context.Context) error {
	data, err := s.ask(ctx, codec.ReqGetAllTopicConfig, true)
	if err != nil {
		return err
	}
	var w body.TopicConfigAndMappingSerializeWrapper
	if err := body.Decode(data, &w); err != nil {
		return fmt.Errorf("slave: topics: %w", err)
	}
	back := w.DataVersion.Compare(s.topics) < 0
	if back {
		s.o.Log.Error("the master came back with older topics; those that it lacks are kept here", "remote", s.master)
	}
	changed, err := s.o.Topics.Follow(&w, back)
	if err == nil && !back {
		s.topics = w.DataVersion
	}
	if changed {
		s.o.Log.Info("topics copied from the master", "remote", s.master, "topics", len(w.TopicConfigTable))
	}
	return err
}

func (s *SlaveSynchronize) syncGroups(ctx context.Context) error {
	data, err := s.ask(ctx, codec.ReqGetAllSubscriptionGroupConfig, false)
	if err != nil {
		return err
	}
	var w body.SubscriptionGroupWrapper
	if err := body.Decode(data, &w); err != nil {
		return fmt.Errorf("slave: subscription groups: %w", err)
	}
	back := w.DataVersion.Compare(s.groups) < 0
	if back {
		s.o.Log.Error("the master came back with older groups; those that it lacks are kept here", "remote", s.master)
	} else {
		s.groups = w.DataVersion
	}
	return s.o.Groups.Follow(&w, back)
}

// syncAllOffsets is syncOffsets whether they have changed on the master or not: they may have here.
func (s *SlaveSynchronize) syncAllOffsets(ctx context.Context) error {
	if err := s.syncOffsets(ctx, noMark); err != nil {
		return err
	}
	return s.o.Offsets.Persist()
}

// syncOffsets takes the master's offsets, unless their mark is the given one, and tells it those that are further here:
// consumers worked here while it was away.
func (s *SlaveSynchronize) syncOffsets(ctx context.Context, mark string) error {
	req := codec.NewRequest(codec.ReqGetAllConsumerOffset)
	req.Set(FieldMark, mark)
	answer, err := s.o.Client.Do(ctx, s.o.Master(), req)
	if err != nil {
		return err
	}
	now := answer.Get(FieldMark)
	if now == mark {
		return nil
	}
	var w body.ConsumerOffsetSerializeWrapper
	if err := body.Decode(answer.Body, &w); err != nil {
		return fmt.Errorf("slave: consumer offsets: %w", err)
	}
	ahead := s.o.Offsets.Follow(s.before, &w)
	s.before, s.mark = w.OffsetTable, now
	if len(ahead) > 0 {
		s.o.Log.Warn("groups are further here than on the master, which is told", "remote", s.master, "queues", len(ahead))
	}
	for i, a := range ahead {
		if i == maxTellMaster {
			return fmt.Errorf("slave: %d offsets are still to be told to the master", len(ahead)-i)
		}
		req := codec.NewRequest(codec.ReqUpdateConsumerOffset)
		codec.EncodeHeader(req, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: a.Group, Topic: a.Topic,
			QueueID: a.QueueID, CommitOffset: a.Offset})
		if _, err := s.o.Client.Do(ctx, s.o.Master(), req); err != nil {
			return fmt.Errorf("slave: offset of group %s told to the master: %w", a.Group, err)
		}
	}
	return nil
}

func (s *SlaveSynchronize) syncDelayOffsets(ctx context.Context) error {
	data, err := s.ask(ctx, codec.ReqGetAllDelayOffset, false)
	if err != nil || len(data) == 0 {
		return err
	}
	return s.o.Schedule.Follow(data)
}

func (s *SlaveSynchronize) syncModes(ctx context.Context) error {
	data, err := s.ask(ctx, codec.ReqGetAllMessageRequestMode, false)
	if err != nil || len(data) == 0 {
		return err
	}
	var w body.MessageRequestModeSerializeWrapper
	if err := body.Decode(data, &w); err != nil {
		return fmt.Errorf("slave: request modes: %w", err)
	}
	return s.o.Modes.Follow(&w)
}

func (s *SlaveSynchronize) syncTimer(ctx context.Context) error {
	if s.o.Timer == nil {
		return nil
	}
	data, err := s.ask(ctx, codec.ReqGetTimerCheckPoint, true)
	if err != nil {
		return err
	}
	cp, err := timer.DecodeCheckpoint(data)
	if err != nil {
		return err
	}
	return s.o.Timer.Follow(cp)
}

func (s *SlaveSynchronize) syncTimerMetrics(ctx context.Context) error {
	if s.o.Timer == nil {
		return nil
	}
	data, err := s.ask(ctx, codec.ReqGetTimerMetrics, true)
	if err != nil {
		return err
	}
	var m timer.Metrics
	if err := fastjson.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("slave: timer metrics: %w", err)
	}
	return s.o.Timer.FollowMetrics(m)
}
