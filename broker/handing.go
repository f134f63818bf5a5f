package broker

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"skylark/broker/forward"
	"skylark/broker/handover"
	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/reactor"
	"skylark/reactor/rpc"
)

// handing is the broker's part in giving its role to another one.
type handing struct {
	gate    *forward.Gate
	service *handover.Service
	// under are the turns with sends that have passed the gate and have not put them yet, by connection: spread, so that no
	// two loops write the same memory as a rule.
	under [16]struct {
		n atomic.Int64
		_ [7]int64 // the rest of the cache line
	}
	unfit chan struct{} // messages cannot be stored: the disk is full, or fails
}

// unfitWait is how long the replica of a master that stores nothing may take to catch up.
const unfitWait = 3 * time.Second

// sends counts the turns with sends of a connection, and those that share its place.
func (h *handing) sends(c reactor.Conn) *atomic.Int64 { return &h.under[c.ID()%uint64(len(h.under))].n }

// quiet waits until every send that had passed the gate before it was closed is put, or ctx ends.
func (b *Broker) quiet(ctx context.Context) {
	t := b.clock.NewTicker(time.Millisecond)
	defer t.Stop()
	for still := 0; still < 2; { // between loop and pool a turn is in neither for a moment
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		}
		n := int64(b.pools.send.Size())
		for i := range b.handing.under {
			n += b.handing.under[i].n.Load()
		}
		if still++; n > 0 {
			still = 0
		}
	}
}

// makeHanding wires hand-over and forwarding to the rest.
func (b *Broker) makeHanding() {
	c := b.cfg.broker
	b.handing.unfit = make(chan struct{}, 1)
	b.handing.gate = forward.New(forward.Options{Clock: b.clock, Log: b.o.Log.With("part", "forward"),
		Client: client.New(client.Options{Dialer: b.o.Dialer, LinkTimeout: client.ServerLinkTimeout, Log: b.log}),
		Serves: b.serves,
		Master: func() bool { return !b.isSlave() }, Serve: b.server.Serve, Begun: b.inflight.add, Done: b.inflight.done})
	b.handing.service = handover.New(handover.Options{Clock: b.clock, Log: b.o.Log.With("part", "handover"),
		Client: b.registrar.client, Gate: b.handing.gate, Cluster: c.BrokerClusterName, BrokerName: c.BrokerName,
		Self: b.AdvertisedAddr, Controllers: b.controllerAddrs, Master: func() bool { return !b.isSlave() },
		Quiet: b.quiet, Pause: b.store.PausePuts, Resume: b.store.ResumePuts, MaxPhyOffset: b.store.MaxPhyOffset,
		ForwardTime: func() time.Duration { return millis(b.o.Config.Own().HandoverForwardMillis) }})
}

// handingInfo tells whether clients still come by the address of a broker that gave its role away.
func (b *Broker) handingInfo(info map[string]string) {
	st := b.handing.gate.Stats()
	info["handoverForwardingTo"] = b.handing.gate.Target()
	info["handoverHeldTotal"] = strconv.FormatInt(st.Held, 10)
	info["handoverForwardedTotal"] = strconv.FormatInt(st.Forwarded, 10)
	info["handoverRefusedTotal"] = strconv.FormatInt(st.Refused, 10)
}

// passOn holds what clients ask while this master becomes a slave; the function passes that, and what comes later, on to the
// new master, as after a hand-over. "": there is none yet, and clients are refused.
func (b *Broker) passOn(to string) func() {
	gate := b.handing.gate
	if gate.On() { // it is a hand-over
		return func() {}
	}
	gate.Hold()
	return func() {
		if to == "" || !b.isSlave() {
			gate.Release()
			return
		}
		gate.Forward(to, millis(b.o.Config.Own().HandoverForwardMillis))
	}
}

// diskFilling is told by the store of a disk that fills, and when there is room again.
func (b *Broker) diskFilling(path string, used float64, refuse bool) {
	b.log.Error("disk is filling", "path", path, "usedRatio", used, "writesRefused", refuse)
	if refuse {
		b.cannotStore()
	}
}

// writeFailed is told by the store what it could not write.
func (b *Broker) writeFailed(err error) {
	b.log.Error("store cannot write", "error", err)
	b.cannotStore()
}

// cannotStore: the store refuses messages, since the disk is full or fails. It does not wait.
func (b *Broker) cannotStore() {
	select {
	case b.handing.unfit <- struct{}{}:
	default: // that is known
	}
}

// resignUnfit gives the role of a master that cannot store messages to a replica, once each time that this begins. Should
// none of the replicas have room, the last one keeps the role.
func (b *Broker) resignUnfit() {
	defer b.tasks.Done()
	for {
		select {
		case <-b.stop:
			return
		case <-b.handing.unfit:
		}
		if b.isSlave() {
			continue
		}
		answer, err := b.handing.service.HandOver(&codec.HandoverRequestHeader{To: -1, WaitMillis: unfitWait.Milliseconds()})
		if err != nil {
			b.log.Error("messages cannot be stored here, and no replica takes the role of master", "error", err)
			continue
		}
		b.log.Warn("messages cannot be stored here: a replica is master now", "masterId", answer.MasterBrokerID, "masterAddr",
			answer.MasterAddress)
	}
}

// controllerAddrs are the controllers of a broker in controller mode.
func (b *Broker) controllerAddrs() (addrs []string) {
	c := b.cfg.broker
	if !c.EnableControllerMode {
		return nil
	}
	for addr := range strings.SplitSeq(c.ControllerAddr, ";") {
		if addr = strings.TrimSpace(addr); addr != "" {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// serves asks a broker whether it is a master now.
func (b *Broker) serves(ctx context.Context, addr string) bool {
	answer, err := b.registrar.client.Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerHAStatus))
	var info body.HARuntimeInfo
	return err == nil && body.Decode(answer.Body, &info) == nil && info.Master
}

// HandoverProcessor serves SKYLARK_HANDOVER (31002), which Java does not have: a master gives its role to a replica (package
// handover), and a replica that gets it copies its master's tables at once.
type HandoverProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *HandoverProcessor) Process(r *rpc.Request) {
	b := p.b
	var h codec.HandoverRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	if h.Prepare {
		ctx, cancel := context.WithTimeout(b.registrar.ctx, routeTimeout)
		defer cancel()
		if !b.isSlave() || !b.syncTables(ctx, syncAll) {
			r.ReplyError(codec.RespSystemError, "this broker is no slave, or its master's tables cannot be copied: see its log")
			return
		}
		r.OK()
		return
	}
	answer, err := b.handing.service.HandOver(&h)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.ReplyHeader(answer)
}
