package broker

import (
	"skylark/codec"
	"skylark/reactor/rpc"
)

// CleanProcessor serves what an operator asks to be deleted: CLEAN_EXPIRED_CONSUMEQUEUE (306), CLEAN_UNUSED_TOPIC (316),
// DELETE_EXPIRED_COMMITLOG (329): Java AdminBrokerProcessor. They always succeed; the log says what went.
type CleanProcessor struct{ b *Broker }

// Process implements rpc.Processor.
func (p *CleanProcessor) Process(r *rpc.Request) {
	b, what, deleted := p.b, codec.RequestCodeName(r.Cmd.Code), 0
	switch r.Cmd.Code {
	case codec.ReqCleanExpiredConsumeQueue:
		deleted = b.store.CleanExpiredConsumeQueues()
	case codec.ReqCleanUnusedTopic:
		deleted = b.store.CleanUnusedTopics(func(topic string) bool { return b.topics.Get(topic) != nil })
	case codec.ReqDeleteExpiredCommitLog:
		b.store.DeleteExpiredFiles() // goes on in the background, file by file
	}
	b.log.Info("clean-up by command", "request", what, "deleted", deleted, "remote", r.Conn().RemoteAddr())
	r.OK()
}
