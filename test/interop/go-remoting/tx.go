package main

import (
	"sync/atomic"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// txListener answers first to the local transaction and then to every check of the broker.
type txListener struct {
	first, then primitive.LocalTransactionState
	checks      atomic.Int64
}

func (l *txListener) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return l.first
}

func (l *txListener) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	l.checks.Add(1)
	return l.then
}

func (s *scope) tx(l *txListener) rocketmq.TransactionProducer {
	p, err := rocketmq.NewTransactionProducer(l, producer.WithNameServer(namesrv),
		producer.WithGroupName(s.id("PID")), producer.WithInstanceName(uniq()))
	must(err)
	must(p.Start())
	s.later(func() { p.Shutdown() })
	return p
}
