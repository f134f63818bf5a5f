package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// laterScenarios are about messages that come later or again.
var laterScenarios = []scenario{
	{"delay-level", 60 * time.Second, delayLevel},
	{"timer-exact", 60 * time.Second, timerExact},
	{"tx-commit", 60 * time.Second, txCommit},
	{"tx-rollback", 60 * time.Second, txRollback},
	{"tx-check", 150 * time.Second, txCheck},
	{"retry", 90 * time.Second, retryTimes},
	{"retry-dlq", 120 * time.Second, retryDlq},
	{"request-reply", 60 * time.Second, requestReply},
	{"request-reply-early", 60 * time.Second, requestReplyEarly},
	{"trace", 60 * time.Second, trace},
	{"admin-topic", 60 * time.Second, adminTopic},
}

func delayLevel(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	g := s.collect(s.id("GID"), t, all)
	send(p, t, "A", "warm", 1)
	g.await(1, 40*time.Second)
	t0 := time.Now()
	for lv := 1; lv <= 2; lv++ {
		_, err := p.SendSync(ctx, primitive.NewMessage(t, []byte(fmt.Sprint("L", lv))).WithDelayTimeLevel(lv))
		must(err)
	}
	g.await(3, 30*time.Second)
	d1, d2 := g.at[1].Sub(t0), g.at[2].Sub(t0)
	check(d1 > 950*time.Millisecond && d1 < 4*time.Second, "level 1 after %v", d1)
	check(d2 > 4950*time.Millisecond && d2 < 8*time.Second, "level 2 after %v", d2)
	return fmt.Sprintf("L1=%dms L2=%dms", d1.Milliseconds(), d2.Milliseconds())
}

func timerExact(s *scope) string {
	// the client has no call for it: the 5.x property is set by hand
	t := s.topic(1)
	p := s.producer()
	g := s.collect(s.id("GID"), t, all)
	send(p, t, "A", "warm", 1)
	g.await(1, 40*time.Second)
	due := time.Now().Add(4 * time.Second)
	m := primitive.NewMessage(t, []byte("timer"))
	m.WithProperty("TIMER_DELIVER_MS", strconv.FormatInt(due.UnixMilli(), 10))
	_, err := p.SendSync(ctx, m)
	must(err)
	g.await(2, 20*time.Second)
	d := g.at[1].Sub(due)
	check(d > -1100*time.Millisecond && d < 2500*time.Millisecond, "off by %v", d)
	return fmt.Sprintf("%+dms", d.Milliseconds())
}

func txCommit(s *scope) string {
	t := s.topic(2)
	l := &txListener{first: primitive.CommitMessageState}
	p := s.tx(l)
	g := s.collect(s.id("GID"), t, all)
	for i := 0; i < 5; i++ {
		r, err := p.SendMessageInTransaction(ctx, primitive.NewMessage(t, []byte(fmt.Sprint("c", i))))
		must(err)
		check(r.State == primitive.CommitMessageState, "state %v", r.State)
	}
	g.await(5, 40*time.Second)
	return "5 committed"
}

func txRollback(s *scope) string {
	t := s.topic(2)
	l := &txListener{first: primitive.RollbackMessageState, then: primitive.CommitMessageState}
	p := s.tx(l)
	g := s.collect(s.id("GID"), t, all)
	for i := 0; i < 3; i++ {
		_, err := p.SendMessageInTransaction(ctx, primitive.NewMessage(t, []byte("r")))
		must(err)
	}
	time.Sleep(12 * time.Second)
	check(g.size() == 0 && l.checks.Load() == 0, "seen %d, checks %d", g.size(), l.checks.Load())
	return "none seen in 12 s"
}

func txCheck(s *scope) string {
	t := s.topic(2)
	l := &txListener{first: primitive.UnknowState, then: primitive.CommitMessageState}
	p := s.tx(l)
	g := s.collect(s.id("GID"), t, all)
	t0 := time.Now()
	for i := 0; i < 3; i++ {
		_, err := p.SendMessageInTransaction(ctx, primitive.NewMessage(t, []byte(fmt.Sprint("u", i))))
		must(err)
	}
	g.await(3, 130*time.Second)
	return fmt.Sprintf("committed by the check after %.0f s, %d checks", time.Since(t0).Seconds(),
		l.checks.Load())
}

func retryTimes(s *scope) string {
	t, g := s.topic(1), s.id("GID")
	p := s.producer()
	var mu sync.Mutex
	var times []int32
	c := s.consumer(g)
	must(c.Subscribe(t, all, func(cx context.Context, ms ...*primitive.MessageExt) (
		consumer.ConsumeResult, error,
	) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, ms[0].ReconsumeTimes)
		if x, ok := primitive.GetConcurrentlyCtx(cx); ok {
			x.DelayLevelWhenNextConsume = 1
		}
		if ms[0].ReconsumeTimes < 2 {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
	send(p, t, "A", "m", 1)
	seen := func() []int32 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(times)
	}
	until(80*time.Second, "3 deliveries", func() bool { return len(seen()) >= 3 },
		func() string { return fmt.Sprint(seen()) })
	check(fmt.Sprint(seen()[:3]) == "[0 1 2]", "reconsumeTimes %v", seen())
	return "reconsumeTimes 0,1,2"
}

func retryDlq(s *scope) string {
	t, g := s.topic(1), s.id("GID")
	p := s.producer()
	var n int64
	c := s.consumer(g, consumer.WithMaxReconsumeTimes(2))
	must(c.Subscribe(t, all, func(cx context.Context, ms ...*primitive.MessageExt) (
		consumer.ConsumeResult, error,
	) {
		atomic.AddInt64(&n, 1)
		if x, ok := primitive.GetConcurrentlyCtx(cx); ok {
			x.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}))
	must(c.Start())
	send(p, t, "A", "dead", 1)
	a := theAdmin()
	until(90*time.Second, "DLQ topic", func() bool {
		l, err := a.FetchAllTopicList(ctx)
		return err == nil && strings.Contains(strings.Join(l.TopicList, " ")+" ", "%DLQ%"+g+" ")
	}, func() string { return fmt.Sprint("deliveries ", n) })
	check(n == 3, "deliveries %d", n)
	return "3 deliveries, then DLQ"
}

// replier answers every message of a topic; why is the last reason why it could not.
func replier(s *scope, t string) (why *atomic.Value) {
	g := s.id("GID")
	why = &atomic.Value{}
	why.Store("")
	rp := s.producer()
	c := s.consumer(g)
	must(c.Subscribe(t, all, func(_ context.Context, ms ...*primitive.MessageExt) (
		consumer.ConsumeResult, error,
	) {
		for _, m := range ms {
			r, err := consumer.CreateReplyMessage(m, []byte("re:"+string(m.Body)))
			if err == nil {
				r.Body = []byte("re:" + string(m.Body)) // CreateReplyMessage forgets it
				_, err = rp.SendSync(ctx, r)
			}
			if err != nil {
				why.Store(err.Error())
			}
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
	return why
}

func requestReply(s *scope) string {
	t := s.topic(2)
	why := replier(s, t)
	// the broker pushes a reply to a producer it has a heartbeat of: this client sends its first one
	// a second after its start, to the brokers it knows by then
	p := s.producer()
	send(p, t, "A", "first", 1)
	time.Sleep(3 * time.Second)
	for i := 0; i < 3; i++ {
		r, err := p.Request(ctx, 28*time.Second, primitive.NewMessage(t, []byte(fmt.Sprint("q", i))))
		check(err == nil, "%v; replier: %v", err, why.Load())
		check(string(r.Body) == fmt.Sprint("re:q", i), "reply %s", r.Body)
	}
	return "3 replies"
}

// A client that has just started has sent no heartbeat: Java's broker does not find it, Skylark does.
func requestReplyEarly(s *scope) string {
	t := s.topic(1)
	why := replier(s, t)
	p := s.producer()
	r, err := p.Request(ctx, 28*time.Second, primitive.NewMessage(t, []byte("q")))
	check(err == nil, "%v; replier: %v", err, why.Load())
	check(string(r.Body) == "re:q", "reply %s", r.Body)
	return "a reply before the first heartbeat"
}

func trace(s *scope) string {
	t, tt := s.topic(1), s.topic(1)
	tr := primitive.TraceConfig{TraceTopic: tt, GroupName: s.id("TRG"), Access: primitive.Local,
		NamesrvAddrs: namesrv, Resolver: primitive.NewPassthroughResolver(namesrv)}
	p := s.producer(producer.WithTrace(&tr))
	id := send(p, t, "A", "m", 1)[0].MsgID
	g := s.collect(s.id("GID"), tt, all)
	until(45*time.Second, "trace message of "+id,
		func() bool { return strings.Contains(strings.Join(g.set(), " "), id) },
		func() string { return fmt.Sprint(g.size(), " trace messages") })
	return "producer trace on a topic of its own"
}

func adminTopic(s *scope) string {
	t := s.topic(3)
	a := theAdmin()
	l, err := a.FetchAllTopicList(ctx)
	must(err)
	check(strings.Contains(strings.Join(l.TopicList, " "), t), "not in the topic list")
	w, err := a.GetAllSubscriptionGroup(ctx, broker, 5*time.Second)
	must(err)
	check(len(w.SubscriptionGroupTable) > 0, "no subscription groups")
	must(a.DeleteTopic(ctx, admin.WithTopicDelete(t), admin.WithBrokerAddrDelete(broker),
		admin.WithNameSrvAddr(namesrv)))
	until(20*time.Second, "out of the topic list", func() bool { // routes are cached by the client
		l, err := a.FetchAllTopicList(ctx)
		return err == nil && !slices.Contains(l.TopicList, t)
	})
	return fmt.Sprintf("create, list, groups (%d), delete", len(w.SubscriptionGroupTable))
}
