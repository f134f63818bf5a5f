package broker

import (
	"time"

	"skylark/broker/coldctr"
)

// Rhythms of the broker's tasks, as in Java.
const (
	// housekeepingInterval is how often silent clients and expired locks are looked for.
	housekeepingInterval = 10 * time.Second
	// lockInterval is how often queue locks that others wait for are looked at, and written if they changed.
	lockInterval = time.Second
	// filterInterval is how often consumerFilter.json is written if it changed.
	filterInterval = 10 * time.Second
	// protectInterval is how often slow groups are looked for (disableConsumeIfConsumerReadSlowly).
	protectInterval = 3 * time.Minute
)

// startTasks begins what runs by the clock.
func (b *Broker) startTasks() {
	b.every(millis(b.cfg.broker.FlushConsumerOffsetInterval), func() {
		if err := b.offsets.Persist(); err != nil {
			b.log.Error("consumer offsets not written", "error", err)
		}
	})
	b.every(filterInterval, func() {
		if err := b.filters.Persist(); err != nil {
			b.log.Error("SQL92 subscriptions not written", "error", err)
		}
	})
	b.every(housekeepingInterval, b.housekeeping)
	b.every(lockInterval, b.stepLocks)
	if !b.cfg.broker.RealTimeNotifyConsumerChange {
		b.every(noticeInterval, b.sendNotices)
	}
	if b.cold.Enabled() {
		b.every(coldctr.Interval, b.cold.Step)
		b.every(coldHoldInterval, b.releaseCold)
	}
	if b.cfg.broker.DisableConsumeIfConsumerReadSlowly {
		b.every(protectInterval, b.protect)
	}
}

// every runs f in a goroutine of its own until the broker stops.
func (b *Broker) every(d time.Duration, f func()) {
	t := b.clock.NewTicker(max(d, time.Millisecond))
	b.tasks.Add(1)
	go func() {
		defer b.tasks.Done()
		defer t.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-t.C():
				f()
			}
		}
	}()
}

// housekeeping ends clients that have been silent too long (Java ClientHousekeepingService). They are
// forgotten here and not when their connection says so: one that is half dead may never do that.
func (b *Broker) housekeeping() {
	for _, c := range append(b.consumers.Expired(), b.producers.Expired()...) {
		c.Close(errSilent)
		b.forget(c)
	}
	b.consumers.ExpireCompensated(b.o.Config.Broker().SubscriptionExpiredTimeout)
	b.locks.Sweep()
	b.setSlowAfter()
}

// protect switches off groups whose next message is further back in the log than consumerFallbehindThreshold
// (Java BrokerController.protectBroker): reading it would take the page cache from everybody else.
func (b *Broker) protect() {
	limit := b.cfg.broker.ConsumerFallbehindThreshold
	for _, g := range b.groups.All() {
		if !g.Config.ConsumeEnable {
			continue
		}
		if topicName, queueID, behind := b.behindBytes(g.Name); behind > limit {
			b.log.Error("group reads too far back, its consumption is switched off", "group", g.Name, "topic",
				topicName, "queueId", queueID, "behindBytes", behind, "consumerFallbehindThreshold", limit)
			if err := b.groups.Disable(g.Name); err != nil {
				b.log.Error("group not switched off", "group", g.Name, "error", err)
			}
		}
	}
}

// behindBytes is how far back in the log the messages are that a group pulls next: the furthest of its
// queues.
func (b *Broker) behindBytes(groupName string) (topicName string, queueID int32, behind int64) {
	end := b.store.MaxPhyOffset()
	for _, name := range b.offsets.PulledTopics(groupName) {
		t := b.topics.Get(name)
		if t == nil {
			continue
		}
		for id := range t.Config.ReadQueueNums {
			at, ok := b.offsets.QueryPull(groupName, name, id)
			if !ok {
				continue
			}
			e := b.store.QueueEntries(name, id, max(at, b.store.MinOffset(name, id)), 1)
			if len(e) > 0 && int64(end-e[0].PhyOffset) > behind {
				topicName, queueID, behind = name, id, int64(end-e[0].PhyOffset)
			}
		}
	}
	return topicName, queueID, behind
}
