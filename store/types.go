package store

import (
	"fmt"
	"time"

	"skylark/codec"
	"skylark/zerocopy"
)

// PhyOffset and QueueOffset are codec's: a byte position in the CommitLog and an index in one queue.
type (
	PhyOffset   = codec.PhyOffset
	QueueOffset = codec.QueueOffset
)

// PutStatus is the outcome of a put (Java PutMessageStatus; String gives its spelling).
type PutStatus uint8

// The outcomes in Java's order of importance to the broker.
const (
	PutOK PutStatus = iota
	FlushDiskTimeout
	FlushSlaveTimeout
	SlaveNotAvailable
	ServiceNotAvailable
	CreateMappedFileFailed
	MessageIllegal
	PropertiesSizeExceeded
	OSPageCacheBusy
	InSyncReplicasNotEnough
	UnknownError
	// The three of messages with a delivery time (package store/timer).
	WheelTimerFlowControl
	WheelTimerMsgIllegal
	WheelTimerNotEnable
	// LmqConsumeQueueNumExceeded: a light queue would be one too many.
	LmqConsumeQueueNumExceeded
)

var putStatusNames = [...]string{"PUT_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE",
	"SERVICE_NOT_AVAILABLE", "CREATE_MAPPED_FILE_FAILED", "MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED",
	"OS_PAGE_CACHE_BUSY", "IN_SYNC_REPLICAS_NOT_ENOUGH", "UNKNOWN_ERROR",
	"WHEEL_TIMER_FLOW_CONTROL", "WHEEL_TIMER_MSG_ILLEGAL", "WHEEL_TIMER_NOT_ENABLE",
	"LMQ_CONSUME_QUEUE_NUM_EXCEEDED"}

// String is Java's enum name.
func (s PutStatus) String() string {
	if int(s) < len(putStatusNames) {
		return putStatusNames[s]
	}
	return fmt.Sprintf("PutStatus(%d)", uint8(s))
}

// PutResult is where a message went.
type PutResult struct {
	Status         PutStatus
	PhyOffset      PhyOffset   // of the first record
	EndOffset      PhyOffset   // one past the last record: what has to be durable
	QueueOffset    QueueOffset // of the first record
	StoreTimestamp int64       // ms
	Count          int         // records written
	// Waited is how long it took to get the put lock or the next file, to the ms; 0 when both were there.
	Waited time.Duration
	// PhyOffsets are those of all records of a batch, nil for a single message.
	PhyOffsets []PhyOffset
	// Err says more when Status is not PutOK: the limit that was passed, the file that failed.
	Err error
}

// GetStatus is the outcome of a read (Java GetMessageStatus).
type GetStatus uint8

// The outcomes; GetCold is ours: the range is not in memory and the caller may not wait (see GetRequest.AllowCold).
const (
	GetFound GetStatus = iota
	GetNoMatchedMessage
	GetMessageWasRemoving
	GetOffsetFoundNull
	GetOffsetOverflowBadly
	GetOffsetOverflowOne
	GetOffsetTooSmall
	GetNoMatchedLogicQueue
	GetNoMessageInQueue
	GetOffsetReset
	GetCold
)

var getStatusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
	"OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE",
	"NO_MESSAGE_IN_QUEUE", "OFFSET_RESET", "COLD"}

// String is Java's enum name, the remark of every pull answer.
func (s GetStatus) String() string {
	if int(s) < len(getStatusNames) {
		return getStatusNames[s]
	}
	return fmt.Sprintf("GetStatus(%d)", uint8(s))
}

// MessageFilter decides which messages of a queue a consumer gets (Java MessageFilter).
type MessageFilter interface {
	// MatchQueueEntry judges by the ConsumeQueue entry alone; false skips the record unread.
	MatchQueueEntry(tagsCode int64) bool
	// NeedsRecord tells that MatchRecord has to be asked too (SQL92, retry topics).
	NeedsRecord() bool
	// MatchRecord judges by the stored record.
	MatchRecord(rec *codec.Record) bool
}

// PropertyFilter is a MessageFilter that also judges by a message's properties, which are found faster than a Record is
// parsed, and by the unit of ConsumeQueueExt. Both are asked by one Get at a time.
type PropertyFilter interface {
	MessageFilter
	// MatchUnit judges by what ConsumeQueueExt keeps of the message; false skips the record unread. bitMap is empty if there is
	// none, and valid during the call only. It is asked after MatchQueueEntry.
	MatchUnit(storeTimestamp int64, bitMap []byte) bool
	// MatchProperties is MatchRecord with the encoded properties, valid during the call only.
	MatchProperties(properties []byte) bool
}

// GetRequest asks for messages of one queue from an offset on.
type GetRequest struct {
	Topic    string
	QueueID  int32
	Offset   QueueOffset
	MaxMsgs  int
	MaxBytes int           // 0 = the store's own limits only
	Filter   MessageFilter // nil = everything
	// AllowCold lets the call wait for the disk. Without it (on an event loop) a range that is not resident gives
	// GetCold and nothing is touched.
	AllowCold bool
}

// GetResult is reused from call to call; Messages keeps its capacity.
type GetResult struct {
	Status     GetStatus
	NextOffset QueueOffset // nextBeginOffset of the answer
	MinOffset  QueueOffset
	MaxOffset  QueueOffset
	Count      int
	Messages   zerocopy.Segments // whole records; the receiver releases them
	// SuggestSlave tells that the reader is further behind than memory holds (Java suggestPullingFromSlave).
	SuggestSlave bool
	// ColdBytes are records that came from the disk, of those in the cold area: see Options.ColdDataFlowControlEnable.
	ColdBytes int64
}

// QueueEntry is one entry of a ConsumeQueue.
type QueueEntry struct {
	PhyOffset PhyOffset
	Size      int32 // bytes of the record
	TagsCode  int64 // tag hash; in the schedule topic the time the message is due (ms)
}

// Boundary picks the end of a run of equal store times in a search by time (Java BoundaryType).
type Boundary uint8

// BoundaryLower is the first message with storeTime >= t, BoundaryUpper the last with storeTime <= t.
const (
	BoundaryLower Boundary = iota
	BoundaryUpper
)

// Arrival is one message that became consumable.
type Arrival struct {
	Topic          string
	QueueID        int32
	QueueOffset    QueueOffset // of the message, the last one of an inner batch; maxOffset is now one more
	TagsCode       int64
	StoreTimestamp int64
	Properties     []byte // encoded; valid during the call only
	// TagsUnknown tells that TagsCode says nothing: an inner batch without tags of its own.
	TagsUnknown bool
}

// Listener are the store's events. EnsureDefaults fills what is nil. They are called by the store's services and must
// not call back into Put or Close.
type Listener struct {
	// Arrived is called by the reput service after the ConsumeQueue entries of a run of records are readable.
	Arrived func(batch []Arrival)
	// Truncated tells what recovery cut off: file, position, bytes and why.
	Truncated func(file string, pos, bytes int64, reason string)
	// FileDeleted, DiskFull and WriteError report to the operator.
	FileDeleted func(path string)
	DiskFull    func(path string, usedRatio float64, refuse bool)
	WriteError  func(err error)
}

// EnsureDefaults makes every event callable.
func (l *Listener) EnsureDefaults() {
	if l.Arrived == nil {
		l.Arrived = func([]Arrival) {}
	}
	if l.Truncated == nil {
		l.Truncated = func(string, int64, int64, string) {}
	}
	if l.FileDeleted == nil {
		l.FileDeleted = func(string) {}
	}
	if l.DiskFull == nil {
		l.DiskFull = func(string, float64, bool) {}
	}
	if l.WriteError == nil {
		l.WriteError = func(error) {}
	}
}
