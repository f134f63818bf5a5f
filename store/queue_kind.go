package store

import (
	"fmt"
	"path"
)

// queuesDir is the directory of the queues of a kind.
func queuesDir(o *Options, kind CQType) string {
	if kind == BatchCQ {
		return path.Join(o.RootDir, batchQueuesDirName)
	}
	return path.Join(o.RootDir, consumeQueueDirName)
}

// kind is that of the queue.
func (cq *consumeQueue) kind() CQType {
	if cq.batch != nil {
		return BatchCQ
	}
	return SimpleCQ
}

// kindOf is the kind of a topic's queues: of those that it has, else what the broker, and then the marks, know of it.
func (t *consumeQueueTable) kindOf(topic string) CQType {
	if tq := t.topic(topic); tq != nil {
		return tq.kind
	}
	if kind := t.o.QueueType(topic); kind != CQUnknown {
		return kind
	}
	if t.markedBatch[topic] {
		return BatchCQ
	}
	return SimpleCQ
}

// loadKind finds the queues of a kind.
func (t *consumeQueueTable) loadKind(kind CQType) error {
	topics, err := t.fs.List(queuesDir(t.o, kind))
	if ignoreNotExist(err) != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, topic := range topics {
		if err := t.loadTopic(kind, topic); err != nil {
			return err
		}
	}
	return nil
}

// loadQueue takes a queue in whose directory was found. A topic has queues of one kind, which the broker knows best: others
// are an error, as for Java's broker. Only a crash just after a topic was deleted, to be made anew as the other kind, leaves
// directories of the old one, which are removed; stale tells so.
func (t *consumeQueueTable) loadQueue(kind CQType, topic string, queueID int32) (stale bool, err error) {
	want := t.o.QueueType(topic)
	if tq := t.topic(topic); want == CQUnknown && tq != nil {
		want = tq.kind
	}
	if want == kind || want == CQUnknown {
		t.findOrCreateKind(topic, queueID, kind)
		return false, nil
	}
	dir := path.Join(queuesDir(t.o, kind), topic)
	if stale, err = t.isStale(kind, topic, queueID); err != nil {
		return false, err
	} else if !stale {
		return false, fmt.Errorf("store: %s: the queue type of the topic is %s, these are queues of %s", dir, want, kind)
	}
	t.log.Warn("queues of a deleted topic removed", "dir", dir)
	if err := t.fs.RemoveAll(dir); err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	return true, nil
}

// isStale tells whether a queue's messages are those of a topic that was deleted.
func (t *consumeQueueTable) isStale(kind CQType, topic string, queueID int32) (bool, error) {
	before, deleted := t.deletedTopics[topic]
	if !deleted {
		return false, nil
	}
	cq := newConsumeQueue(t.o, kind, topic, queueID)
	if err := cq.load(); err != nil {
		return false, err
	}
	defer cq.close()
	e, ok := cq.entry(cq.firstStored())
	return !ok || PhyOffset(e.phyOffset) < before, nil
}
