package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"skylark/codec"
)

const (
	// recordOverhead is how much longer than MaxMessageSize a record may be (Java MessageExtEncoder: 64 KiB).
	recordOverhead = 64 << 10
	// smallScratch is the largest scratch record that shares its pool with the common ones.
	smallScratch = 32 << 10
	// latencySamplingBits: one put in 2^bits is timed. Offsets times spreadFactor (2^64 divided by the golden ratio) are
	// spread evenly, whatever the record sizes.
	latencySamplingBits = 3
	spreadFactor        = 0x9E3779B97F4A7C15
	// propertySeparator ends a property (Java MessageDecoder.PROPERTY_SEPARATOR).
	propertySeparator = 2
)

// scratchPool keeps buffers in which records are encoded, in two sizes, so that one message of 4 MiB does not stay in
// every pooled buffer. The collector empties it.
type scratchPool struct{ small, large sync.Pool }

func (p *scratchPool) get(n int) *[]byte {
	pool := &p.small
	if n > smallScratch {
		pool = &p.large
	}
	if b, ok := pool.Get().(*[]byte); ok {
		return b
	}
	return new(make([]byte, 0, max(n, 2048)))
}

func (p *scratchPool) put(b *[]byte) {
	if cap(*b) > smallScratch {
		p.large.Put(b)
	} else {
		p.small.Put(b)
	}
}

// Append stores one message behind the log and sets its QueueOffset, PhyOffset and StoreTimestamp. It is not durable yet
// (see Durable), and consumers see it after the ReputMessageService. It does not wait for the disk unless CanAppend says
// so. The body and the properties are copied.
//
// A prepared or rolled back transaction message gets queue offset 0 and no place in its queue, as in Java.
func (s *MessageStore) Append(m *codec.Message) PutResult {
	if r := s.checkMessage(m); r.Status != PutOK {
		return s.stats.failed(r)
	}
	if s.isNumbered(m) {
		return s.appendNumbered(m)
	}
	scratch := s.scratch.get(codec.RecordBytes(m))
	defer s.scratch.put(scratch)
	var err error
	if *scratch, err = codec.AppendRecord((*scratch)[:0], m); err != nil {
		return s.stats.failed(encodeFailure(err))
	}
	if len(*scratch) > s.o.MaxMessageSize+recordOverhead {
		return s.stats.failed(illegal("record of %d bytes, at most %d", len(*scratch), s.o.MaxMessageSize+recordOverhead))
	}
	at, err := s.place(*scratch, m)
	if err != nil {
		return s.stats.failed(s.putFailure(err))
	}
	m.QueueOffset, m.PhyOffset, m.StoreTimestamp = at.queueOffset, at.phyOffset, at.storeTimestamp
	s.appended()
	s.countPut(1, 1, len(*scratch), at)
	return PutResult{Status: PutOK, PhyOffset: at.phyOffset, EndOffset: at.phyOffset + PhyOffset(len(*scratch)),
		QueueOffset: at.queueOffset, StoreTimestamp: at.storeTimestamp, Count: 1, Waited: at.lockWait()}
}

// AppendBatch stores the messages of a batch body (request 320) as records of their own with consecutive queue offsets,
// all in one file, all or none. Each entry's properties are followed by those of m. A batch with a delay level or
// transaction bits is MESSAGE_ILLEGAL, as in Java.
func (s *MessageStore) AppendBatch(m *codec.Message) PutResult {
	if r := s.checkBatch(m); r.Status != PutOK {
		return s.stats.failed(r)
	}
	scratch := s.scratch.get(len(m.Body) * 2)
	defer s.scratch.put(scratch)
	*scratch = (*scratch)[:0]
	starts, err := s.encodeBatch(scratch, m)
	if err != nil {
		return s.stats.failed(encodeFailure(err))
	}
	if len(starts) == 0 {
		return s.stats.failed(illegal("batch of %s has no messages", m.Topic))
	}
	at, err := s.place(*scratch, m)
	if err != nil {
		return s.stats.failed(s.putFailure(err))
	}
	for i := range starts {
		starts[i] += at.phyOffset
	}
	m.QueueOffset, m.PhyOffset, m.StoreTimestamp = at.queueOffset, at.phyOffset, at.storeTimestamp
	s.appended()
	s.countPut(1, len(starts), len(*scratch), at)
	return PutResult{Status: PutOK, PhyOffset: at.phyOffset, EndOffset: at.phyOffset + PhyOffset(len(*scratch)),
		QueueOffset: at.queueOffset, StoreTimestamp: at.storeTimestamp, Count: len(starts), PhyOffsets: starts,
		Waited: at.lockWait()}
}

// errBatchTooLong answers a batch whose records together are longer than a message may be.
var errBatchTooLong = errors.New("store: batch too long")

// encodeBatch appends one record for each entry of a batch and returns where each starts.
func (s *MessageStore) encodeBatch(scratch *[]byte, m *codec.Message) (starts []PhyOffset, err error) {
	one := *m
	var props []byte
	err = codec.EachBatchEntry(m.Body, func(_ int, e codec.BatchEntry) error {
		one.Flag, one.Body, one.Properties = e.Flag, e.Body, e.Properties
		if s.o.EnableLmq { // messages of a batch go to no light queue, as in Java, whatever they claim
			e.Properties = dropProperty(e.Properties, multiQueueOffsetPattern, codec.PropInnerMultiQueueOffset)
			one.Properties = e.Properties
		}
		if len(m.Properties) > 0 {
			props = append(props[:0], e.Properties...)
			if n := len(props); n > 0 && props[n-1] != propertySeparator {
				props = append(props, propertySeparator)
			}
			props = append(props, m.Properties...)
			one.Properties = props
		}
		starts = append(starts, PhyOffset(len(*scratch)))
		*scratch, err = codec.AppendRecord(*scratch, &one)
		if err == nil && len(*scratch) > s.o.MaxMessageSize+recordOverhead {
			err = fmt.Errorf("%w: more than %d bytes", errBatchTooLong, s.o.MaxMessageSize+recordOverhead)
		}
		return err
	})
	return starts, err
}

// place finds the queue and puts the run. The queue is looked up again if queues were taken away meanwhile.
func (s *MessageStore) place(run []byte, m *codec.Message) (placed, error) {
	state := m.TransactionState()
	consumable := state == codec.SysFlagTransactionNone || state == codec.SysFlagTransactionCommit
	for {
		epoch := s.cl.epoch.Load()
		cq := s.queues.find(m.Topic, m.QueueID)
		if cq == nil && !isTopicDirName(m.Topic) {
			return placed{}, fmt.Errorf("%w: %q", errTopicName, m.Topic)
		}
		var next *atomic.Int64
		if consumable {
			if cq == nil {
				cq = s.queues.findOrCreate(m.Topic, m.QueueID)
			}
			next = &cq.next
		}
		at, err := s.cl.put(run, next, epoch)
		if !errors.Is(err, errStaleQueue) {
			return at, err
		}
	}
}

// lockWait is what the put waited for the lock or a file: the store timestamp was read under the lock.
func (p *placed) lockWait() time.Duration {
	if !p.waited {
		return 0
	}
	return time.Duration(max(p.storeTimestamp-p.sinceMillis, 0)) * time.Millisecond
}

// countPut counts calls that went as one put. A clock read costs as much as the copy of a small message, so the time is
// taken of those that had to wait for the lock or a file, and of one in latencySampling of the others, which counts for as
// many.
func (s *MessageStore) countPut(calls, messages, sizeBytes int, at placed) {
	weight := int64(calls)
	if !at.waited {
		if uint64(at.phyOffset)*spreadFactor>>(64-latencySamplingBits) != 0 {
			s.stats.put(messages, sizeBytes, 0, 1)
			return
		}
		weight <<= latencySamplingBits
	}
	s.stats.put(messages, sizeBytes, s.o.Clock.Millis()-at.sinceMillis, weight)
}

// appended tells those who work behind the log; the dispatch only if it can see the record already.
func (s *MessageStore) appended() {
	s.cl.flusher.appended()
	s.grew()
	if s.showsAtOnce {
		s.reput.wake()
	}
}

// illegal is the answer to a message that no retry can save.
func illegal(format string, args ...any) PutResult {
	return PutResult{Status: MessageIllegal, Err: fmt.Errorf("store: "+format, args...)}
}

// checkMessage are the checks of Java's HookUtils.checkBeforePutMessage and of the encoder.
func (s *MessageStore) checkMessage(m *codec.Message) PutResult {
	if why := s.flags.refusal(flagsThatStopWrites); why != nil {
		return PutResult{Status: ServiceNotAvailable, Err: why}
	}
	if s.replicas != nil && m.WaitStoreMsgOK {
		if status := s.replicas.Admit(); status != PutOK {
			return PutResult{Status: status}
		}
	}
	topicBytes := len(m.Topic)
	switch {
	case topicBytes == 0:
		return illegal("topic is empty")
	case topicBytes > s.o.MaxTopicLength && !codec.IsRetryTopic(m.Topic):
		return illegal("topic of %d bytes, at most %d", topicBytes, s.o.MaxTopicLength)
	case topicBytes > codec.MaxRetryTopicLength:
		return illegal("topic of %d bytes, at most %d", topicBytes, codec.MaxRetryTopicLength)
	case m.QueueID < 0:
		return illegal("queue id %d is negative", m.QueueID)
	case m.Body == nil:
		return illegal("message of %s has no body", m.Topic)
	case len(m.Body) > s.o.MaxMessageSize:
		return illegal("body of %d bytes, maxMessageSize is %d", len(m.Body), s.o.MaxMessageSize)
	case len(m.Properties) > codec.MaxPropertiesBytes:
		return PutResult{Status: PropertiesSizeExceeded, Err: fmt.Errorf("store: properties of %d bytes, at most %d",
			len(m.Properties), codec.MaxPropertiesBytes)}
	}
	return PutResult{}
}

func (s *MessageStore) checkBatch(m *codec.Message) PutResult {
	if r := s.checkMessage(m); r.Status != PutOK {
		return r
	}
	if m.TransactionState() != codec.SysFlagTransactionNone {
		return illegal("batch of %s has transaction bits", m.Topic)
	}
	if level, ok := m.Property(codec.PropDelayTimeLevel); ok && len(level) > 0 && string(level) != "0" {
		return illegal("batch of %s has delay level %s", m.Topic, level)
	}
	return PutResult{}
}

// encodeFailure turns an error of the encoder into the status Java answers.
func encodeFailure(err error) PutResult {
	status := MessageIllegal
	if errors.Is(err, codec.ErrPropertiesTooLong) {
		status = PropertiesSizeExceeded
	}
	return PutResult{Status: status, Err: err}
}

// putFailure turns an error of the log into a status; a disk that is full is said to be full.
func (s *MessageStore) putFailure(err error) PutResult {
	switch {
	case errors.Is(err, errTooLongForFile), errors.Is(err, errTopicName):
		return PutResult{Status: MessageIllegal, Err: err}
	case errors.Is(err, errLogBusy):
		return PutResult{Status: OSPageCacheBusy, Err: err}
	case errors.Is(err, ErrClosed), errors.Is(err, ErrNotWritable):
		return PutResult{Status: ServiceNotAvailable, Err: err}
	case diskFull(err):
		s.clean.lookNow()
		return PutResult{Status: CreateMappedFileFailed, Err: fmt.Errorf("%w: %w", ErrDiskFull, err)}
	case errors.Is(err, errNoFile):
		return PutResult{Status: CreateMappedFileFailed, Err: err}
	}
	return PutResult{Status: UnknownError, Err: err}
}

// CanAppend tells whether an Append of a record of sizeBytes (codec.RecordBytes) goes through without waiting: there is
// room in pages that are in memory. An event loop that gets false hands the message to a goroutine that may wait.
func (s *MessageStore) CanAppend(sizeBytes int) bool { return s.cl.canAppend(int64(sizeBytes)) }

// Durable tells whether everything before end is as durable as FlushDiskType promises, always with ASYNC_FLUSH, and on as
// many replicas as promised (see SetReplicas), which may also answer SlaveNotAvailable or FlushSlaveTimeout. If not,
// done is called exactly once: with PutOK after the flush, with FlushDiskTimeout after timeout (0 = SyncFlushTimeout;
// the record is stored all the same), or with ServiceNotAvailable when a flush failed or the store closed. It is called
// from a goroutine of the store and must not block; only when GroupCommitQueue is full or the store is closed already it
// is called before Durable returns.
func (s *MessageStore) Durable(end PhyOffset, timeout time.Duration, done func(PutStatus)) bool {
	if s.replicas != nil {
		return s.durableOnReplicas(end, timeout, done)
	}
	return s.cl.flusher.durable(end, timeout, done)
}

// Put is Append that waits until the message is durable if m.WaitStoreMsgOK.
func (s *MessageStore) Put(m *codec.Message) PutResult { return s.await(s.Append(m), m.WaitStoreMsgOK) }

// PutBatch is AppendBatch that waits until the messages are durable if m.WaitStoreMsgOK.
func (s *MessageStore) PutBatch(m *codec.Message) PutResult {
	return s.await(s.AppendBatch(m), m.WaitStoreMsgOK)
}

func (s *MessageStore) await(r PutResult, wait bool) PutResult {
	if r.Status != PutOK || !wait {
		return r
	}
	answer := make(chan PutStatus, 1)
	if s.Durable(r.EndOffset, 0, func(status PutStatus) { answer <- status }) {
		return r
	}
	if r.Status = <-answer; r.Status == ServiceNotAvailable {
		r.Err = s.NotDurable()
	}
	return r
}
