package namesrv

import (
	"testing"
	"time"

	"skylark/codec"
	"skylark/codec/body"
)

// BenchmarkCachedRoute is a whole turn with one query: decode, look-up, answer.
func BenchmarkCachedRoute(b *testing.B) {
	turn := routeTurn(b, codec.SerializeJSON)
	b.ReportAllocs()
	for b.Loop() {
		turn()
	}
}

// BenchmarkEncodedRoute is what a query costs after a change: 16 brokers.
func BenchmarkEncodedRoute(b *testing.B) {
	s := registered(16, 2)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = s.m.EncodedRoute("topic-0", routeForm{standard: true}, true)
	}
}

// BenchmarkSteadyRegistration is how long an unchanged registration of 10,000 topics holds the write lock.
func BenchmarkSteadyRegistration(b *testing.B) {
	s := registered(1, 10_000)
	r := &Registration{BrokerIdentity: identity("C", "broker-0", "10.0.0.0:10911", 0),
		Topics: map[string]*body.TopicConfig{}}
	for topic := range s.m.topicQueueTable {
		c := &body.TopicConfig{TopicName: topic}
		c.SetDefaults()
		r.Topics[topic] = c
	}
	b.ReportAllocs()
	for b.Loop() {
		s.m.Register(r, time.Unix(1_000_000, 0))
	}
}
