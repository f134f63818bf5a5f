package broker

import (
	"fmt"

	"skylark/broker/hold"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/latency"
	"skylark/reactor/rpc"
)

// pools are Java's executors (BrokerController.initializeResources), by their configuration names.
type pools struct {
	send, pull, litePull, query, heartbeat, clientManage, consumerManage, loadBalance, admin, endTransaction, ack,
	reply *rpc.Pool
}

// sendPoolName is the class whose queue is refused while the page cache is busy.
const sendPoolName = "sendMessage"

func (b *Broker) makePools() {
	c := b.cfg.broker
	pool := func(name string, workers, capacity int, wait int64) *rpc.Pool {
		o := rpc.PoolOptions{Name: name, Workers: workers, Capacity: capacity}
		if c.BrokerFastFailureEnable {
			o.MaxWait = millis(wait)
			if name == sendPoolName {
				o.Stalled = func() bool { return b.busy() }
			}
		}
		return b.server.NewPool(o)
	}
	b.pools = pools{
		send: pool(sendPoolName, c.SendMessageThreadPoolNums, c.SendThreadPoolQueueCapacity,
			c.WaitTimeMillsInSendQueue),
		pull: pool("pullMessage", c.PullMessageThreadPoolNums, c.PullThreadPoolQueueCapacity,
			c.WaitTimeMillsInPullQueue),
		litePull: pool("litePullMessage", c.LitePullMessageThreadPoolNums, c.LitePullThreadPoolQueueCapacity,
			c.WaitTimeMillsInLitePullQueue),
		query: pool("queryMessage", c.QueryMessageThreadPoolNums, c.QueryThreadPoolQueueCapacity, 0),
		heartbeat: pool("heartbeat", c.HeartbeatThreadPoolNums, c.HeartbeatThreadPoolQueueCapacity,
			c.WaitTimeMillsInHeartbeatQueue),
		clientManage: pool("clientManage", c.ClientManageThreadPoolNums, c.ClientManagerThreadPoolQueueCapacity, 0),
		consumerManage: pool("consumerManage", c.ConsumerManageThreadPoolNums,
			c.ConsumerManagerThreadPoolQueueCapacity, 0),
		loadBalance: pool("loadBalance", c.LoadBalanceProcessorThreadPoolNums, c.LoadBalanceThreadPoolQueueCapacity,
			0),
		admin: pool("adminBroker", c.AdminBrokerThreadPoolNums, c.AdminBrokerThreadPoolQueueCapacity,
			c.WaitTimeMillsInAdminBrokerQueue),
		ack:   pool("ackMessage", c.AckMessageThreadPoolNums, c.AckThreadPoolQueueCapacity, c.WaitTimeMillsInAckQueue),
		reply: pool("replyMessage", c.ProcessReplyMessageThreadPoolNums, c.ReplyThreadPoolQueueCapacity, 0),
		endTransaction: pool("endTransaction", c.EndTransactionThreadPoolNums, c.EndTransactionPoolQueueCapacity,
			c.WaitTimeMillsInTransactionQueue),
	}
}

// registerRoutes is the table of request codes; docs/compat.md says the same in words.
func (b *Broker) registerRoutes() {
	own, p := b.o.Config.Own(), &b.pools
	route := func(proc rpc.Processor, pool *rpc.Pool, codes ...int) {
		for _, code := range codes {
			b.server.Register(rpc.Route{Code: code, Processor: proc, Pool: pool})
		}
	}
	send := &SendMessageProcessor{b}
	for _, code := range []int{codec.ReqSendMessage, codec.ReqSendMessageV2, codec.ReqSendBatchMessage} {
		b.server.Register(rpc.Route{Code: code, Processor: send, Pool: p.send, OnLoop: own.SendOnLoop,
			Reject: b.rejectSend, Class: latency.Send})
	}
	pull := &PullMessageProcessor{b}
	b.server.Register(rpc.Route{Code: codec.ReqPullMessage, Processor: pull, Pool: p.pull,
		OnLoop: own.PullOnLoop, Class: latency.Pull})
	b.server.Register(rpc.Route{Code: codec.ReqLitePullMessage, Processor: pull, Pool: p.litePull,
		OnLoop: own.PullOnLoop, Class: latency.Pull})
	b.server.Register(rpc.Route{Code: codec.ReqEndTransaction, Processor: &EndTransactionProcessor{b},
		Pool: p.endTransaction, OnLoop: own.SendOnLoop})
	b.registerColdRoutes(route)
	b.server.SetListener(rpc.ConnListener{Opened: b.connOpened, Closed: b.connClosed})
	b.server.SetAuthenticator(b.guardPort)
}

// rejectSend is Java's SendMessageProcessor.rejectRequest.
func (b *Broker) rejectSend(*rpc.Request) string {
	if b.isSlave() && !b.cfg.broker.EnableSlaveActingMaster || b.busy() || b.store.TransientStorePoolDeficient() {
		return rpc.RejectRequestRemark
	}
	return ""
}

// guardPort keeps pulling off the VIP port, which serves everything else (Java: the fast server has no such
// processors, so the admin handler answers).
func (b *Broker) guardPort(r *rpc.Request) *codec.Command {
	if b.handing.gate.On() && b.handing.gate.Take(r) {
		return rpc.Taken
	}
	if b.isSlave() {
		if answer := b.guardSlave(r); answer != nil {
			return answer
		}
	}
	switch r.Cmd.Code {
	case codec.ReqPullMessage, codec.ReqLitePullMessage, codec.ReqPeekMessage, codec.ReqPopMessage,
		codec.ReqNotification, codec.ReqPollingInfo:
		if b.vipPort != 0 && r.Conn().LocalAddr().Port() == b.vipPort {
			return codec.NewResponse(r.Cmd, codec.RespRequestCodeNotSupported,
				fmt.Sprintf(" request type %d not supported", r.Cmd.Code))
		}
	}
	return nil
}

// registerColdRoutes are all codes that are served in pools only.
func (b *Broker) registerColdRoutes(route func(rpc.Processor, *rpc.Pool, ...int)) {
	p := &b.pools
	route(&SendBackProcessor{b}, p.send, codec.ReqConsumerSendMsgBack)
	route(&ReplyMessageProcessor{b, &SendMessageProcessor{b}}, p.reply, codec.ReqSendReplyMessage,
		codec.ReqSendReplyMessageV2)
	cm := &ClientManageProcessor{b}
	route(cm, p.heartbeat, codec.ReqHeartBeat)
	route(cm, p.clientManage, codec.ReqUnregisterClient, codec.ReqCheckClientConfig)
	route(&ConsumerManageProcessor{b}, p.consumerManage, codec.ReqGetConsumerListByGroup,
		codec.ReqUpdateConsumerOffset, codec.ReqQueryConsumerOffset)
	route(&QueryMessageProcessor{b}, p.query, codec.ReqQueryMessage, codec.ReqViewMessageByID)
	route(&AssignmentProcessor{b}, p.loadBalance, codec.ReqQueryAssignment)
	route(&RequestModeProcessor{b}, p.loadBalance, codec.ReqSetMessageRequestMode)
	route(&RequestModeProcessor{b}, p.admin, codec.ReqGetAllMessageRequestMode)
	route(&PopMessageProcessor{b}, p.pull, codec.ReqPopMessage)
	route(&PeekMessageProcessor{b}, p.pull, codec.ReqPeekMessage)
	route(&NotificationProcessor{b}, p.pull, codec.ReqNotification, codec.ReqPollingInfo)
	route(&AckMessageProcessor{b}, p.ack, codec.ReqAckMessage, codec.ReqBatchAckMessage)
	route(&ChangeInvisibleTimeProcessor{b}, p.ack, codec.ReqChangeMessageInvisibleTime)
	route(&OffsetProcessor{b}, p.admin, codec.ReqSearchOffsetByTimestamp, codec.ReqGetMaxOffset,
		codec.ReqGetMinOffset, codec.ReqGetEarliestMsgStoreTime)
	route(&ResumeTransactionProcessor{b}, p.admin, codec.ReqResumeCheckHalfMessage)
	route(&ColdProcessor{b}, p.admin, codec.ReqUpdateColdDataFlowCtrConfig, codec.ReqRemoveColdDataFlowCtrConfig,
		codec.ReqGetColdDataFlowCtrInfo, codec.ReqSetCommitLogReadMode)
	route(&LockProcessor{b}, p.admin, codec.ReqLockBatchMQ, codec.ReqUnlockBatchMQ)
	route(&TopicProcessor{b}, p.admin, codec.ReqUpdateAndCreateTopic, codec.ReqUpdateAndCreateTopicList,
		codec.ReqGetAllTopicConfig, codec.ReqDeleteTopicInBroker, codec.ReqGetTopicConfig, codec.ReqGetTopicStatsInfo,
		codec.ReqQueryTopicConsumeByWho, codec.ReqGetSystemTopicListFromBroker)
	route(&GroupProcessor{b}, p.admin, codec.ReqUpdateAndCreateSubscriptionGroup,
		codec.ReqUpdateAndCreateSubscriptionGroupList, codec.ReqGetAllSubscriptionGroupConfig,
		codec.ReqDeleteSubscriptionGroup, codec.ReqGetSubscriptionGroupConfig, codec.ReqUpdateAndGetGroupForbidden)
	route(&ConnectionProcessor{b}, p.admin, codec.ReqGetConsumerConnectionList,
		codec.ReqGetProducerConnectionList, codec.ReqGetAllProducerInfo, codec.ReqGetConsumerRunningInfo,
		codec.ReqConsumeMessageDirectly)
	route(&StatsProcessor{b}, p.admin, codec.ReqGetConsumeStats, codec.ReqViewBrokerStatsData,
		codec.ReqGetBrokerRuntimeInfo, codec.ReqGetAllConsumerOffset, codec.ReqGetAllDelayOffset)
	route(&CleanProcessor{b}, p.admin, codec.ReqCleanExpiredConsumeQueue, codec.ReqCleanUnusedTopic,
		codec.ReqDeleteExpiredCommitLog)
	route(&StaticTopicProcessor{b}, p.admin, codec.ReqUpdateAndCreateStaticTopic)
	route(&ConfigProcessor{b}, p.admin, codec.ReqGetBrokerConfig)
	route(&ReplicasProcessor{b}, p.admin, codec.ReqNotifyBrokerRoleChanged, codec.ReqGetBrokerEpochCache)
	route(&HAProcessor{b}, p.admin, codec.ReqGetBrokerHAStatus)
	route(&MemberProcessor{b}, p.admin, codec.ReqNotifyMinBrokerIDChange, codec.ReqExchangeBrokerHAInfo,
		codec.ReqResetMasterFlushOffset)
	route(&HandoverProcessor{b}, p.admin, codec.ReqHandover)
	route(&TimerProcessor{b}, p.admin, codec.ReqGetTimerCheckPoint, codec.ReqGetTimerMetrics)
	route(&RecallMessageProcessor{b}, p.send, codec.ReqRecallMessage)
	route(&ResetOffsetProcessor{b}, p.admin, codec.ReqInvokeBrokerToResetOffset)
	route(&ConsumerAdminProcessor{b}, p.admin, codec.ReqInvokeBrokerToGetConsumerStatus, codec.ReqQueryConsumeTimeSpan,
		codec.ReqQueryCorrectionOffset, codec.ReqCloneGroupOffset, codec.ReqGetBrokerConsumeStats,
		codec.ReqQueryConsumeQueue, codec.ReqQueryTopicsByConsumer, codec.ReqQuerySubscriptionByConsumer)
}

// wakeQueue has parked pulls of a queue served now: something but a message concerns them.
func (b *Broker) wakeQueue(q body.MessageQueue) {
	b.hold.WakeQueue(hold.Key{Topic: q.Topic, QueueID: q.QueueID})
}

// RequestCodes are the codes this broker serves; docs/compat.md is checked against them.
func (b *Broker) RequestCodes() []int { return b.server.Codes() }
