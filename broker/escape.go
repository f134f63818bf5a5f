package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"skylark/broker/pop"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/store"
)

// escapeTimeout bounds a message to another broker.
const escapeTimeout = 3 * time.Second

// escapeStore is the store of the services that deliver delayed and timed messages in a group with acting masters (Java
// EscapeBridge): what a slave delivers as acting master goes to another broker of the topic, for its own log is a copy. With
// enableRemoteEscape off, or without such a broker, the message waits.
type escapeStore struct {
	*store.MessageStore
	b *Broker
}

// Append stores a message here, or on another broker. PutOK without EndOffset: it is elsewhere.
func (e *escapeStore) Append(m *codec.Message) store.PutResult {
	b := e.b
	if !b.isSlave() {
		return e.MessageStore.Append(m)
	}
	if !b.escapes() {
		return store.PutResult{Status: store.ServiceNotAvailable, Err: errEscapeOff}
	}
	if err := b.escape(m); err != nil {
		return store.PutResult{Status: store.ServiceNotAvailable, Err: err}
	}
	return store.PutResult{Status: store.PutOK, Count: 1}
}

// escape sends what has waited here to another broker.
func (b *Broker) escape(m *codec.Message) error {
	if m.Topic == b.pop.ReviveTopic() {
		if name, err := pop.NameOf(m.Body); err == nil {
			return b.sendRevive(name, m, reviveElsewhere...)
		}
	}
	return b.sendElsewhere(m, notElsewhere...)
}

var errEscapeOff = fmt.Errorf("broker: this slave delivers nothing (enableRemoteEscape)")

// hostFlags tell the length of the hosts in a record; the other broker sets its own.
const hostFlags = codec.SysFlagBornHostV6 | codec.SysFlagStoreHostV6

// notElsewhere are the properties that brought a message to where it waited: it must not wait again.
var notElsewhere = []string{codec.PropDelayTimeLevel, codec.PropRealTopic, codec.PropRealQueueID, codec.PropTimerDelaySec,
	codec.PropTimerDelayMs, codec.PropTimerDeliverMs, codec.PropTimerOutMs}

// reviveElsewhere are those of a record of POP: revive services tell by its time how far its queue has come.
var reviveElsewhere = slices.DeleteFunc(slices.Clone(notElsewhere), func(name string) bool {
	return name == codec.PropTimerDeliverMs
})

// escapeHalf gives a half message of the master to another broker, which asks its producers from then on. What it says of a
// delay counts when it is committed there.
func (b *Broker) escapeHalf(m *codec.Message) error { return b.sendElsewhere(m) }

// escapes tells that this slave acts as master and gives messages to other brokers.
func (b *Broker) escapes() bool {
	return b.isSlave() && b.replica.acting.Load() && b.cfg.broker.EnableRemoteEscape
}

// sendElsewhere sends a message, without some properties, to another broker that takes messages of its topic.
func (b *Broker) sendElsewhere(m *codec.Message, without ...string) error {
	route, err := b.registrar.route(m.Topic)
	if err != nil {
		return fmt.Errorf("broker: route of %s: %w", m.Topic, err)
	}
	targets := slices.DeleteFunc(b.otherMasters(route), func(to otherMaster) bool { return to.queues <= 0 })
	if len(targets) == 0 {
		return fmt.Errorf("broker: no other broker takes messages of %s", m.Topic)
	}
	to := targets[rand.IntN(len(targets))]
	return b.sendTo(to.addr, rand.Int32N(to.queues), m, without...)
}

// otherMaster is another broker that takes messages of a topic.
type otherMaster struct {
	name, cluster, addr string
	queues              int32
}

// otherMasters are those in the route of a topic.
func (b *Broker) otherMasters(route *body.TopicRouteData) (list []otherMaster) {
	for _, q := range route.QueueDatas {
		if q.Perm&codec.PermWrite == 0 || q.BrokerName == b.cfg.broker.BrokerName {
			continue
		}
		for _, d := range route.BrokerDatas {
			if addr := d.MasterAddr(); d.BrokerName == q.BrokerName && addr != "" {
				list = append(list, otherMaster{q.BrokerName, d.Cluster, addr, q.WriteQueueNums})
			}
		}
	}
	return list
}

// sendTo sends a message, without some properties, to a queue of another broker.
func (b *Broker) sendTo(addr string, queueID int32, m *codec.Message, without ...string) error {
	props := codec.RemoveProperty(nil, m.Properties, without...)
	h := codec.SendMessageHeader{ProducerGroup: []byte(codec.InnerProducerGroup), Topic: []byte(m.Topic),
		QueueID: queueID, SysFlag: m.SysFlag &^ hostFlags, BornTimestamp: m.BornTimestamp, Flag: m.Flag,
		ReconsumeTimes: m.ReconsumeTimes, Properties: codec.Field{Value: props}}
	ctx, cancel := context.WithTimeout(b.registrar.ctx, escapeTimeout)
	defer cancel()
	_, err := b.registrar.client.Send(ctx, addr, &h, m.Body)
	return err
}
