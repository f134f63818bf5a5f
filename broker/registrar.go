package broker

import (
	"context"
	"errors"
	"hash/crc32"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"skylark/broker/topic"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
)

// registrar keeps the broker known to all name servers (Java BrokerOuterAPI,
// BrokerController.registerBrokerAll): everything every registerNameServerPeriod, changed topics at once, in
// the caller's goroutine, so that a client that asks for the route after its answer finds it. A name server
// that cannot be reached is tried again every second (Java: at the next round) and does not hold up the others.
type registrar struct {
	b       *Broker
	log     *slog.Logger
	client  *client.Client
	servers []string
	period  time.Duration
	ctx     context.Context // ends when the registrar stops
	cancel  context.CancelFunc
	done    chan struct{}
	started bool // by Broker.Start, before anybody can call close
	menders sync.WaitGroup
	mu      sync.Mutex
	failing map[string]bool // said once, not every round
	mending map[string]int  // name servers that have to be told again → how many times that was found
}

// Bounds of registerNameServerPeriod (Java), and how long a changed topic may wait for name servers.
const (
	minRegisterPeriod   = 10 * time.Second
	maxRegisterPeriod   = 60 * time.Second
	topicChangedTimeout = 3 * time.Second
	unregisterTimeout   = 3 * time.Second
	// mendInterval is how often a name server is tried that was not reached, or whose connection was given up: it takes a
	// broker out of the routes when the connection ends that this one registered on.
	mendInterval = time.Second
)

func newRegistrar(b *Broker) *registrar {
	servers, err := config.SplitAddrs(b.cfg.broker.NamesrvAddr)
	if err != nil {
		b.log.Error("namesrvAddr cannot be used, the broker is not registered", "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &registrar{b: b, ctx: ctx, cancel: cancel, log: b.log, servers: servers,
		period:  min(max(millis(b.cfg.broker.RegisterNameServerPeriod), minRegisterPeriod), maxRegisterPeriod),
		done:    make(chan struct{}),
		failing: map[string]bool{}, mending: map[string]int{}}
	r.client = client.New(client.Options{Dialer: b.o.Dialer, LinkTimeout: client.ServerLinkTimeout, Log: b.log,
		Silent: r.mend})
	return r
}

func (r *registrar) start() {
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	go func() {
		defer close(r.done)
		t := r.b.clock.NewTicker(r.period)
		defer t.Stop()
		for {
			r.registerAll()
			select {
			case <-r.ctx.Done():
				return
			case <-t.C():
			}
		}
	}()
}

// registerAll sends the whole table to every name server.
func (r *registrar) registerAll() { r.registerAt(r.servers...) }

func (r *registrar) registerAt(servers ...string) {
	w := r.b.topics.Wrapper()
	r.b.withMappings(&w)
	ctx, cancel := context.WithTimeout(r.ctx, millis(r.b.cfg.broker.RegisterBrokerTimeoutMills))
	defer cancel()
	r.to(ctx, servers, &w, true)
}

// topicsChanged registers topics that were made or changed.
func (r *registrar) topicsChanged(changed []*topic.Topic) {
	w := body.TopicConfigAndMappingSerializeWrapper{DataVersion: r.b.topics.DataVersion(),
		TopicConfigTable: map[string]*body.TopicConfig{}}
	for _, t := range changed {
		c := t.Config
		w.TopicConfigTable[t.Name] = &c
	}
	r.b.withMappings(&w)
	ctx, cancel := context.WithTimeout(r.ctx, topicChangedTimeout)
	defer cancel()
	r.to(ctx, r.servers, &w, false)
}

func (r *registrar) to(ctx context.Context, servers []string, w *body.TopicConfigAndMappingSerializeWrapper, whole bool) {
	if len(servers) == 0 || r.b.replica.isolated.Load() {
		return
	}
	if perm := r.b.permission.Load(); perm != codec.PermRead|codec.PermWrite {
		restrict(w, perm)
	}
	data, err := body.Encode(&body.RegisterBrokerBody{FilterServerList: []string{},
		TopicConfigSerializeWrapper: *w})
	if err != nil {
		r.log.Error("topics cannot be encoded for registration", "error", err)
		return
	}
	var wg sync.WaitGroup
	for _, addr := range servers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r.result(addr, r.register(ctx, addr, data, whole))
		}()
	}
	wg.Wait()
}

// mend has a name server told everything, again and again until it was. It does not wait.
func (r *registrar) mend(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started || r.ctx.Err() != nil || !slices.Contains(r.servers, addr) {
		return
	}
	r.mending[addr]++
	if r.mending[addr] == 1 {
		r.menders.Go(func() { r.mender(addr) })
	}
}

func (r *registrar) mender(addr string) {
	t := r.b.clock.NewTicker(mendInterval)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C():
		}
		r.mu.Lock()
		n := r.mending[addr]
		r.mu.Unlock()
		if r.b.replica.isolated.Load() { // who takes it online again registers
			continue
		}
		if _, err := r.client.Conn(r.ctx, addr); err != nil {
			continue // before a table of many topics is encoded
		}
		r.registerAt(addr)
		r.mu.Lock()
		done := r.mending[addr] == n
		if done {
			delete(r.mending, addr)
		}
		r.mu.Unlock()
		if done {
			return
		}
	}
}

// restrict takes away what the broker's own permission does not allow (Java registerBrokerAll).
func restrict(w *body.TopicConfigAndMappingSerializeWrapper, perm int32) {
	for name, c := range w.TopicConfigTable {
		d := *c
		d.Perm &= perm | codec.PermInherit
		w.TopicConfigTable[name] = &d
	}
}

func (r *registrar) register(ctx context.Context, addr string, data []byte, whole bool) error {
	c := r.b.cfg.broker
	req := codec.NewRequest(codec.ReqRegisterBroker)
	heartbeat := int64(0)
	acting := c.EnableSlaveActingMaster
	h := codec.RegisterBrokerRequestHeader{BrokerName: c.BrokerName, BrokerAddr: r.b.advertised.Text,
		ClusterName: c.BrokerClusterName, HAServerAddr: r.b.advertisedHA.Text, BrokerID: r.b.brokerID(),
		EnableActingMaster: &acting, BodyCRC32: int32(crc32.ChecksumIEEE(data) & math.MaxInt32)}
	if acting {
		heartbeat = c.BrokerNotActiveTimeoutMillis
		h.HeartbeatTimeoutMillis = &heartbeat
	}
	codec.EncodeHeader(req, &h)
	req.Body = data
	answer, err := r.client.Do(ctx, addr, req)
	if errors.Is(err, client.ErrClosed) && ctx.Err() == nil { // the link was dead, and may be back
		answer, err = r.client.Do(ctx, addr, req)
	}
	if err != nil {
		return err
	}
	var rh codec.RegisterBrokerResponseHeader
	if err := codec.DecodeHeader(answer, &rh); err == nil {
		r.b.masterFound(rh.MasterAddr, rh.HAServerAddr)
	}
	if !whole || len(answer.Body) == 0 {
		return nil
	}
	var order body.KVTable
	if err := body.Decode(answer.Body, &order); err != nil {
		return err
	}
	return r.b.topics.UpdateOrderConfig(order.Table)
}

// result logs a name server that fails, once, and that it works again. One that did not refuse is tried again soon.
func (r *registrar) result(addr string, err error) {
	var refused *client.ResponseError
	if err != nil && !errors.As(err, &refused) {
		r.mend(addr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && !r.failing[addr]:
		r.failing[addr] = true
		r.log.Warn("not registered", "namesrv", addr, "error", err)
	case err == nil && r.failing[addr]:
		delete(r.failing, addr)
		r.log.Info("registered again", "namesrv", addr)
	}
}

// close takes the broker out of the routes.
func (r *registrar) close(ctx context.Context) {
	r.cancel()
	r.mu.Lock() // nobody begins to mend any more
	started := r.started
	r.mu.Unlock()
	if !started {
		return
	}
	r.menders.Wait()
	<-r.done
	ctx, cancel := context.WithTimeout(ctx, unregisterTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, addr := range r.servers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := r.b.cfg.broker
			req := codec.NewRequest(codec.ReqUnregisterBroker)
			codec.EncodeHeader(req, &codec.UnregisterBrokerRequestHeader{BrokerName: c.BrokerName,
				BrokerAddr: r.b.advertised.Text, ClusterName: c.BrokerClusterName, BrokerID: r.b.brokerID()})
			if _, err := r.client.Do(ctx, addr, req); err != nil {
				r.log.Warn("not unregistered", "namesrv", addr, "error", err)
			}
		}()
	}
	wg.Wait()
	_ = r.client.Close()
}

// routeTimeout bounds a route query.
const routeTimeout = 3 * time.Second

// errNoRoute: no name server knows the topic.
var errNoRoute = errors.New("broker: no route")

// route asks the name servers for a topic, one after the other.
func (r *registrar) route(topicName string) (*body.TopicRouteData, error) {
	ctx, cancel := context.WithTimeout(r.ctx, routeTimeout)
	defer cancel()
	err := errNoRoute
	for _, addr := range r.servers {
		req := codec.NewRequest(codec.ReqGetRouteInfoByTopic)
		codec.EncodeHeader(req, &codec.GetRouteInfoRequestHeader{Topic: topicName})
		var answer *codec.Command
		if answer, err = r.client.Do(ctx, addr, req); err != nil {
			continue
		}
		var route body.TopicRouteData
		if err = body.Decode(answer.Body, &route); err == nil {
			return &route, nil
		}
	}
	return nil, err
}
