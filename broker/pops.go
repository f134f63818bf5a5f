package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"path"

	"skylark/broker/pop"
	"skylark/codec"
	"skylark/store"
)

// maxOpenPops bounds the check points whose messages are invisible: about 300 MiB.
const maxOpenPops = 1 << 20

// makePop wires POP to the rest.
func (b *Broker) makePop(configDir string) error {
	bc := b.cfg.broker
	b.pop = pop.New(pop.Options{Store: b.store, Offsets: b.offsets, FS: b.o.FS,
		OrderFile:    path.Join(configDir, "consumerOrderInfo.json"),
		ProgressFile: path.Join(configDir, "popProgress"), OffsetFile: path.Join(configDir, "consumerOffset.json"),
		Cluster:    bc.BrokerClusterName,
		BrokerName: bc.BrokerName, Clock: b.clock, Log: b.o.Log.With("part", "pop"), ReviveQueues: bc.ReviveQueueNum,
		StoreHost: func() netip.AddrPort { return b.storeHost }, Settings: b.popSettings, Timed: b.rewriteTimed,
		TimerIdle: b.timerIdle, Follower: b.isSlave, Acting: b.escapes,
		Elsewhere:   func(name pop.RecordName, m *codec.Message) error { return b.sendRevive(name, m) },
		Fetch:       b.fetchPopped,
		TopicQueues: b.readableQueues, RetryLimit: b.retryLimit, MakeTopic: b.makePopTopic,
		Stored: b.popStored})
	b.popNotices = pop.NewPolling(b.clock, b.popSettings)
	b.modes = pop.NewModeManager(b.o.FS, configDir, b.log)
	return errors.Join(b.load("orderly pops", b.pop.Load), b.load("message request modes", b.modes.Load))
}

func (b *Broker) popSettings() pop.Settings {
	c := b.o.Config.Broker()
	s := pop.Settings{RetryV2: c.EnableRetryTopicV2, ReadRetryV1: c.RetrieveMessageFromPopRetryTopicV1,
		FromRetryPercent: c.PopFromRetryProbability, InitByMemory: c.InitPopOffsetByCheckMsgInMem,
		ReturnRetryTopic: c.PopResponseReturnActualRetryTopic, Buffer: c.EnablePopBufferMerge,
		BatchAck: c.EnablePopBatchAck, BufferStay: millis(int64(c.PopCkStayBufferTime)),
		BufferHead: millis(int64(c.PopCkStayBufferTimeOut)), BufferMax: c.PopCkMaxBufferSize,
		OffsetQueueMax: c.PopCkOffsetMaxQueueSize, PollingSize: c.PopPollingSize, MaxPolling: int(c.MaxPopPollingSize),
		MaxOpen: maxOpenPops, ReviveInterval: millis(c.ReviveInterval), SkipRePutMax: c.SkipWhenCKRePutReachMaxTimes,
		Log: c.EnablePopLog}
	if c.EnablePopMessageThreshold {
		s.InflightThreshold = c.PopInflightMessageThreshold
	}
	return s
}

// flushPops makes durable what POP has put: the group and revive offsets that are written next pass over it.
func (b *Broker) flushPops() error {
	if b.pop == nil {
		return nil
	}
	end := b.pop.LastPut()
	if b.store.FlushedWhere() >= end {
		return nil
	}
	if err := b.store.Flush(); err != nil {
		return fmt.Errorf("broker: offsets not written, the log cannot be flushed: %w", err)
	}
	if at := b.store.FlushedWhere(); at < end { // in a write buffer of the transient store pool still
		return fmt.Errorf("broker: offsets not written yet, the log is flushed up to %d only, not %d", at, end)
	}
	return nil
}

// timerIdle tells that everything due is out of the timer and in its queue.
func (b *Broker) timerIdle() bool {
	if b.svc().timer == nil {
		return false
	}
	st := b.svc().timer.Status()
	return st.ReadBehindMillis == 0 && st.OffsetBehind == 0 && b.store.DispatchBehindBytes() == 0
}

func (b *Broker) readableQueues(topicName string) int32 {
	if t := b.topics.Get(topicName); t != nil {
		return t.Config.ReadQueueNums
	}
	return 0
}

func (b *Broker) retryLimit(groupName string) (int32, bool) {
	if g := b.groups.Get(groupName); g != nil {
		return g.Config.RetryMaxTimes, true
	}
	return 0, false
}

// makePopTopic makes the topic that messages return to.
func (b *Broker) makePopTopic(name string) error {
	_, err := b.topics.CreatePopRetry(name)
	return err
}

// popStored counts what POP puts.
func (b *Broker) popStored(m *codec.Message, put *store.PutResult) {
	if t := b.topics.Get(m.Topic); t != nil {
		t.Put.Count(m.QueueID, put.Count, int(put.EndOffset-put.PhyOffset), 0)
		b.stats.CountPut(put.Count, t.System)
	}
}

// startPop begins to return messages; without the timer there is no POP.
func (b *Broker) startPop() {
	if b.svc().timer == nil {
		return
	}
	if s := b.replica.switching; s != nil {
		if s.ordered {
			return // it sees by itself that the role is another one
		}
		s.ordered = true
	}
	b.pop.Start(b.replica.client != nil || b.replica.sync.Load() != nil)
	b.every(millis(b.cfg.broker.FlushConsumerOffsetInterval), func() {
		if err := b.pop.SaveOrder(); err != nil {
			b.log.Error("orderly pops not written", "error", err)
		}
	})
}

// popArrived wakes pops that wait for a message.
func (b *Broker) popArrived(a *store.Arrival) {
	force := a.TagsUnknown || int64(a.QueueOffset)%max(b.cfg.broker.PopLongPollingForceNotifyInterval, 1) == 0
	b.pop.Polling().Arrived(a.Topic, a.QueueID, force, a.TagsCode, a.Properties)
	b.popNotices.Arrived(a.Topic, a.QueueID, true, a.TagsCode, a.Properties)
}

// closePolling answers the pops that wait.
func (b *Broker) closePolling() {
	b.pop.Polling().Close()
	b.popNotices.Close()
}

// Pop is what the broker's groups pop.
func (b *Broker) Pop() *pop.Service { return b.pop }

// popError is code and remark of a receipt that was refused, or of an ack that could not be stored.
func popError(err error) (code int, remark string) {
	switch {
	case errors.Is(err, pop.ErrGarbled), errors.Is(err, pop.ErrMismatch):
		code = codec.RespMessageIllegal
	case errors.Is(err, pop.ErrLate), errors.Is(err, pop.ErrSettled):
		code = codec.RespNoMessage
	case errors.Is(err, pop.ErrFull):
		code = codec.RespSystemBusy
	default:
		code = codec.RespSystemError
	}
	return code, fmt.Sprint(err)
}
