package broker

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"skylark/codec"
	"skylark/codec/fastjson"
	"skylark/reactor/rpc"
	"skylark/store"
	"skylark/store/timer"
)

// TimerProcessor serves GET_TIMER_CHECK_POINT (60) and GET_TIMER_METRICS (61): Java AdminBrokerProcessor. Slaves ask for
// both. Without timerWheelEnable they are answered with 1, as there.
type TimerProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *TimerProcessor) Process(r *rpc.Request) {
	if p.b.svc().timer == nil {
		r.ReplyError(codec.RespSystemError, "The timer wheel is not enabled (timerWheelEnable)")
		return
	}
	if r.Cmd.Code == codec.ReqGetTimerCheckPoint {
		cp := p.b.svc().timer.Checkpoint()
		r.ReplyBody(cp.Encode())
		return
	}
	m := p.b.svc().timer.Metrics()
	data, err := fastjson.Marshal(&m)
	if err != nil {
		r.ReplyError(codec.RespSystemError, err.Error())
		return
	}
	r.ReplyBody(data)
}

// Timer is the service that keeps messages until their time, nil without timerWheelEnable.
func (b *Broker) Timer() *timer.TimerMessageStore { return b.svc().timer }

// newTimer opens the timer files, if timerWheelEnable says so.
func (b *Broker) newTimer() (*timer.TimerMessageStore, error) {
	c := b.cfg.store
	if !c.TimerWheelEnable {
		return nil, nil
	}
	t := timer.New(timer.Options{RootDir: c.StorePathRootDir, FS: b.o.FS, Store: &escapeStore{b.store, b},
		MappedFileSizeCommitLog: int64(c.MappedFileSizeCommitLog), MappedFileSizeTimerLog: int64(c.MappedFileSizeTimerLog),
		Precision: millis(c.TimerPrecisionMs), RollWindowSlot: c.TimerRollWindowSlot,
		FlushInterval: millis(c.TimerFlushIntervalMs), Warm: c.TimerWarmEnable, Clock: b.clock,
		Log: b.o.Log.With("part", "timer"), Delivered: b.timed,
		Live: func() timer.Live {
			return timer.Live{MaxDelay: time.Duration(c.TimerMaxDelaySec) * time.Second,
				CongestNumEachSlot: c.TimerCongestNumEachSlot, StopEnqueue: c.TimerStopEnqueue || b.specialPaused(),
				StopDequeue: c.TimerStopDequeue || b.specialPaused(), SkipUnknownError: c.TimerSkipUnknownError,
				ProgressLogInterval: millis(c.TimerProgressLogIntervalMs)}
		}})
	return t, t.Load()
}

// timed counts a message that came out of the timer for the topic it went to (Java TimerMessageStore.doPut).
func (b *Broker) timed(d timer.Delivery) {
	if t := b.topics.Get(d.Topic); t != nil {
		t.Put.Count(d.QueueID, 1, d.SizeBytes, 0)
		b.stats.CountPut(1, t.System)
	}
}

// rewriteTimed sends a message that asks for a delivery time (timer.Asks) by way of the timer topic (Java
// HookUtils.transformTimerMessage). A status other than PutOK refuses it; the error says why.
func (b *Broker) rewriteTimed(m *codec.Message) (store.PutStatus, error) {
	if b.svc().timer == nil {
		return store.WheelTimerNotEnable, fmt.Errorf("timerWheelEnable is false")
	}
	return b.svc().timer.Rewrite(m)
}

// specialTimed is SendMessageProcessor.special for messages with a delivery time. false: answered.
func (p *SendMessageProcessor) specialTimed(r *rpc.Request, st *sendTurn) bool {
	m := &st.msg
	realTopic := m.Topic
	if status, err := p.b.rewriteTimed(m); status != store.PutOK {
		code, remark := putError(&store.PutResult{Status: status, Err: err})
		p.refuse(r, code, remark)
		return false
	}
	if m.Topic != codec.TimerTopic {
		return true // its time has come
	}
	st.props = m.Properties
	st.resp.TransactionID, _ = codec.LookupProperty(m.Properties, codec.PropUniqKey)
	if out, ok := codec.LookupProperty(m.Properties, codec.PropTimerOutMs); ok && !codec.IsRetryTopic(realTopic) {
		st.resp.RecallHandle = recallHandle(realTopic, p.b.cfg.broker.BrokerName, out, st.resp.TransactionID)
	}
	return true
}

// recallHandle names a waiting message to its producer (Java RecallMessageHandle.HandleV1): the time is one millisecond
// into its slot, so that the recall gets into the same one.
func recallHandle(topicName, brokerName string, out, uniqKey []byte) []byte {
	at, _ := strconv.ParseInt(string(out), 10, 64)
	var buf [512]byte // enough for most; text grows out of it else
	text := append(buf[:0], "v1 "...)
	text = append(append(text, topicName...), ' ')
	text = append(append(text, brokerName...), ' ')
	text = append(strconv.AppendInt(text, at+1, 10), ' ')
	text = append(text, uniqKey...)
	return base64.URLEncoding.AppendEncode(nil, text)
}

// timerInfo is the timer's part of GET_BROKER_RUNTIME_INFO.
func (b *Broker) timerInfo(into map[string]string) {
	if b.svc().timer != nil {
		b.svc().timer.RuntimeInfo(into)
		return
	}
	for _, k := range []string{"timerReadBehind", "timerOffsetBehind", "timerCongestNum"} {
		into[k] = "0"
	}
	into["timerEnqueueTps"], into["timerDequeueTps"] = "0.0", "0.0"
}
