package broker

import (
	"time"

	"skylark/reactor"
)

// housekeepingInterval is how often silent clients and expired locks are looked for (Java: 10 s).
const housekeepingInterval = 10 * time.Second

// startTasks begins what runs by the clock.
func (b *Broker) startTasks() {
	b.every(millis(b.cfg.broker.FlushConsumerOffsetInterval), func() {
		if err := b.offsets.Persist(); err != nil {
			b.log.Error("consumer offsets not written", "error", err)
		}
	})
	b.every(housekeepingInterval, b.housekeeping)
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

// housekeeping ends clients that have been silent too long (Java ClientHousekeepingService).
func (b *Broker) housekeeping() {
	for _, c := range append(b.consumers.Expired(), b.producers.Expired()...) {
		c.Close(errSilent)
	}
	b.locks.Sweep()
}

// connClosed forgets all that hung on a connection.
func (b *Broker) connClosed(c reactor.Conn, _ error) {
	b.hold.Drop(c.ID())
	b.producers.ConnClosed(c)
	b.consumers.ConnClosed(c, b.wantsNotice)
}
