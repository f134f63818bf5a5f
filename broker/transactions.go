package broker

import (
	"time"

	"skylark/broker/conn"
	"skylark/broker/transaction"
	"skylark/codec"
	"skylark/reactor"
	"skylark/store"
)

// askProducer sends a question to a producer.
func (b *Broker) askProducer(c reactor.Conn, req *codec.Command) error {
	return b.server.Oneway(c, req)
}

func (b *Broker) transactionSettings() transaction.Settings {
	bc := b.o.Config.Broker()
	return transaction.Settings{Timeout: millis(bc.TransactionTimeOut), CheckMax: bc.TransactionCheckMax,
		CheckInterval: millis(bc.TransactionCheckInterval), OpMaxBytes: bc.TransactionOpMsgMaxSize,
		OpInterval:      millis(bc.TransactionOpBatchInterval),
		ReservedTime:    time.Duration(b.cfg.store.FileReservedTime) * time.Hour,
		MetricsInterval: millis(bc.TransactionMetricFlushInterval)}
}

// liveProducers are the members of a producer group whose connections are open.
func (b *Broker) liveProducers(groupName string) (out []*conn.Client) {
	for _, c := range b.producers.Clients(groupName) {
		if st, ok := c.Conn.Context().(*connState); !ok || !st.closed.Load() {
			out = append(out, c)
		}
	}
	return out
}

func (b *Broker) makeGiveUpTopic() error {
	_, err := b.topics.CreateInSendBack(codec.TransCheckMaxTimeTopic, 1, codec.PermRead|codec.PermWrite, false, false)
	return err
}

// transactionStored counts what the transactions put.
func (b *Broker) transactionStored(m *codec.Message, put *store.PutResult) {
	if t := b.topics.Get(m.Topic); t != nil {
		b.countPut(t, m, put, 0)
	}
}

// Transactions are the half messages of this broker.
func (b *Broker) Transactions() *transaction.TransactionalMessageService { return b.svc().transactions }
