package broker

import (
	"errors"
	"net/netip"
	"path"

	"skylark/broker/schedule"
	"skylark/broker/transaction"
	"skylark/store/timer"
)

// services are the special services of a master that remember where they are in its log: delayed messages, transactions,
// timed messages. With another role the log may be another one, so they are made anew then (controller mode); they are
// loaded, and started on a master.
type services struct {
	schedule     *schedule.ScheduleMessageService
	transactions *transaction.TransactionalMessageService
	timer        *timer.TimerMessageStore // nil without timerWheelEnable
}

// svc are the services in force. One atomic load.
func (b *Broker) svc() *services { return b.services.Load() }

// makeServices makes and loads the services. The store is open.
func (b *Broker) makeServices() (s *services, err error) {
	s = &services{}
	if s.schedule, err = b.makeSchedule(); err != nil {
		return nil, err
	}
	s.transactions = transaction.New(b.transactionOptions(s.schedule))
	if err := b.load("transaction counts", s.transactions.Load); err != nil {
		return nil, err
	}
	if s.timer, err = b.newTimer(); err != nil {
		return nil, err
	}
	return s, nil
}

// makeSchedule makes and loads the service of delayed messages.
func (b *Broker) makeSchedule() (*schedule.ScheduleMessageService, error) {
	sc := b.cfg.store
	levels, err := schedule.ParseLevels(sc.MessageDelayLevel)
	if err != nil {
		return nil, err
	}
	s := schedule.New(schedule.Options{Levels: levels, Store: &escapeStore{b.store, b}, FS: b.o.FS,
		File:          path.Join(sc.StorePathRootDir, "config", "delayOffset.json"),
		FlushInterval: millis(sc.FlushDelayOffsetInterval), Clock: b.clock, Log: b.log, Delivered: b.delivered,
		Paused: b.specialPaused})
	return s, b.load("delay offsets", s.Load)
}

func (b *Broker) transactionOptions(sched *schedule.ScheduleMessageService) transaction.Options {
	sc := b.cfg.store
	return transaction.Options{Store: b.store, Offsets: b.offsets, LogFileSize: int64(sc.MappedFileSizeCommitLog), FS: b.o.FS,
		File:       path.Join(sc.StorePathRootDir, "config", "transactionMetrics"),
		BrokerName: b.cfg.broker.BrokerName, StoreHost: func() netip.AddrPort { return b.storeHost },
		Settings: b.transactionSettings, Producers: b.liveProducers, Ask: b.askProducer,
		Delay: sched.Rewrite, Timed: b.rewriteTimed, GiveUpTopic: b.makeGiveUpTopic, Stored: b.transactionStored,
		Clock: b.clock, Log: b.o.Log.With("part", "transaction")}
}

// close ends the goroutines.
func (s *services) close() {
	s.transactions.Close()
	s.schedule.Close()
	if s.timer != nil {
		s.timer.Close()
	}
}

// saveTimer writes the timer files once the store has flushed what they skip, and closes them.
func (s *services) saveTimer() error {
	if s.timer == nil {
		return nil
	}
	return s.timer.Save()
}

// renewServices puts services in force that know nothing of the log of before: the master is another broker, and says how
// far it is. The old ones have ended when it returns.
func (b *Broker) renewServices() error {
	old := b.svc()
	old.close()
	if err := old.saveTimer(); err != nil {
		b.log.Warn("timer files are left behind", "error", err) // its log is given up below
	}
	s, err := b.makeServices()
	if err != nil {
		return err
	}
	if s.timer != nil {
		if err := s.timer.Follow(s.timer.Checkpoint()); err != nil {
			return err
		}
	}
	b.services.Store(s)
	return nil
}

// startServices starts the services of a broker that has just become master. What was loaded on the slave is loaded once
// more: requests look at services that are started already, and at these half messages are entered meanwhile.
func (b *Broker) startServices() (err error) {
	old := b.svc()
	s := &services{transactions: old.transactions}
	if s.schedule, err = b.makeSchedule(); err != nil {
		return err
	}
	s.schedule.Start()
	timerErr := old.saveTimer()
	if s.timer, err = b.newTimer(); err == nil && s.timer != nil {
		err = s.timer.Start()
	}
	if s.timer == nil {
		s.timer = old.timer
	}
	b.services.Store(s)
	for lv := range s.schedule.Levels().Max() { // what arrived meanwhile
		s.schedule.Arrived(int32(lv))
	}
	if s.timer != nil {
		s.timer.Arrived()
	}
	s.transactions.Start()
	return errors.Join(timerErr, err)
}
