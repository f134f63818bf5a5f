package transaction

import (
	"log/slog"
	"net/netip"
	"time"

	"skylark/broker/conn"
	"skylark/codec"
	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/store"
)

// Group is the consumer group whose offsets are the progress in the half and op queues.
const Group = codec.TransGroup

// Limits.
const (
	// MaxOpen bounds the open transactions, 200 bytes each: beyond it half messages are refused with SYSTEM_BUSY.
	MaxOpen = 1 << 20
	// MaxGivenUp is how many given-up transactions are listed; older ones are in TRANS_CHECK_MAX_TIME_TOPIC only.
	MaxGivenUp = 1000
	// maxLag is how many half messages the oldest open transaction may be behind the newest before it is put back; at
	// least lagFactor times the open ones, so that they do not push each other round.
	maxLag    = 1 << 17
	lagFactor = 4
	// keepDone is how many transactions at least remember how they ended, for an END_TRANSACTION that comes again.
	keepDone = 4096
	// maxRound is the time one round of checks takes at most (Java MAX_PROCESS_TIME_LIMIT).
	maxRound = time.Minute
	// maxPendingBytes is what may wait for a producer's socket before it is asked no more in this round.
	maxPendingBytes = 1 << 20
	// maxKeptBuffer bounds the buffers that are kept for the next message.
	maxKeptBuffer = 256 << 10
	// complainInterval is the least distance of two log lines about the same trouble.
	complainInterval = 30 * time.Second
	// loadTimeout bounds how long an END_TRANSACTION waits for the tables after a start.
	loadTimeout = 3 * time.Second
	// maxSkew is how much older than its arrival a new half message may be, before its producer's clock is not believed.
	maxSkew = time.Minute
	// maxNames bounds the group names that are kept once for all their transactions.
	maxNames = 1 << 16
)

// Store is what the service needs of a message store.
type Store interface {
	Append(m *codec.Message) store.PutResult
	CanAppend(sizeBytes int) bool
	Durable(end codec.PhyOffset, timeout time.Duration, done func(store.PutStatus)) bool
	ReadRecord(p codec.PhyOffset, buf []byte) ([]byte, error)
	PeekRecord(p codec.PhyOffset, buf []byte) ([]byte, bool)
	QueueEntries(topic string, queueID int32, from codec.QueueOffset, count int) []store.QueueEntry
	MinOffset(topic string, queueID int32) codec.QueueOffset
	MaxOffset(topic string, queueID int32) codec.QueueOffset
	OffsetByTime(topic string, queueID int32, timestampMillis int64, b store.Boundary) codec.QueueOffset
	MinPhyOffset() codec.PhyOffset
	MaxPhyOffset() codec.PhyOffset
	FlushedWhere() codec.PhyOffset
	DispatchBehindBytes() int64
}

// Offsets are the consumer offsets.
type Offsets interface {
	Query(group, topic string, queueID int32) (at codec.QueueOffset, ok bool)
	Commit(from netip.AddrPort, group, topic string, queueID int32, at codec.QueueOffset) error
}

// Settings are the configuration keys, which may change while the broker runs.
type Settings struct {
	Timeout       time.Duration // transactionTimeOut: no question before that age
	CheckMax      int           // transactionCheckMax
	CheckInterval time.Duration // transactionCheckInterval
	OpMaxBytes    int           // transactionOpMsgMaxSize; 1 writes every op message alone, as 4.9 does
	OpInterval    time.Duration // transactionOpBatchInterval
	ReservedTime  time.Duration // fileReservedTime: what is older is given up
	// MetricsInterval is how often config/transactionMetrics is written if it changed.
	MetricsInterval time.Duration // transactionMetricFlushInterval
}

// Options of the service.
type Options struct {
	Store   Store
	Offsets Offsets
	// LogFileSize is mappedFileSizeCommitLog in bytes: where the search of the log goes on behind a blank.
	LogFileSize int64
	FS          vfs.FS
	// File is config/transactionMetrics.
	File       string
	BrokerName string
	// StoreHost is the address in op records.
	StoreHost func() netip.AddrPort
	Settings  func() Settings
	// Producers are the live members of a producer group.
	Producers func(group string) []*conn.Client
	// Ask sends a oneway request to a client.
	Ask func(c reactor.Conn, req *codec.Command) error
	// Delay makes a put one of the schedule topic.
	Delay func(m *codec.Message, level int)
	// Timed makes a put with one of the timer's properties one of the timer topic, if its time has not come. Another
	// status than PutOK, with its reason, is that of a message that cannot be put.
	Timed func(m *codec.Message) (store.PutStatus, error)
	// GiveUpTopic makes TRANS_CHECK_MAX_TIME_TOPIC unless it exists.
	GiveUpTopic func() error
	// Stored is told what was put, for the statistics.
	Stored func(m *codec.Message, put *store.PutResult)
	Clock  clock.Clock
	Log    *slog.Logger

	maxLag int // tests: another than the constant
}
