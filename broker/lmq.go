package broker

import "skylark/store"

// Light queues (Java LMQ): see store.multi_dispatch. Their topics and groups, %LMQ%…, exist by their names, in
// topic.Manager and group.Manager; offset.Manager keeps their progress in lmqConsumerOffset.json.

// mergeLmqStats tells whether all of them are counted as one.
func (b *Broker) mergeLmqStats() bool {
	return b.cfg.store.EnableLmq && !b.o.Config.Broker().EnableLmqStats
}

// queueOptions translates the keys of batch queues and light queues.
func (b *Broker) queueOptions(o *store.Options) {
	c := b.cfg.store
	o.MappedFileSizeBatchConsumeQueue, o.QueueType = int64(c.MapperFileSizeBatchConsumeQueue), b.queueType
	o.EnableLmq, o.EnableMultiDispatch = c.EnableLmq, c.EnableMultiDispatch
	o.MaxLmqConsumeQueueNum = func() int { return b.o.Config.Store().MaxLmqConsumeQueueNum }
}
