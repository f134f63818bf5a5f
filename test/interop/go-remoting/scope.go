package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// scope is what a scenario uses: topics and groups of its own, and clients that are closed after it.
type scope struct {
	name string

	mu   sync.Mutex // guards the rest
	n    int
	down []func()
}

var (
	ctx     = context.Background()
	clients atomic.Int64
	bad     = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	all     = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
)

// uniq is an instance name: clients with one of their own do not share connections.
func uniq() string { return fmt.Sprintf("g%sx%dx%d", runID, clients.Add(1), os.Getpid()) }

func (s *scope) later(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = append(s.down, f)
}

// close ends the clients, the newest first.
func (s *scope) close() {
	s.mu.Lock()
	down := slices.Clone(s.down)
	s.mu.Unlock()
	for _, f := range slices.Backward(down) {
		func() {
			defer func() {
				if x := recover(); x != nil { // some clients panic when they are shut down twice
					fmt.Fprintln(os.Stderr, s.name, x)
				}
			}()
			f()
		}()
	}
}

// id is a name of this scenario: kind_client_scenario_run_number.
func (s *scope) id(kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return bad.ReplaceAllString(fmt.Sprintf("%s_%s_%s_%s_%d", kind, client, s.name, runID, s.n), "_")
}

// theAdmin is shared: the admins of this client use one connection whatever they are told, and the first that is
// closed ends it for all.
var theAdmin = sync.OnceValue(func() admin.Admin {
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(namesrv)))
	must(err)
	return a
})

func (s *scope) topic(queues int) string {
	t := s.id("T")
	s.create(t, queues)
	return t
}

func (s *scope) create(topic string, queues int) {
	a := theAdmin()
	must(a.CreateTopic(ctx, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)))
	until(15*time.Second, "route of "+topic, func() bool {
		mqs, err := a.FetchPublishMessageQueues(ctx, topic)
		return err == nil && len(mqs) == queues
	})
}

func (s *scope) producer(o ...producer.Option) rocketmq.Producer {
	o = append([]producer.Option{producer.WithNameServer(namesrv), producer.WithGroupName(s.id("PID")),
		producer.WithInstanceName(uniq()), producer.WithSendMsgTimeout(10 * time.Second)}, o...)
	p, err := rocketmq.NewProducer(o...)
	must(err)
	must(p.Start())
	s.later(func() { p.Shutdown() })
	return p
}

func (s *scope) consumer(group string, o ...consumer.Option) rocketmq.PushConsumer {
	o = append([]consumer.Option{consumer.WithNameServer(namesrv), consumer.WithGroupName(group),
		consumer.WithInstance(uniq()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, o...)
	c, err := rocketmq.NewPushConsumer(o...)
	must(err)
	s.later(func() { c.Shutdown() })
	return c
}

func (s *scope) pullConsumer(topic string) rocketmq.PullConsumer {
	c, err := rocketmq.NewPullConsumer(consumer.WithNameServer(namesrv), consumer.WithGroupName(s.id("GID")),
		consumer.WithInstance(uniq()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(c.Subscribe(topic, all))
	must(c.Start())
	s.later(func() { c.Shutdown() })
	return c
}

// collect starts a consumer that keeps what it gets.
func (s *scope) collect(group, topic string, sel consumer.MessageSelector, o ...consumer.Option) *received {
	r := &received{c: s.consumer(group, o...)}
	must(r.c.Subscribe(topic, sel,
		func(_ context.Context, m ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			r.take(m)
			return consumer.ConsumeSuccess, nil
		}))
	must(r.c.Start())
	return r
}

// received is what a push consumer got, with the time of each message.
type received struct {
	c rocketmq.PushConsumer

	mu   sync.Mutex // guards msgs, at
	msgs []*primitive.MessageExt
	at   []time.Time
}

func (r *received) take(m []*primitive.MessageExt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range m {
		r.msgs = append(r.msgs, x)
		r.at = append(r.at, time.Now())
	}
}

func (r *received) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.msgs)
}

// set returns the different bodies in order.
func (r *received) set() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var bodies []string
	for _, m := range r.msgs {
		bodies = append(bodies, string(m.Body))
	}
	slices.Sort(bodies)
	return slices.Compact(bodies)
}

func (r *received) await(n int, d time.Duration) {
	until(d, fmt.Sprintf("%d messages", n), func() bool { return r.size() >= n },
		func() string { return fmt.Sprintf("got %d", r.size()) })
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Errorf(format, args...))
	}
}

// until polls a condition of the system under test; more tells what was seen when it never came true.
func until(d time.Duration, what string, ok func() bool, more ...func() string) {
	end := time.Now().Add(d)
	for !ok() {
		if time.Now().After(end) {
			seen := ""
			for _, m := range more {
				seen += ", " + m()
			}
			panic(fmt.Errorf("waited %v for: %s%s", d, what, seen))
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// send sends n messages with the bodies prefix0, prefix1 ….
func send(p rocketmq.Producer, topic, tag, prefix string, n int) []*primitive.SendResult {
	var results []*primitive.SendResult
	for i := range n {
		m := primitive.NewMessage(topic, []byte(fmt.Sprint(prefix, i)))
		if tag != "" {
			m.WithTag(tag)
		}
		r, err := p.SendSync(ctx, m)
		must(err)
		check(r.Status == primitive.SendOK, "status %v", r.Status)
		results = append(results, r)
	}
	return results
}
