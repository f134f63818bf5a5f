package broker

import (
	"fmt"
	"path"
	"strconv"

	"skylark/broker/slave"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/goruntime"
	"skylark/reactor/rpc"
)

// StatsProcessor serves figures: GET_CONSUME_STATS (208), VIEW_BROKER_STATS_DATA (315),
// GET_BROKER_RUNTIME_INFO (28), GET_ALL_CONSUMER_OFFSET (43), GET_ALL_DELAY_OFFSET (45): Java
// AdminBrokerProcessor.
type StatsProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *StatsProcessor) Process(r *rpc.Request) {
	switch r.Cmd.Code {
	case codec.ReqGetConsumeStats:
		p.consumeStats(r)
	case codec.ReqViewBrokerStatsData:
		p.brokerStats(r)
	case codec.ReqGetBrokerRuntimeInfo:
		p.b.replyJSON(r, &body.KVTable{Table: p.b.RuntimeInfo()})
	case codec.ReqGetAllConsumerOffset:
		p.allOffsets(r)
	case codec.ReqGetAllDelayOffset:
		data, err := p.b.svc().schedule.JSON()
		if err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		r.ReplyBody(data)
	}
}

// allOffsets answers with all consumer offsets. Who says which it has (slave.FieldMark) gets an empty body if they are the
// same still, and a new mark.
func (p *StatsProcessor) allOffsets(r *rpc.Request) {
	has := r.Cmd.Get(slave.FieldMark)
	if has == "" {
		p.b.replyJSON(r, p.b.offsets.Wrapper())
		return
	}
	answer := codec.NewResponse(r.Cmd, codec.RespSuccess, "")
	mark := p.b.offsets.Mark() // before the table is read
	if has != mark {
		data, err := body.Encode(p.b.offsets.Wrapper())
		if err != nil {
			r.ReplyError(codec.RespSystemError, err.Error())
			return
		}
		answer.Body = data
	}
	answer.Set(slave.FieldMark, mark)
	r.Reply(answer)
}

// consumeStats tells how far a group is behind, in the topics it has offsets in and, if it is online,
// subscribes.
func (p *StatsProcessor) consumeStats(r *rpc.Request) {
	var h codec.GetConsumeStatsRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	b := p.b
	topics := splitList(h.TopicList, ";")
	named := len(topics) > 0 // then the subscription does not matter
	if !named && h.Topic != "" {
		topics = []string{h.Topic}
	} else if !named {
		topics = b.offsets.TopicsOf(h.ConsumerGroup)
	}
	answer := &body.ConsumeStats{OffsetTable: map[body.MessageQueue]*body.OffsetWrapper{}}
	for _, name := range topics {
		t := b.topics.Get(name)
		if t == nil {
			continue
		}
		if !named && !b.groupAdmin.Subscribes(h.ConsumerGroup, name) {
			continue
		}
		b.groupAdmin.AddProgress(answer, h.ConsumerGroup, name, t.Config.ReadQueueNums)
	}
	b.replyJSON(r, answer)
}

func (p *StatsProcessor) brokerStats(r *rpc.Request) {
	var h codec.ViewBrokerStatsDataRequestHeader
	if !r.Decode(&h, codec.RespInvalidParameter) {
		return
	}
	v, ok := p.b.stats.View(h.StatsName, h.StatsKey)
	if !ok {
		r.ReplyError(codec.RespSystemError, fmt.Sprintf("The stats <%s> <%s> not exist", h.StatsName, h.StatsKey))
		return
	}
	p.b.replyJSON(r, &v)
}

// RuntimeInfo is the table of GET_BROKER_RUNTIME_INFO (spec store-behaviour.md §9).
func (b *Broker) RuntimeInfo() map[string]string {
	info := b.store.RuntimeInfo()
	info["getTransferedTps"] = info["getTransferredTps"] // the spelling of mqadmin 4.9
	dir := b.cfg.store.StorePathCommitLog
	if dir == "" {
		dir = path.Join(b.cfg.store.StorePathRootDir, "commitlog")
	}
	info["commitLogDiskRatio_"+dir] = info["commitLogDiskRatio"] // Java: one for each path
	b.stats.RuntimeInfo(info)
	b.svc().schedule.RuntimeInfo(info)
	b.slow.RuntimeInfo(info)
	goruntime.Read().RuntimeInfo(info)
	info["brokerActive"] = "true"
	info["brokerName"] = b.cfg.broker.BrokerName
	info["brokerVersionDesc"] = codec.VersionName(codec.AnnouncedVersion)
	info["brokerVersion"] = strconv.Itoa(codec.AnnouncedVersion)
	info["bootTimestamp"] = strconv.FormatInt(b.started, 10)
	info["runtime"] = runtimeText(b.clock.Millis() - b.started)
	info["startAcceptSendRequestTimeStamp"] = strconv.FormatInt(b.startAccept.Load(), 10)
	b.timerInfo(info)
	b.duplicateInfo(info)
	b.handingInfo(info)
	b.pop.RuntimeInfo(info)
	p := &b.pools
	for _, x := range []struct {
		name string
		size int
		cap  int
		wait int64
	}{
		{"send", p.send.Size(), p.send.Capacity(), p.send.HeadWait().Milliseconds()},
		{"pull", p.pull.Size(), p.pull.Capacity(), p.pull.HeadWait().Milliseconds()},
		{"litePull", p.litePull.Size(), p.litePull.Capacity(), p.litePull.HeadWait().Milliseconds()},
		{"query", p.query.Size(), p.query.Capacity(), p.query.HeadWait().Milliseconds()},
		{"ack", 0, b.cfg.broker.AckThreadPoolQueueCapacity, 0},
	} {
		info[x.name+"ThreadPoolQueueSize"] = strconv.Itoa(x.size)
		info[x.name+"ThreadPoolQueueCapacity"] = strconv.Itoa(x.cap)
		info[x.name+"ThreadPoolQueueHeadWaitTimeMills"] = strconv.FormatInt(x.wait, 10)
	}
	b.svc().transactions.RuntimeInfo(info)
	b.consumerInfo(info)
	info["EndTransactionQueueSize"] = strconv.Itoa(p.endTransaction.Size())
	info["EndTransactionThreadPoolQueueCapacity"] = strconv.Itoa(b.cfg.broker.EndTransactionPoolQueueCapacity)
	return info
}

// runtimeText is Java's "[ D days, H hours, M minutes, S seconds ]".
func runtimeText(ms int64) string {
	s := ms / 1000
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", s/86400, s/3600%24, s/60%60, s%60)
}
