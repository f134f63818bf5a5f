package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/internal/vfs"
)

const (
	consumeQueueDirName = "consumequeue"
	// deletedQueuesDirName takes the directories of deleted topics until their files are gone. It is emptied at the start.
	deletedQueuesDirName = "consumequeue_deleted"
	// batchQueuesDirName holds the queues of the kind BatchCQ.
	batchQueuesDirName = "batchconsumequeue"

	tableShards = 64
	// denseQueueIDs is how many queues of a topic are found by index; larger ids go through a map.
	denseQueueIDs = 4096
)

// consumeQueueTable finds the queues of all topics (Java ConsumeQueueStore).
//
// Lookups take no lock and allocate nothing: shards of copy-on-write maps from topic to its queues, and there a slice
// from queue id to queue. Making a queue copies one shard and one slice; that it is 1/64 of all topics keeps ten
// thousand topics cheap.
//
// # Locks
//
// writeMu is held by whoever writes entries or takes queues away: ReputMessageService for one run of records, DeleteTopic
// and the cleaners. createMu guards the maps. Order: writeMu, the put lock (stopPuts), createMu.
type consumeQueueTable struct {
	o    *Options
	log  *slog.Logger
	fs   vfs.FS
	dir  string
	cl   *commitLog
	mark *queueCheckpoint

	seed   maphash.Seed
	shards [tableShards]atomic.Pointer[map[string]*topicQueues]

	createMu sync.Mutex
	writeMu  sync.Mutex
	// deletedTopics are topics that were deleted while records of them may still be in the log: those before the offset
	// must not come back. Guarded by writeMu.
	deletedTopics map[string]PhyOffset
	trashSeq      int // guarded by writeMu
	// lightTopics is the number of light queues (see putLight).
	lightTopics atomic.Int64
	// markedBatch are the topics whose queues the marks know as of the kind BatchCQ; set by load.
	markedBatch map[string]bool

	// stopPuts is commitLog.stopPuts.
	stopPuts func(f func())

	foreign    bool       // Java's broker was here since: what the marks miss it may have deleted
	recovering bool       // entries with a hole before them wait for rebuild
	loaded     queueMarks // as found at the start, until rebuild
	// marksMoved tells that recovery moved a mark back: it must be durable before anything is put, or the next crash
	// would find entries of a log that was cut, and a mark that vouches for them.
	marksMoved atomic.Bool
	checkpoint *storeCheckpoint
	// flushedTo is the store time of queueMarks.dispatched: set by a thorough flush before it saves the marks.
	flushedTo atomic.Int64
	index     *indexService
	unit      []byte // scratch of appendWithUnit, guarded by writeMu
}

// topicQueues are the queues of one topic.
type topicQueues struct {
	topic  string
	kind   CQType // SimpleCQ or BatchCQ
	dense  atomic.Pointer[[]*consumeQueue]
	sparse atomic.Pointer[map[int32]*consumeQueue]
}

func newConsumeQueueTable(o *Options, cl *commitLog, mark *queueCheckpoint) *consumeQueueTable {
	t := &consumeQueueTable{
		o:             o,
		log:           o.Log,
		fs:            o.FS,
		dir:           path.Join(o.RootDir, consumeQueueDirName),
		cl:            cl,
		mark:          mark,
		seed:          maphash.MakeSeed(),
		deletedTopics: make(map[string]PhyOffset),
		stopPuts:      cl.stopPuts,
	}
	for i := range t.shards {
		t.shards[i].Store(new(map[string]*topicQueues))
	}
	return t
}

func (t *topicQueues) find(queueID int32) *consumeQueue {
	if dense := t.dense.Load(); dense != nil && uint32(queueID) < uint32(len(*dense)) {
		return (*dense)[queueID]
	}
	if sparse := t.sparse.Load(); sparse != nil {
		return (*sparse)[queueID]
	}
	return nil
}

// add puts a queue in, or takes it out when cq is nil. The caller holds createMu.
func (t *topicQueues) add(queueID int32, cq *consumeQueue) {
	if queueID < 0 || queueID >= denseQueueIDs {
		sparse := make(map[int32]*consumeQueue)
		if old := t.sparse.Load(); old != nil {
			maps.Copy(sparse, *old)
		}
		if sparse[queueID] = cq; cq == nil {
			delete(sparse, queueID)
		}
		t.sparse.Store(&sparse)
		return
	}
	var old []*consumeQueue
	if p := t.dense.Load(); p != nil {
		old = *p
	}
	dense := make([]*consumeQueue, max(len(old), int(queueID)+1))
	copy(dense, old)
	dense[queueID] = cq
	t.dense.Store(&dense)
}

// list is the queues in the order of their ids.
func (t *topicQueues) list() []*consumeQueue {
	var queues []*consumeQueue
	if dense := t.dense.Load(); dense != nil {
		queues = slices.DeleteFunc(slices.Clone(*dense), func(cq *consumeQueue) bool { return cq == nil })
	}
	if sparse := t.sparse.Load(); sparse != nil {
		ids := slices.Sorted(maps.Keys(*sparse))
		for _, id := range ids {
			queues = append(queues, (*sparse)[id])
		}
	}
	return queues
}

// find is the queue, nil when there is none.
func (t *consumeQueueTable) find(topic string, queueID int32) *consumeQueue {
	shard := *t.shards[maphash.String(t.seed, topic)%tableShards].Load()
	if tq := shard[topic]; tq != nil {
		return tq.find(queueID)
	}
	return nil
}

// findBytes is find for a topic that lies in a record.
func (t *consumeQueueTable) findBytes(topic []byte, queueID int32) *consumeQueue {
	shard := *t.shards[maphash.Bytes(t.seed, topic)%tableShards].Load()
	if tq := shard[string(topic)]; tq != nil {
		return tq.find(queueID)
	}
	return nil
}

func (t *consumeQueueTable) topic(topic string) *topicQueues {
	return (*t.shards[maphash.String(t.seed, topic)%tableShards].Load())[topic]
}

// findOrCreate is find that makes a missing queue, without files. The topic must be a valid one: its name becomes a
// directory.
func (t *consumeQueueTable) findOrCreate(topic string, queueID int32) *consumeQueue {
	if cq := t.find(topic, queueID); cq != nil {
		return cq
	}
	return t.findOrCreateKind(topic, queueID, t.kindOf(topic))
}

// findOrCreateKind makes the first queue of a topic one of a kind; others are of the same.
func (t *consumeQueueTable) findOrCreateKind(topic string, queueID int32, kind CQType) *consumeQueue {
	t.createMu.Lock()
	defer t.createMu.Unlock()
	if cq := t.find(topic, queueID); cq != nil {
		return cq
	}
	tq := t.topic(topic)
	if tq == nil {
		tq = &topicQueues{topic: strings.Clone(topic), kind: kind}
	}
	cq := newConsumeQueue(t.o, tq.kind, tq.topic, queueID)
	tq.add(queueID, cq)
	t.setTopic(tq.topic, tq)
	return cq
}

// setTopic changes the entry of a topic in its shard; nil removes it. The caller holds createMu.
func (t *consumeQueueTable) setTopic(topic string, tq *topicQueues) {
	p := &t.shards[maphash.String(t.seed, topic)%tableShards]
	old := *p.Load()
	if old[topic] == tq {
		return
	}
	shard := make(map[string]*topicQueues, len(old)+1)
	maps.Copy(shard, old)
	if shard[topic] = tq; tq == nil {
		delete(shard, topic)
	}
	if codec.IsLMQ(topic) {
		t.lightTopics.Add(int64(len(shard) - len(old)))
	}
	p.Store(&shard)
}

// each calls f for every queue, in no order, without allocating.
func (t *consumeQueueTable) each(f func(cq *consumeQueue)) {
	for i := range t.shards {
		for _, tq := range *t.shards[i].Load() {
			if dense := tq.dense.Load(); dense != nil {
				for _, cq := range *dense {
					if cq != nil {
						f(cq)
					}
				}
			}
			if sparse := tq.sparse.Load(); sparse != nil {
				for _, cq := range *sparse {
					f(cq)
				}
			}
		}
	}
}

// topics are all topics that have queues, sorted.
func (t *consumeQueueTable) topics() []string {
	var names []string
	for i := range t.shards {
		for topic := range *t.shards[i].Load() {
			names = append(names, topic)
		}
	}
	slices.Sort(names)
	return names
}

// all are all queues.
func (t *consumeQueueTable) all() []*consumeQueue {
	var queues []*consumeQueue
	t.each(func(cq *consumeQueue) { queues = append(queues, cq) })
	return queues
}

// isTopicDirName tells whether a topic may become the name of a directory. The broker refuses other names long before;
// a damaged record must not lead out of the store either.
func isTopicDirName(topic string) bool {
	return topic != "" && topic != "." && topic != ".." && len(topic) <= 255 && !strings.ContainsAny(topic, "/\x00")
}

// errTopicName answers a record whose topic cannot have a queue.
var errTopicName = errors.New("store: topic cannot be the name of a directory")

// errWouldWait says that an entry cannot be written without waiting.
var errWouldWait = errors.New("store: the queue has to be made ready")

// put adds the entry of a record. The caller holds writeMu. Without mayWait nothing is done but in pages that are in
// memory, and errWouldWait says that more is needed.
func (t *consumeQueueTable) put(d *dispatchRecord, mayWait bool) (*consumeQueue, error) {
	return t.putTo(d.topic, d.queueID, int64(d.queueOffset), d, mayWait)
}

// putTo is put into any queue, as the message of queue offset q.
func (t *consumeQueueTable) putTo(topic []byte, queueID int32, q int64, d *dispatchRecord, mayWait bool,
) (*consumeQueue, error) {
	cq := t.findBytes(topic, queueID)
	if len(t.deletedTopics) > 0 {
		if before, ok := t.deletedTopics[string(topic)]; ok && d.phyOffset < before {
			return nil, nil
		}
	}
	if !mayWait && (cq == nil || !cq.appendsAtOnce(q) || cq.ext != nil && !cq.ext.appendsAtOnce(t.unitBytes())) {
		return nil, errWouldWait
	}
	if cq == nil {
		if !isTopicDirName(string(topic)) || queueID < 0 {
			return nil, fmt.Errorf("%w: %q queue %d", errTopicName, topic, queueID)
		}
		cq = t.findOrCreate(string(topic), queueID)
	}
	if _, end := cq.bounds(); t.recovering && (cq.damaged || q > end) {
		cq.damaged = true
		return cq, nil
	}
	if cq.batch != nil {
		e := d.batchEntry()
		return cq, cq.appendBatch(&e)
	}
	e := cqEntry{int64(d.phyOffset), int32(d.size), d.tagsCode}
	if cq.ext != nil && len(topic) == len(d.topic) && &topic[0] == &d.topic[0] { // light queues have no units, as in Java
		return cq, t.appendWithUnit(cq, e, d)
	}
	return cq, cq.append(e, q)
}
