package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// consumeScenarios are about consumers.
var consumeScenarios = []scenario{
	{"push-clustering", 150 * time.Second, pushClustering},
	{"push-broadcast", 90 * time.Second, pushBroadcast},
	{"push-latency", 60 * time.Second, pushLatency},
	{"pull", 60 * time.Second, pullStates},
	{"pull-poll", 90 * time.Second, pullPoll},
	{"filter-tag", 60 * time.Second, filterTag},
	{"filter-tag-unicode", 60 * time.Second, filterTagUnicode},
	{"filter-sql92", 60 * time.Second, filterSql92},
	{"order-push", 90 * time.Second, orderPush},
	{"from-timestamp", 90 * time.Second, fromTimestamp},
	{"offset-resume", 90 * time.Second, offsetResume},
	{"suspend-resume", 60 * time.Second, suspendResume},
}

func pushClustering(s *scope) string {
	t, g := s.topic(8), s.id("GID")
	p := s.producer()
	a, b := s.collect(g, t, all), s.collect(g, t, all)
	// the consumers share once both are rebalanced: send until each has some
	n := 0
	until(90*time.Second, "both get messages", func() bool {
		send(p, t, "A", fmt.Sprint("m", n, "x"), 8)
		n += 8
		time.Sleep(time.Second)
		return a.size() > 0 && b.size() > 0
	})
	until(30*time.Second, "all", func() bool { return a.size()+b.size() >= n },
		func() string { return fmt.Sprint(a.size(), b.size(), n) })
	k := map[string]bool{}
	for _, x := range append(a.set(), b.set()...) {
		k[x] = true
	}
	check(len(k) == n, "different messages %d of %d", len(k), n)
	na, nb := a.size(), b.size()
	must(a.c.Shutdown())
	send(p, t, "A", "n", 40)
	b.await(nb+40, 60*time.Second)
	return fmt.Sprintf("%d/%d, after one left all 40 to the other", na, nb)
}

func pushBroadcast(s *scope) string {
	t, g := s.topic(4), s.id("GID")
	p := s.producer()
	a := s.collect(g, t, all, consumer.WithConsumerModel(consumer.BroadCasting))
	b := s.collect(g, t, all, consumer.WithConsumerModel(consumer.BroadCasting))
	send(p, t, "A", "m", 20)
	a.await(20, 60*time.Second)
	b.await(20, 60*time.Second)
	check(len(a.set()) == 20 && len(b.set()) == 20, "%d %d", len(a.set()), len(b.set()))
	return "20 to each of 2"
}

func pushLatency(s *scope) string {
	t := s.topic(1)
	p := s.producer()
	g := s.collect(s.id("GID"), t, all)
	send(p, t, "A", "warm", 1)
	g.await(1, 40*time.Second)
	var worst time.Duration
	for i := 0; i < 5; i++ {
		time.Sleep(700 * time.Millisecond)
		n := g.size()
		t0 := time.Now()
		send(p, t, "A", "l", 1)
		g.await(n+1, 5*time.Second)
		if d := g.at[n].Sub(t0); d > worst {
			worst = d
		}
	}
	check(worst < 800*time.Millisecond, "worst %v: the held pull is not woken", worst)
	return fmt.Sprintf("worst %d ms after idle", worst.Milliseconds())
}

func pullStates(s *scope) string {
	t := s.topic(1)
	p := s.producer()
	q := send(p, t, "A", "m", 10)[0].MessageQueue
	c := s.pullConsumer(t)
	r, err := c.PullFrom(ctx, q, 0, 32)
	must(err)
	found := len(r.GetMessageExts())
	check(r.Status == primitive.PullFound && found == 10, "status %v, %d", r.Status, found)
	check(r.NextBeginOffset == 10 && r.MaxOffset == 10 && r.MinOffset == 0, "offsets %d %d %d",
		r.NextBeginOffset, r.MaxOffset, r.MinOffset)
	r, err = c.PullFrom(ctx, q, 4, 3)
	must(err)
	check(len(r.GetMessageExts()) == 3, "batch of 3: %d", len(r.GetMessageExts()))
	r, err = c.PullFrom(ctx, q, 100, 3)
	must(err)
	check(r.Status == primitive.PullOffsetIllegal && r.NextBeginOffset == 10, "past the end: %v %d", r.Status,
		r.NextBeginOffset)
	return "FOUND, ILLEGAL"
}

func pullPoll(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	send(p, t, "A", "m", 10)
	c := s.pullConsumer(t)
	n := 0
	until(70*time.Second, "10 polled", func() bool {
		cr, err := c.Poll(ctx, time.Second)
		if err == nil && cr != nil {
			n += len(cr.GetMsgList())
			c.ACK(ctx, cr, consumer.ConsumeSuccess)
		}
		return n >= 10
	})
	return "10 polled and acked"
}

func filterTag(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	send(p, t, "TagA", "a", 5)
	send(p, t, "TagB", "b", 5)
	send(p, t, "TagC", "c", 5)
	g := s.collect(s.id("GID"), t, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"})
	g.await(10, 50*time.Second)
	time.Sleep(800 * time.Millisecond)
	check(g.size() == 10, "got %d", g.size())
	return "10 of 15"
}

func filterTagUnicode(s *scope) string {
	// this client hashes the bytes of a tag, brokers the UTF-16 units as Java does: only ASCII tags agree
	t := s.topic(1)
	p := s.producer()
	g := s.collect(s.id("GID"), t, consumer.MessageSelector{Type: consumer.TAG, Expression: "标签"})
	send(p, t, "标签", "m", 1)
	g.await(1, 40*time.Second)
	return "tag outside ASCII"
}

func filterSql92(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	for i := 0; i < 20; i++ {
		m := primitive.NewMessage(t, []byte(fmt.Sprint("m", i)))
		m.WithProperty("a", fmt.Sprint(i))
		_, err := p.SendSync(ctx, m)
		must(err)
	}
	sql := consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 5 AND 7 OR a > 17"}
	g := s.collect(s.id("GID"), t, sql)
	g.await(5, 50*time.Second)
	time.Sleep(800 * time.Millisecond)
	w := "[m18 m19 m5 m6 m7]"
	check(fmt.Sprint(g.set()) == w, "got %v", g.set())
	return w
}

func orderPush(s *scope) string {
	t, g := s.topic(4), s.id("GID")
	p := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	var mu sync.Mutex
	seen := map[string][]string{}
	n := 0
	c := s.consumer(g, consumer.WithConsumerOrder(true))
	must(c.Subscribe(t, all, func(_ context.Context, ms ...*primitive.MessageExt) (
		consumer.ConsumeResult, error,
	) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range ms {
			b := strings.Split(string(m.Body), ":")
			seen[b[0]] = append(seen[b[0]], b[1])
			n++
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
	for i := 0; i < 20; i++ {
		for k := 0; k < 5; k++ {
			m := primitive.NewMessage(t, []byte(fmt.Sprintf("k%d:%d", k, i)))
			_, err := p.SendSync(ctx, m.WithShardingKey(fmt.Sprint("k", k)))
			must(err)
		}
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	until(70*time.Second, "100 messages", func() bool { return count() >= 100 },
		func() string { return fmt.Sprint(count()) })
	var want []string
	for i := 0; i < 20; i++ {
		want = append(want, fmt.Sprint(i))
	}
	for k, v := range seen {
		check(fmt.Sprint(v) == fmt.Sprint(want), "order of %s: %v", k, v)
	}
	return "5 keys in order"
}

func fromTimestamp(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	send(p, t, "A", "old", 6)
	time.Sleep(2500 * time.Millisecond)
	ts := time.Now().Format("20060102150405")
	time.Sleep(1100 * time.Millisecond)
	send(p, t, "A", "new", 6)
	g := s.collect(s.id("GID"), t, all, consumer.WithConsumerModel(consumer.BroadCasting),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp), consumer.WithConsumeTimestamp(ts))
	g.await(6, 60*time.Second)
	time.Sleep(800 * time.Millisecond)
	check(fmt.Sprint(g.set()) == "[new0 new1 new2 new3 new4 new5]", "from %s: %v", ts, g.set())
	return "6 of 12"
}

func offsetResume(s *scope) string {
	t, g := s.topic(2), s.id("GID")
	p := s.producer()
	a := s.collect(g, t, all)
	send(p, t, "A", "m", 10)
	a.await(10, 50*time.Second)
	time.Sleep(500 * time.Millisecond)
	must(a.c.Shutdown())
	send(p, t, "A", "n", 4)
	b := s.collect(g, t, all)
	b.await(4, 50*time.Second)
	time.Sleep(time.Second)
	check(fmt.Sprint(b.set()) == "[n0 n1 n2 n3]", "%v", b.set())
	return "no message twice after a clean restart"
}

func suspendResume(s *scope) string {
	t := s.topic(1)
	p := s.producer()
	g := s.collect(s.id("GID"), t, all)
	send(p, t, "A", "m", 3)
	g.await(3, 40*time.Second)
	g.c.Suspend()
	time.Sleep(1500 * time.Millisecond)
	send(p, t, "A", "s", 3)
	time.Sleep(2 * time.Second)
	during := g.size() - 3
	g.c.Resume()
	g.await(6, 30*time.Second)
	return fmt.Sprintf("%d while suspended", during)
}
