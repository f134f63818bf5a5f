package broker

import (
	"skylark/broker/stats"
	"skylark/broker/topic"
)

// tallyQueues is how many queues of a topic are counted together; a turn that has more counts the others in several steps.
const tallyQueues = 16

// sendTally adds up what the sends of a turn count, so that the loops, which all write the same few counters, meet at them
// once a turn and not once a message: ten contended atomic additions are as much as the copy of a message.
type sendTally struct {
	topic  *topic.Topic
	puts   int
	bytes  int
	queues [tallyQueues]struct {
		id      int32
		puts    int
		latency int64
	}
	used int
}

// count adds one message; the counters of another topic are brought up to date first.
func (y *sendTally) count(m *stats.Manager, t *topic.Topic, queueID int32, sizeBytes int, latencyMillis int64) {
	if t != y.topic {
		y.flush(m)
		y.topic = t
	}
	y.puts++
	y.bytes += sizeBytes
	i := 0
	for i < y.used && y.queues[i].id != queueID {
		i++
	}
	if i == y.used {
		if i == tallyQueues {
			y.flushQueues()
			i = 0
		}
		y.queues[i].id, y.queues[i].puts, y.queues[i].latency = queueID, 0, 0
		y.used = i + 1
	}
	y.queues[i].puts++
	y.queues[i].latency += latencyMillis
}

func (y *sendTally) flushQueues() {
	for i := range y.queues[:y.used] {
		q := &y.queues[i]
		y.topic.Put.CountLatency(q.id, q.puts, q.latency)
	}
	y.used = 0
}

// flush brings the counters up to date and forgets the topic.
func (y *sendTally) flush(m *stats.Manager) {
	if y.topic == nil {
		return
	}
	y.topic.Put.CountTurn(y.puts, y.bytes)
	y.flushQueues()
	m.CountPut(y.puts, y.topic.System)
	y.topic, y.puts, y.bytes = nil, 0, 0
}
