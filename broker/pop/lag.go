package pop

import (
	"strconv"

	"skylark/codec"
)

// Lag is how far a group that pops is behind in a queue (Java ConsumerLagCalculator with PopInflightMessageCounter).
type Lag struct {
	// Ready are the messages that a pop can have.
	Ready int64
	// Inflight are those that were popped in this run of the broker and are neither acknowledged nor returned.
	Inflight int64
	// Next is the offset behind what was popped, where Ready begins.
	Next codec.QueueOffset
}

// Lag counts; a group that has never popped the queue is at its begin.
func (s *Service) Lag(topic, group string, queueID int32) (l Lag) {
	l.Next, _ = s.Position(topic, group, queueID)
	l.Ready = max(int64(s.o.Store.MaxOffset(topic, queueID)-l.Next), 0)
	if q := s.peekQueue(topic, group, queueID); q != nil {
		l.Inflight = max(q.inflight.Load(), 0)
	}
	return l
}

// GroupLag sums up the queues of a topic, and those of the retry topics that the group's pops of it read.
func (s *Service) GroupLag(topic, group string) (own, retry Lag) {
	sum := func(into *Lag, name string) {
		for id := range s.o.TopicQueues(name) {
			l := s.Lag(name, group, id)
			into.Ready, into.Inflight = into.Ready+l.Ready, into.Inflight+l.Inflight
		}
	}
	sum(&own, topic)
	for _, name := range s.RetryTopics(topic, group) {
		sum(&retry, name)
	}
	return own, retry
}

// RuntimeInfo adds the state of POP, under names of our own.
func (s *Service) RuntimeInfo(into map[string]string) {
	s.mu.Lock()
	inflight := int64(0)
	for _, q := range s.queues {
		inflight += max(q.inflight.Load(), 0)
	}
	s.mu.Unlock()
	into["popInflightMessages"] = strconv.FormatInt(inflight, 10)
	into["popOpenCheckPoints"] = strconv.Itoa(s.Open())
	into["popBufferedCheckPoints"] = strconv.FormatInt(s.buffered.Load(), 10)
	into["popWaiting"] = strconv.Itoa(s.polling.Len())
	into["popReviveBehindMillis"] = strconv.FormatInt(s.Behind().Milliseconds(), 10)
}
