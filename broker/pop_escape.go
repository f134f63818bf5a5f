package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"skylark/broker/pop"
	"skylark/client"
	"skylark/codec"
)

// popPeers are the brokers that help out a slave that acts as master with its POP, and those whose messages are returned
// here for such a one (package pop, acting.go).
type popPeers struct {
	mu     sync.Mutex
	takers map[string]popTakers // by topic
	failed map[string]time.Time // by broker name
}

// popTakers are the other brokers that take records of the revive topic for a topic, by their names; queues are those of
// the revive topic.
type popTakers struct {
	at   time.Time
	list []otherMaster
}

const (
	// takersStay is how long routes of takers are believed in.
	takersStay = 3 * time.Second
	// maxTakers bounds the topics whose takers are kept.
	maxTakers = 1024
	// failedStay is how long a broker is not asked again that could not be.
	failedStay = 5 * time.Second
)

// sendRevive puts a record of the revive topic on another broker of its topic: the same one, and the same queue, for all
// records of a check point as long as the same brokers are there.
func (b *Broker) sendRevive(name pop.RecordName, m *codec.Message, without ...string) error {
	list, err := b.popTakers(name.Topic)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("broker: no other broker of the cluster takes messages of %s and serves POP", name.Topic)
	}
	to := &list[name.Hash%uint64(len(list))]
	err = b.sendTo(to.addr, int32(name.Hash>>32%uint64(to.queues)), m, without...)
	if err != nil {
		b.popPeers.mu.Lock()
		delete(b.popPeers.takers, name.Topic)
		b.popPeers.mu.Unlock()
	}
	return err
}

// popTakers are in the order of their names.
func (b *Broker) popTakers(topicName string) ([]otherMaster, error) {
	p := &b.popPeers
	now := b.clock.Now()
	p.mu.Lock()
	known, ok := p.takers[topicName]
	p.mu.Unlock()
	if ok && now.Sub(known.at) < takersStay && !now.Before(known.at) {
		return known.list, nil
	}
	route, err := b.registrar.route(topicName)
	if err != nil {
		return nil, fmt.Errorf("broker: route of %s: %w", topicName, err)
	}
	revive, err := b.registrar.route(b.pop.ReviveTopic())
	if err != nil {
		return nil, fmt.Errorf("broker: route of %s: %w", b.pop.ReviveTopic(), err)
	}
	queues := map[string]int32{}
	for _, q := range revive.QueueDatas {
		queues[q.BrokerName] = q.WriteQueueNums
	}
	list := slices.DeleteFunc(b.otherMasters(route), func(to otherMaster) bool {
		return queues[to.name] <= 0 || to.cluster != b.cfg.broker.BrokerClusterName
	})
	for i := range list {
		list[i].queues = queues[list[i].name]
	}
	slices.SortFunc(list, func(x, y otherMaster) int { return strings.Compare(x.name, y.name) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.takers == nil || len(p.takers) >= maxTakers {
		p.takers = map[string]popTakers{}
	}
	p.takers[topicName] = popTakers{now, list}
	return list, nil
}

// fetchPopped reads a message of another broker, whose check point was put here (Java EscapeBridge.getMessageFromRemote).
func (b *Broker) fetchPopped(brokerName, topicName string, queueID int32, at codec.QueueOffset) ([]byte, error) {
	p := &b.popPeers
	now := b.clock.Now()
	p.mu.Lock()
	failed, ok := p.failed[brokerName]
	p.mu.Unlock()
	if ok && now.Sub(failed) < failedStay && !now.Before(failed) {
		return nil, fmt.Errorf("broker: %s could not be asked a moment ago", brokerName)
	}
	raw, reached, err := b.pullPopped(brokerName, topicName, queueID, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.failed, brokerName); !reached {
		if p.failed == nil || len(p.failed) >= maxTakers {
			p.failed = map[string]time.Time{}
		}
		p.failed[brokerName] = b.clock.Now()
	}
	return raw, err
}

// pullPopped is fetchPopped; reached tells that a broker of that name answered.
func (b *Broker) pullPopped(brokerName, topicName string, queueID int32, at codec.QueueOffset) (raw []byte,
	reached bool, err error) {
	route, err := b.registrar.route(topicName)
	if err != nil {
		return nil, false, fmt.Errorf("broker: route of %s: %w", topicName, err)
	}
	addr := ""
	for _, d := range route.BrokerDatas {
		if d.BrokerName == brokerName && len(d.BrokerAddrs) > 0 {
			addr = d.BrokerAddrs[slices.Min(slices.Collect(maps.Keys(d.BrokerAddrs)))]
		}
	}
	if addr == "" {
		return nil, false, fmt.Errorf("broker: %s is in no route of %s", brokerName, topicName)
	}
	ctx, cancel := context.WithTimeout(b.registrar.ctx, escapeTimeout)
	defer cancel()
	r, err := b.registrar.client.Pull(ctx, addr, client.PullRequest{Group: codec.ReviveGroup, Topic: topicName,
		QueueID: queueID, QueueOffset: at, MaxMsgNums: 1})
	switch {
	case err != nil:
		return nil, false, err
	case r.Code == codec.RespPullOffsetMoved && r.NextBeginOffset > at:
		return nil, true, pop.ErrGone
	case r.Code != codec.RespSuccess || len(r.Body) == 0:
		return nil, true, fmt.Errorf("broker: %s does not give message %d of %s/%d: %s", brokerName, at, topicName, queueID,
			codec.ResponseCodeName(r.Code))
	}
	rec, err := codec.ParseRecord(r.Body, true)
	if err != nil {
		return nil, true, fmt.Errorf("broker: message of %s: %w", brokerName, err)
	}
	if rec.OffsetIn(topicName) != at {
		return nil, true, pop.ErrGone
	}
	return r.Body[:rec.TotalSize], true, nil
}
