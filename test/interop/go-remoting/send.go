package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// sendScenarios are about sending.
var sendScenarios = []scenario{
	{"send-sync", 40 * time.Second, sendSync},
	{"send-async", 40 * time.Second, sendAsync},
	{"send-oneway", 60 * time.Second, sendOneway},
	{"send-batch", 60 * time.Second, sendBatch},
	{"send-selector", 40 * time.Second, sendSelector},
	{"auto-create-topic", 60 * time.Second, autoCreateTopic},
	{"unknown-topic", 60 * time.Second, unknownTopic},
	{"compress-zlib", 60 * time.Second, compressZlib},
	{"body-limit", 60 * time.Second, bodyLimit},
	{"unicode", 60 * time.Second, unicode},
	{"namespace", 60 * time.Second, namespace},
	{"throughput", 60 * time.Second, throughput},
}

func sendSync(s *scope) string {
	t := s.topic(4)
	p := s.producer()
	q := map[int]int64{}
	ids := map[string]bool{}
	for _, r := range send(p, t, "A", "m", 20) {
		id := r.MessageQueue.QueueId
		check(q[id] == r.QueueOffset, "offset %d of queue %d, want %d", r.QueueOffset, id, q[id])
		q[id]++
		ids[r.MsgID], ids[r.OffsetMsgID] = true, true
	}
	check(len(q) == 4, "queues used %d", len(q))
	check(len(ids) == 40, "ids %d", len(ids))
	return "20 messages on 4 queues"
}

func sendAsync(s *scope) string {
	t := s.topic(4)
	p := s.producer()
	var ok, ko int64
	for i := 0; i < 50; i++ {
		must(p.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, err error) {
			if err == nil && r.Status == primitive.SendOK {
				atomic.AddInt64(&ok, 1)
			} else {
				atomic.AddInt64(&ko, 1)
			}
		}, primitive.NewMessage(t, []byte("x"))))
	}
	until(20*time.Second, "50 callbacks", func() bool {
		return atomic.LoadInt64(&ok)+atomic.LoadInt64(&ko) == 50
	})
	check(ok == 50, "failed %d", ko)
	return "50 callbacks"
}

func sendOneway(s *scope) string {
	t := s.topic(4)
	p := s.producer()
	for i := 0; i < 10; i++ {
		must(p.SendOneWay(ctx, primitive.NewMessage(t, []byte(fmt.Sprint("o", i)))))
	}
	s.collect(s.id("GID"), t, all).await(10, 40*time.Second)
	return "10 stored"
}

func sendBatch(s *scope) string {
	t := s.topic(2)
	p := s.producer()
	var l []*primitive.Message
	for i := 0; i < 7; i++ {
		m := primitive.NewMessage(t, []byte(fmt.Sprint("b", i))).WithTag("A")
		m.WithKeys([]string{fmt.Sprint("bk", i)})
		m.WithProperty("n", fmt.Sprint(i))
		l = append(l, m)
	}
	r, err := p.SendSync(ctx, l...)
	must(err)
	check(r.Status == primitive.SendOK, "status %v", r.Status)
	g := s.collect(s.id("GID"), t, all)
	g.await(7, 40*time.Second)
	check(len(g.set()) == 7, "bodies %v", g.set())
	for _, m := range g.msgs {
		check("b"+m.GetProperty("n") == string(m.Body), "property of %s", m.Body)
	}
	return "7 in one request"
}

func sendSelector(s *scope) string {
	t := s.topic(4)
	p := s.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for i := 0; i < 8; i++ {
		m := primitive.NewMessage(t, []byte("x"))
		m.Queue = &primitive.MessageQueue{Topic: t, BrokerName: brokerName, QueueId: i % 4}
		r, err := p.SendSync(ctx, m)
		must(err)
		check(r.MessageQueue.QueueId == i%4, "queue %d", r.MessageQueue.QueueId)
	}
	h := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	seen := map[int]bool{}
	for i := 0; i < 5; i++ {
		r, err := h.SendSync(ctx, primitive.NewMessage(t, []byte("y")).WithShardingKey("same"))
		must(err)
		seen[r.MessageQueue.QueueId] = true
	}
	check(len(seen) == 1, "queues of one sharding key %v", seen)
	return "manual and hash selector"
}

func autoCreateTopic(s *scope) string {
	t := s.id("T")
	p := s.producer()
	send(p, t, "A", "first", 1)
	s.collect(s.id("GID"), t, all).await(1, 50*time.Second)
	return "from TBW102"
}

func unknownTopic(s *scope) string {
	p := s.producer(producer.WithCreateTopicKey(s.id("NOKEY")))
	_, err := p.SendSync(ctx, primitive.NewMessage(s.id("T"), []byte("x")))
	check(err != nil, "send did not fail")
	return err.Error()
}

func compressZlib(s *scope) string {
	t := s.topic(1)
	p := s.producer(producer.WithCompressMsgBodyOverHowmuch(1024))
	g := s.collect(s.id("GID"), t, all)
	body := strings.Repeat("compress me ", 2000)
	_, err := p.SendSync(ctx, primitive.NewMessage(t, []byte(body)))
	must(err)
	g.await(1, 50*time.Second)
	check(string(g.msgs[0].Body) == body, "body differs: %d bytes", len(g.msgs[0].Body))
	check(g.msgs[0].StoreSize < 3000, "stored in %d", g.msgs[0].StoreSize)
	return fmt.Sprintf("24000 bytes stored in %d, sysFlag %d", g.msgs[0].StoreSize, g.msgs[0].SysFlag)
}

func bodyLimit(s *scope) string {
	t := s.topic(1)
	p := s.producer(producer.WithCompressMsgBodyOverHowmuch(64 << 20))
	b := make([]byte, 4<<20-4096)
	rand.New(rand.NewSource(7)).Read(b)
	_, err := p.SendSync(ctx, primitive.NewMessage(t, b))
	must(err)
	_, err = p.SendSync(ctx, primitive.NewMessage(t, make([]byte, 5<<20)))
	check(err != nil, "5 MiB did not fail")
	g := s.collect(s.id("GID"), t, all)
	g.await(1, 50*time.Second)
	check(bytes.Equal(g.msgs[0].Body, b), "body differs")
	return "4 MiB - 4 KiB goes through; 5 MiB: " + err.Error()
}

func unicode(s *scope) string {
	t := s.topic(1)
	p := s.producer()
	u := "消息-ключ-😀-é"
	g := s.collect(s.id("GID"), t, all)
	m := primitive.NewMessage(t, []byte(u)).WithTag("标签").WithKeys([]string{u})
	m.WithProperty("属性", u)
	_, err := p.SendSync(ctx, m)
	must(err)
	g.await(1, 50*time.Second)
	x := g.msgs[0]
	check(string(x.Body) == u, "body %s", x.Body)
	check(x.GetProperty("属性") == u, "property %s", x.GetProperty("属性"))
	check(x.GetTags() == "标签", "tag %s", x.GetTags())
	check(strings.TrimSpace(x.GetKeys()) == u, "keys %s", x.GetKeys())
	return "body, key, tag, property"
}

func namespace(s *scope) string {
	nsp := "NG" + runID
	base := s.id("T")
	s.create(nsp+"%"+base, 1)
	p := s.producer(producer.WithNamespace(nsp))
	g := s.collect(s.id("GID"), base, all, consumer.WithNamespace(nsp))
	send(p, base, "A", "n", 3)
	g.await(3, 50*time.Second)
	return nsp + "%topic, seen as " + g.msgs[0].Topic
}

func throughput(s *scope) string {
	t := s.topic(4)
	p := s.producer()
	g := s.collect(s.id("GID"), t, all)
	const n = 2000
	t0 := time.Now()
	var wg sync.WaitGroup
	var ko int64
	for w := 0; w < 8; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < n/8; i++ {
				if _, err := p.SendSync(ctx, primitive.NewMessage(t, make([]byte, 512))); err != nil {
					atomic.AddInt64(&ko, 1)
				}
			}
		}()
	}
	wg.Wait()
	check(ko == 0, "failed %d", ko)
	g.await(n, 40*time.Second)
	return fmt.Sprintf("%d of 512 bytes sent and consumed in %d ms", n, time.Since(t0).Milliseconds())
}
