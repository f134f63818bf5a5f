package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// routeWait is how long a topic that was just made may take to be known to a name server.
const routeWait = 10 * time.Second

// routePause is between two looks for it.
const routePause = 100 * time.Millisecond

// target is what a run talks to.
type target struct {
	c       *client.Client
	ns      *client.NameServers // nil with -b
	o       *Options
	queues  []client.Queue // to write to, or to read from
	brokers []string       // addresses
	version string         // of the first broker, e.g. V5_3_3
}

// dial connects a connection of the load.
func dial(ctx context.Context, o *Options, addr string) (net.Conn, error) {
	var d client.Dialer = &net.Dialer{}
	if o.Dialer != nil {
		d = o.Dialer
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bench: connect to %s: %w", addr, err)
	}
	return nc, nil
}

// connect finds the topic's queues, of which it makes the topic if it is unknown.
func connect(ctx context.Context, o *Options) (*target, error) {
	t := &target{o: o, c: client.New(client.Options{Dialer: o.Dialer, CallTimeout: o.Timeout, ConnectTimeout: o.Timeout,
		Serialize: o.Serialize})}
	find := t.fromBroker
	if o.Broker == "" {
		t.ns = client.NewNameServers(t.c, o.Namesrv)
		find = t.fromRoute
	}
	err := find(ctx)
	if err == nil && len(t.queues) == 0 {
		err = fmt.Errorf("bench: topic %s has no queue that can be used: look at its permission and at the brokers", o.Topic)
	}
	if err == nil {
		t.version, err = t.askVersion(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *target) close() error { return t.c.Close() }

// usable are the queues of a route for this run.
func (t *target) usable(r *body.TopicRouteData) []client.Queue {
	if t.o.makes() {
		return client.WriteQueues(r)
	}
	return client.ReadQueues(r)
}

func (t *target) fromRoute(ctx context.Context) error {
	r, err := t.ns.Route(ctx, t.topic())
	if err == nil && t.o.Topics > 1 || client.IsResponse(err, codec.RespTopicNotExist) && t.o.makes() {
		r, err = t.createEverywhere(ctx)
	}
	if err != nil {
		return fmt.Errorf("bench: route of topic %s: %w", t.o.Topic, err)
	}
	t.queues = t.usable(r)
	for _, q := range t.queues {
		if !slices.Contains(t.brokers, q.Addr) {
			t.brokers = append(t.brokers, q.Addr)
		}
	}
	return nil
}

// createEverywhere makes the topic at all masters and waits until the name server knows it.
func (t *target) createEverywhere(ctx context.Context) (*body.TopicRouteData, error) {
	info, err := t.ns.ClusterInfo(ctx)
	if err != nil {
		return nil, err
	}
	masters := client.Masters(info)
	if len(masters) == 0 {
		return nil, errors.New("the name server knows no master")
	}
	for name, addr := range masters {
		if err := t.create(ctx, addr); err != nil {
			return nil, fmt.Errorf("at broker %s: %w", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, routeWait)
	defer cancel()
	for {
		r, err := t.ns.Route(ctx, t.topic())
		if err == nil && len(t.usable(r)) > 0 {
			return r, nil
		}
		if err != nil && !client.IsResponse(err, codec.RespTopicNotExist) || !wait(ctx, routePause) {
			return nil, fmt.Errorf("the topic was made, but no route to it appears: %w", errors.Join(err, ctx.Err()))
		}
	}
}

func (t *target) create(ctx context.Context, addr string) error {
	c := &body.TopicConfig{}
	c.SetDefaults()
	c.TopicName, c.ReadQueueNums, c.WriteQueueNums = t.topic(), int32(t.o.Queues), int32(t.o.Queues)
	if t.o.Topics > 1 {
		return t.createTopics(ctx, addr, c)
	}
	return t.c.CreateTopic(ctx, addr, c)
}

// fromBroker asks the one broker that was named.
func (t *target) fromBroker(ctx context.Context) error {
	addr := t.o.Broker
	c, err := t.c.TopicConfig(ctx, addr, t.topic())
	if err == nil && t.o.Topics > 1 || client.IsResponse(err, codec.RespTopicNotExist) && t.o.makes() {
		if err = t.create(ctx, addr); err == nil {
			c = &body.TopicConfig{Perm: codec.PermRead | codec.PermWrite, ReadQueueNums: int32(t.o.Queues),
				WriteQueueNums: int32(t.o.Queues)}
		}
	}
	if err != nil {
		return fmt.Errorf("bench: topic %s at %s: %w", t.o.Topic, addr, err)
	}
	t.queues = t.usable(&body.TopicRouteData{
		QueueDatas:  []*body.QueueData{{Perm: c.Perm, ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums}},
		BrokerDatas: []*body.BrokerData{{BrokerAddrs: map[int64]string{codec.MasterID: addr}}},
	})
	t.brokers = []string{addr}
	return nil
}

// askVersion is the broker's own word, or what the number in its answers means.
func (t *target) askVersion(ctx context.Context) (string, error) {
	answer, err := t.c.Call(ctx, t.brokers[0], codec.NewRequest(codec.ReqGetBrokerRuntimeInfo))
	if err != nil {
		return "", fmt.Errorf("bench: version of %s: %w", t.brokers[0], err)
	}
	var table body.KVTable
	if answer.Code == codec.RespSuccess && body.Decode(answer.Body, &table) == nil {
		if v := table.Table["brokerVersionDesc"]; v != "" {
			return v, nil
		}
	}
	return codec.VersionName(answer.Version), nil
}

// stored is the sum of the queues' lengths, of all that was ever sent to them.
func (t *target) stored(ctx context.Context) (n int64, err error) {
	for _, q := range t.queues {
		for _, topic := range t.o.topicNames() {
			v, err := t.c.MaxOffset(ctx, q.Addr, topic, q.ID)
			if err != nil {
				return 0, fmt.Errorf("bench: length of queue %d of %s at %s: %w", q.ID, topic, q.Addr, err)
			}
			n += int64(v)
		}
	}
	return n, nil
}
