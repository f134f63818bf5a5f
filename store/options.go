package store

import (
	"fmt"
	"log/slog"
	"path"
	"time"

	"skylark/internal/clock"
	"skylark/internal/vfs"
)

// FlushDiskType says what an acknowledged message has survived.
type FlushDiskType uint8

// AsyncFlush acknowledges from memory, SyncFlush after the bytes are durable.
const (
	AsyncFlush FlushDiskType = iota
	SyncFlush
)

// Options of a store. The comment of each field names Java's key in MessageStoreConfig; the broker translates.
type Options struct {
	RootDir      string // storePathRootDir
	CommitLogDir string // storePathCommitLog; default RootDir/commitlog

	MappedFileSizeCommitLog    int64 // bytes, 1 GiB
	MappedFileSizeConsumeQueue int64 // bytes, 6 000 000; rounded up to a multiple of 20
	// MappedFileSizeBatchConsumeQueue is that of the queues of the kind BatchCQ: mapperFileSizeBatchConsumeQueue, bytes,
	// 13 800 000; rounded up to a multiple of 46.
	MappedFileSizeBatchConsumeQueue int64
	// QueueType tells the kind of a topic's queues; nil = of the kind that is found, and SimpleCQ. It must not call the store.
	QueueType func(topic string) CQType

	// EnableLmq numbers messages in the light queues that they name, EnableMultiDispatch puts them there; one without the
	// other makes no light queue. MaxLmqConsumeQueueNum tells how many there may be; nil = 20000.
	EnableLmq             bool
	EnableMultiDispatch   bool
	MaxLmqConsumeQueueNum func() int

	// EnableConsumeQueueExt keeps a unit with filter bits beside every ConsumeQueue entry (see consumeQueueExt).
	EnableConsumeQueueExt         bool
	MappedFileSizeConsumeQueueExt int64 // bytes, 48 MiB
	// BitMapLengthConsumeQueueExt is how many bits CalcFilterBitMap appends at most.
	BitMapLengthConsumeQueueExt int // 64
	// CalcFilterBitMap appends to dst the filter bits of a message, whose topic and encoded properties are only valid during
	// the call; nil, or nothing appended, leaves the unit without a bit map (Java CommitLogDispatcherCalcBitMap). It runs on
	// event loops, one call at a time.
	CalcFilterBitMap func(dst, topic, properties []byte) []byte

	MaxHashSlotNum     int // slots of an IndexFile, 5 000 000
	MaxIndexNum        int // entries of an IndexFile, 20 000 000
	MessageIndexEnable bool
	MessageIndexSafe   bool

	FlushDiskType                   FlushDiskType
	FlushIntervalCommitLog          time.Duration // 500 ms
	FlushCommitLogLeastPages        int           // 4
	FlushCommitLogThoroughInterval  time.Duration // 10 s
	FlushIntervalConsumeQueue       time.Duration // 1 s
	FlushConsumeQueueLeastPages     int           // 2
	FlushConsumeQueueThoroughPeriod time.Duration // 60 s
	SyncFlushTimeout                time.Duration // 5 s

	MaxMessageSize     int // bytes of a body, 4 MiB; a record may have 64 KiB more
	MaxTopicLength     int // 127
	TopicQueueLockNum  int // 32; without effect: queue offsets are assigned under the put lock (see commitLog)
	CheckCRCOnRecover  bool
	MaxMsgsNumBatch    int // most messages of a query by key, 64
	DefaultQueryMaxNum int // 32

	MaxTransferBytesInMemory int // 262144
	MaxTransferCountInMemory int // 32
	MaxTransferBytesOnDisk   int // 65536
	MaxTransferCountOnDisk   int // 8
	// MemoryBytes × AccessMessageInMemoryMaxRatio is how far behind the end data counts as "in memory".
	MemoryBytes                   int64 // 0 = the machine's or the container's
	AccessMessageInMemoryMaxRatio int   // percent, 40
	MaxFilterMessageSize          int   // bytes of ConsumeQueue scanned a call, 16000

	// ColdDataFlowControlEnable counts GetResult.ColdBytes: records further behind the end than MemoryBytes ×
	// AccessMessageInMemoryHotRatio; with ColdDataScanEnable only those that were read from the disk within
	// ColdDataCheckInterval (Java timerColdDataCheckIntervalMs), 0 = 60 s.
	ColdDataFlowControlEnable     bool
	ColdDataScanEnable            bool
	ColdDataCheckInterval         time.Duration
	AccessMessageInMemoryHotRatio int // percent, 26; negative = 0
	// DataReadAheadDisable reads no further than asked for (Java dataReadAheadEnable=false). See SetReadAhead.
	DataReadAheadDisable bool

	DeleteWhen                   string        // hours of the day, "04", ';'-list
	FileReservedTime             time.Duration // 72 h
	DiskMaxUsedSpaceRatio        int           // percent, 75: delete old files at any hour
	DiskSpaceCleanForciblyRatio  int           // percent, 85: delete regardless of age
	DiskSpaceWarningLevelRatio   int           // percent, 90: refuse to write
	CleanFileForciblyEnable      bool
	CleanResourceInterval        time.Duration // 10 s
	DeleteCommitLogFilesInterval time.Duration // 100 ms between two files
	DestroyMappedFileForcibly    time.Duration // 120 s; without effect: a file is unlinked at once, unmapped by its last reader
	DeleteFileBatchMax           int           // 10

	OSPageCacheBusyTimeout time.Duration // 1 s: the put lock held longer refuses further puts
	// PopulateAheadBytes are faulted in ahead of the write position by a helper, so that the writer meets no fault.
	PopulateAheadBytes int64 // 16 MiB
	// WarmMapedFileEnable populates a whole new CommitLog file ahead and locks it in memory while it is written; default off.
	WarmMapedFileEnable bool
	// FlushLeastPagesWhenWarmMapedFile are the pages between two flushes while a file is warmed, with SYNC_FLUSH.
	FlushLeastPagesWhenWarmMapedFile int // 4096

	// TransientStorePoolEnable writes to buffers first and to the files later (see transientStorePool). A crash of the
	// process then takes what was not committed, up to CommitCommitLogThoroughInterval old, unless it was acknowledged with
	// SYNC_FLUSH. The broker decides when it is in effect.
	TransientStorePoolEnable bool
	TransientStorePoolSize   int // buffers of MappedFileSizeCommitLog bytes, 5
	// FastFailIfNoBufferInStorePool refuses puts when a new file finds no free buffer; else it is written through its mapping.
	FastFailIfNoBufferInStorePool   bool
	WakeCommitWhenPutMessage        bool          // a put may start a commit; else only the interval does
	CommitIntervalCommitLog         time.Duration // 200 ms
	CommitCommitLogLeastPages       int           // 4; 0 commits every put at once
	CommitCommitLogThoroughInterval time.Duration // 200 ms

	// GroupCommitQueue bounds the puts that wait for one flush.
	GroupCommitQueue int // 65536

	// ConfirmedOnly is for a replica whose role a controller decides (enableControllerMode): after a start, and as a slave, it
	// shows consumers nothing but what they saw before, until ConfirmTo says more. Without it a start shows all of the log.
	ConfirmedOnly bool

	// DelayTagsCode gives the tagsCode of messages in SCHEDULE_TOPIC_XXXX: the time they are due (ms). level is the
	// DELAY property.
	DelayTagsCode func(level int, storeTimestamp int64) int64

	// noPrewrite leaves the blocks of SYNC_FLUSH files as the file system made them; for measurements.
	noPrewrite bool
	// zeroRate, bytes a second, is from when on zeros are written ahead (see populateAheadService); 0 is defaultZeroRate.
	zeroRate int64

	FS       vfs.FS
	Clock    clock.Clock
	Log      *slog.Logger
	Listener Listener
}

// DefaultOptions are Java 5.3.3's.
func DefaultOptions(rootDir string) Options {
	o := Options{RootDir: rootDir, MessageIndexEnable: true, CheckCRCOnRecover: true, CleanFileForciblyEnable: true,
		WakeCommitWhenPutMessage: true, CommitCommitLogLeastPages: 4}
	o.EnsureDefaults()
	return o
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// EnsureDefaults fills what is zero. Booleans, and CommitCommitLogLeastPages, are taken as they are.
func (o *Options) EnsureDefaults() {
	setDefault(&o.CommitLogDir, path.Join(o.RootDir, "commitlog"))
	setDefault(&o.MappedFileSizeCommitLog, 1<<30)
	setDefault(&o.MappedFileSizeConsumeQueue, 300000*cqEntryBytes)
	if r := o.MappedFileSizeConsumeQueue % cqEntryBytes; r != 0 {
		o.MappedFileSizeConsumeQueue += cqEntryBytes - r
	}
	o.ensureQueueDefaults()
	o.extDefaults()
	setDefault(&o.MaxHashSlotNum, 5_000_000)
	setDefault(&o.MaxIndexNum, 20_000_000)
	setDefault(&o.FlushIntervalCommitLog, 500*time.Millisecond)
	setDefault(&o.FlushCommitLogLeastPages, 4)
	setDefault(&o.FlushCommitLogThoroughInterval, 10*time.Second)
	setDefault(&o.FlushIntervalConsumeQueue, time.Second)
	setDefault(&o.FlushConsumeQueueLeastPages, 2)
	setDefault(&o.FlushConsumeQueueThoroughPeriod, time.Minute)
	setDefault(&o.SyncFlushTimeout, 5*time.Second)
	setDefault(&o.MaxMessageSize, 4<<20)
	setDefault(&o.MaxTopicLength, 127)
	setDefault(&o.TopicQueueLockNum, 32)
	setDefault(&o.MaxMsgsNumBatch, 64)
	setDefault(&o.DefaultQueryMaxNum, 32)
	setDefault(&o.MaxTransferBytesInMemory, 262144)
	setDefault(&o.MaxTransferCountInMemory, 32)
	setDefault(&o.MaxTransferBytesOnDisk, 65536)
	setDefault(&o.MaxTransferCountOnDisk, 8)
	setDefault(&o.AccessMessageInMemoryMaxRatio, 40)
	setDefault(&o.AccessMessageInMemoryHotRatio, 26)
	setDefault(&o.ColdDataCheckInterval, time.Minute)
	setDefault(&o.MaxFilterMessageSize, 16000)
	setDefault(&o.DeleteWhen, "04")
	setDefault(&o.FileReservedTime, 72*time.Hour)
	setDefault(&o.DiskMaxUsedSpaceRatio, 75)
	setDefault(&o.DiskSpaceCleanForciblyRatio, 85)
	setDefault(&o.DiskSpaceWarningLevelRatio, 90)
	setDefault(&o.CleanResourceInterval, 10*time.Second)
	setDefault(&o.DeleteCommitLogFilesInterval, 100*time.Millisecond)
	setDefault(&o.DestroyMappedFileForcibly, 120*time.Second)
	setDefault(&o.DeleteFileBatchMax, 10)
	setDefault(&o.OSPageCacheBusyTimeout, time.Second)
	setDefault(&o.PopulateAheadBytes, 16<<20)
	setDefault(&o.zeroRate, defaultZeroRate)
	setDefault(&o.GroupCommitQueue, 65536)
	setDefault(&o.FlushLeastPagesWhenWarmMapedFile, 4096)
	setDefault(&o.TransientStorePoolSize, 5)
	setDefault(&o.CommitIntervalCommitLog, 200*time.Millisecond)
	setDefault(&o.CommitCommitLogThoroughInterval, 200*time.Millisecond)
	if o.DelayTagsCode == nil {
		o.DelayTagsCode = func(_ int, storeTimestamp int64) int64 { return storeTimestamp + 1000 }
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Listener.EnsureDefaults()
}

// ensureQueueDefaults fills what is zero of batch queues and light queues.
func (o *Options) ensureQueueDefaults() {
	setDefault(&o.MappedFileSizeBatchConsumeQueue, 300000*batchEntryBytes)
	if r := o.MappedFileSizeBatchConsumeQueue % batchEntryBytes; r != 0 {
		o.MappedFileSizeBatchConsumeQueue += batchEntryBytes - r
	}
	if o.QueueType == nil {
		o.QueueType = func(string) CQType { return CQUnknown }
	}
	if o.MaxLmqConsumeQueueNum == nil {
		o.MaxLmqConsumeQueueNum = func() int { return 20000 }
	}
}

// Validate refuses sizes the formats cannot hold.
func (o *Options) Validate() error {
	switch {
	case o.RootDir == "":
		return fmt.Errorf("store: storePathRootDir is empty")
	case o.MappedFileSizeCommitLog < 4096 || o.MappedFileSizeCommitLog > 1<<31-1:
		return fmt.Errorf("store: mappedFileSizeCommitLog %d not in [4096, 2147483647]", o.MappedFileSizeCommitLog)
	case o.MappedFileSizeConsumeQueue < cqEntryBytes || o.MappedFileSizeConsumeQueue > 1<<31-1:
		return fmt.Errorf("store: mappedFileSizeConsumeQueue %d not in [20, 2147483647]", o.MappedFileSizeConsumeQueue)
	case o.MappedFileSizeBatchConsumeQueue < batchEntryBytes || o.MappedFileSizeBatchConsumeQueue > 1<<31-1:
		return fmt.Errorf("store: mapperFileSizeBatchConsumeQueue %d not in [46, 2147483647]",
			o.MappedFileSizeBatchConsumeQueue)
	case o.MappedFileSizeConsumeQueueExt < 64 || o.MappedFileSizeConsumeQueueExt > 1<<31-1:
		return fmt.Errorf("store: mappedFileSizeConsumeQueueExt %d not in [64, 2147483647]", o.MappedFileSizeConsumeQueueExt)
	case o.MaxMessageSize < 10:
		return fmt.Errorf("store: maxMessageSize %d is below 10", o.MaxMessageSize)
	case o.MaxHashSlotNum < 1 || o.MaxIndexNum < 2:
		return fmt.Errorf("store: maxHashSlotNum %d or maxIndexNum %d too small", o.MaxHashSlotNum, o.MaxIndexNum)
	}
	return nil
}

// cqEntryBytes is one ConsumeQueue entry: phyOffset 8, size 4, tagsCode 8.
const cqEntryBytes = 20
