package config

// MessageStoreConfig is Java's org.apache.rocketmq.store.config.MessageStoreConfig: files, flushing,
// cleaning, replication. The broker turns it into the options of its store. Java 5.3.3's defaults; keys of
// later versions are at the end. For the tags see the package comment.
type MessageStoreConfig struct {
	// Directories.

	// StorePathRootDir: root of all files of the store; $HOME/store.
	StorePathRootDir string `prop:"storePathRootDir" is:"fixed"`
	// StorePathCommitLog: CommitLog directory, or several separated by ','; empty means root/commitlog.
	StorePathCommitLog string `prop:"storePathCommitLog" is:"fixed"`
	// StorePathDLedgerCommitLog: DLedger's log.
	StorePathDLedgerCommitLog string `prop:"storePathDLedgerCommitLog" is:"fixed"`
	// StorePathEpochFile: file of master epochs; empty means root/epochFileCheckpoint.
	StorePathEpochFile string `prop:"storePathEpochFile" is:"fixed"`
	// StorePathBrokerIdentity: file with the broker id a controller gave; empty means root/brokerIdentity.
	StorePathBrokerIdentity string `prop:"storePathBrokerIdentity" is:"fixed"`
	// ReadOnlyCommitLogStorePaths: directories of storePathCommitLog that get no new files, ',' between.
	ReadOnlyCommitLogStorePaths string `prop:"readOnlyCommitLogStorePaths" is:"fixed"`
	// MappedFileSizeCommitLog: bytes of one CommitLog file; 1 GiB. Must fit the files that are there.
	MappedFileSizeCommitLog int `prop:"mappedFileSizeCommitLog" def:"1073741824" is:"4096.."`

	// Compacted topics.

	// CompactionMappedFileSize: bytes of one file of a compacted log.
	CompactionMappedFileSize int `prop:"compactionMappedFileSize" def:"104857600" is:"4096.."`
	// CompactionCqMappedFileSize: bytes of one file of a compacted ConsumeQueue.
	CompactionCqMappedFileSize int `prop:"compactionCqMappedFileSize" def:"10485760" is:"400.."`
	// CompactionScheduleInternal: milliseconds between compactions.
	CompactionScheduleInternal int `prop:"compactionScheduleInternal" def:"900000" is:"1.."`
	// MaxOffsetMapSize: bytes for the table of keys of one compaction.
	MaxOffsetMapSize int `prop:"maxOffsetMapSize" def:"104857600" is:"1.."`
	// CompactionThreadNum: compactions at a time.
	CompactionThreadNum int `prop:"compactionThreadNum" def:"6" is:"1.."`
	// EnableCompaction: compact topics with cleanup.policy=COMPACTION.
	EnableCompaction bool `prop:"enableCompaction" def:"true"`

	// Timer messages.

	// MappedFileSizeTimerLog: bytes of one timer log file.
	MappedFileSizeTimerLog int `prop:"mappedFileSizeTimerLog" def:"104857600" is:"4096.."`
	// TimerPrecisionMs: milliseconds of one slot of the timer wheel; only 1000 is in use.
	TimerPrecisionMs int `prop:"timerPrecisionMs" def:"1000" is:"100..1000"`
	// TimerRollWindowSlot: slots a message may lie ahead before it is rolled over; 2 days of seconds.
	TimerRollWindowSlot int `prop:"timerRollWindowSlot" def:"172800" is:"2.."`
	// TimerFlushIntervalMs: milliseconds between flushes of the timer files.
	TimerFlushIntervalMs int `prop:"timerFlushIntervalMs" def:"1000" is:"1.."`
	// TimerGetMessageThreadNum: workers that read due messages.
	TimerGetMessageThreadNum int `prop:"timerGetMessageThreadNum" def:"3" is:"1.."`
	// TimerPutMessageThreadNum: workers that store due messages.
	TimerPutMessageThreadNum int `prop:"timerPutMessageThreadNum" def:"3" is:"1.."`
	// TimerEnableDisruptor: Java's choice of queue; has no effect.
	TimerEnableDisruptor bool `prop:"timerEnableDisruptor"`
	// TimerEnableCheckMetrics: recount the timer metrics at timerCheckMetricsWhen.
	TimerEnableCheckMetrics bool `prop:"timerEnableCheckMetrics" def:"true"`
	// TimerInterceptDelayLevel: deliver delay levels by the timer wheel.
	TimerInterceptDelayLevel bool `prop:"timerInterceptDelayLevel" is:"live"`
	// TimerMaxDelaySec: seconds a message may be delayed; longer is refused. 3 days.
	TimerMaxDelaySec int `prop:"timerMaxDelaySec" def:"259200" is:"1.. live"`
	// TimerWheelEnable: deliver messages at an arbitrary time.
	TimerWheelEnable bool `prop:"timerWheelEnable" def:"true"`
	// DisappearTimeAfterStart: milliseconds after start during which the broker does not register and
	// delivers no timer messages; -1 none.
	DisappearTimeAfterStart int `prop:"disappearTimeAfterStart" def:"-1" is:"-1.."`
	// TimerStopEnqueue: stop taking timer messages in.
	TimerStopEnqueue bool `prop:"timerStopEnqueue" is:"live"`
	// TimerCheckMetricsWhen: hours of day, ';' between, for timerEnableCheckMetrics.
	TimerCheckMetricsWhen string `prop:"timerCheckMetricsWhen" def:"05" is:"live"`
	// TimerSkipUnknownError: drop timer messages that cannot be read or stored.
	TimerSkipUnknownError bool `prop:"timerSkipUnknownError" is:"live"`
	// TimerWarmEnable: touch timer files ahead.
	TimerWarmEnable bool `prop:"timerWarmEnable"`
	// TimerStopDequeue: stop delivering timer messages.
	TimerStopDequeue bool `prop:"timerStopDequeue" is:"live"`
	// TimerEnableRetryUntilSuccess: try a due message again for ever.
	TimerEnableRetryUntilSuccess bool `prop:"timerEnableRetryUntilSuccess" is:"live"`
	// TimerCongestNumEachSlot: messages per slot above which new ones are refused by chance.
	TimerCongestNumEachSlot int `prop:"timerCongestNumEachSlot" def:"2147483647" is:"1.. live"`
	// TimerMetricSmallThreshold: distance metrics below it are not broken down.
	TimerMetricSmallThreshold int `prop:"timerMetricSmallThreshold" def:"1000000" is:"live"`
	// TimerProgressLogIntervalMs: milliseconds between progress lines.
	TimerProgressLogIntervalMs int `prop:"timerProgressLogIntervalMs" def:"10000" is:"1.. live"`

	// Queues and indexes.

	// StoreType: kind of ConsumeQueue store.
	StoreType string `prop:"storeType" def:"default" one:"default|defaultRocksDB|combine"`
	// MappedFileSizeConsumeQueue: bytes of one ConsumeQueue file, rounded up to a multiple of 20; 300000
	// entries.
	MappedFileSizeConsumeQueue int `prop:"mappedFileSizeConsumeQueue" def:"6000000" is:"20.."`
	// EnableConsumeQueueExt: keep filter bits beside the ConsumeQueue.
	EnableConsumeQueueExt bool `prop:"enableConsumeQueueExt"`
	// MappedFileSizeConsumeQueueExt: bytes of one file of filter bits.
	MappedFileSizeConsumeQueueExt int `prop:"mappedFileSizeConsumeQueueExt" def:"50331648" is:"1024.."`
	// MapperFileSizeBatchConsumeQueue: bytes of one batch ConsumeQueue file, rounded up to a multiple of 46.
	MapperFileSizeBatchConsumeQueue int `prop:"mapperFileSizeBatchConsumeQueue" def:"13800000" is:"46.."`
	// BitMapLengthConsumeQueueExt: filter bits per entry.
	BitMapLengthConsumeQueueExt int `prop:"bitMapLengthConsumeQueueExt" def:"64" is:"8.."`

	// Flushing.

	// FlushIntervalCommitLog: milliseconds between flushes with ASYNC_FLUSH.
	FlushIntervalCommitLog int `prop:"flushIntervalCommitLog" def:"500" is:"1.. live"`
	// CommitIntervalCommitLog: milliseconds between commits from the transient pool to the file.
	CommitIntervalCommitLog int `prop:"commitIntervalCommitLog" def:"200" is:"1.. live"`
	// MaxRecoveryCommitlogFiles: files looked at on recovery of the RocksDB ConsumeQueue.
	MaxRecoveryCommitlogFiles int `prop:"maxRecoveryCommitlogFiles" def:"30" is:"1.."`
	// DiskSpaceWarningLevelRatio: percent of disk used from which the broker refuses to write.
	DiskSpaceWarningLevelRatio int `prop:"diskSpaceWarningLevelRatio" def:"90" is:"1..100 live"`
	// DiskSpaceCleanForciblyRatio: percent of disk used from which expired or not, files go.
	DiskSpaceCleanForciblyRatio int `prop:"diskSpaceCleanForciblyRatio" def:"85" is:"1..100 live"`
	// UseReentrantLockWhenPutMessage: put lock that parks (true) or spins (false) in Java.
	UseReentrantLockWhenPutMessage bool `prop:"useReentrantLockWhenPutMessage" def:"true"`
	// FlushCommitLogTimed: flush at fixed times instead of on wake-up.
	FlushCommitLogTimed bool `prop:"flushCommitLogTimed" def:"true" is:"live"`
	// FlushIntervalConsumeQueue: milliseconds between flushes of the ConsumeQueues.
	FlushIntervalConsumeQueue int `prop:"flushIntervalConsumeQueue" def:"1000" is:"1.. live"`

	// Cleaning.

	// CleanResourceInterval: milliseconds between cleaning rounds.
	CleanResourceInterval int `prop:"cleanResourceInterval" def:"10000" is:"1.. live"`
	// DeleteCommitLogFilesInterval: milliseconds between two deletions of CommitLog files.
	DeleteCommitLogFilesInterval int `prop:"deleteCommitLogFilesInterval" def:"100" is:"live"`
	// DeleteConsumeQueueFilesInterval: milliseconds between two deletions of ConsumeQueue files.
	DeleteConsumeQueueFilesInterval int `prop:"deleteConsumeQueueFilesInterval" def:"100" is:"live"`
	// DestroyMapedFileIntervalForcibly: milliseconds after which a file still in use is unmapped all the
	// same.
	DestroyMapedFileIntervalForcibly int `prop:"destroyMapedFileIntervalForcibly" def:"120000" is:"live"`
	// RedeleteHangedFileInterval: milliseconds between new tries for files that would not go.
	RedeleteHangedFileInterval int `prop:"redeleteHangedFileInterval" def:"120000" is:"1.. live"`
	// DeleteWhen: hours of day, ';' between, at which expired files go: "04" or "04;16".
	DeleteWhen string `prop:"deleteWhen" def:"04" is:"live"`
	// DiskMaxUsedSpaceRatio: percent of disk used from which expired files go at any hour.
	DiskMaxUsedSpaceRatio int `prop:"diskMaxUsedSpaceRatio" def:"75" is:"1..100 live"`
	// FileReservedTime: hours a file is kept after its last write.
	FileReservedTime int `prop:"fileReservedTime" def:"72" is:"1.. live"`
	// DeleteFileBatchMax: files deleted in one round.
	DeleteFileBatchMax int `prop:"deleteFileBatchMax" def:"10" is:"1.. live"`
	// PutMsgIndexHightWater: unused.
	PutMsgIndexHightWater int `prop:"putMsgIndexHightWater" def:"600000"`

	// Limits and recovery.

	// MaxMessageSize: bytes of one message body; 4 MiB.
	MaxMessageSize int `prop:"maxMessageSize" def:"4194304" is:"1.. live"`
	// MaxFilterMessageSize: bytes of ConsumeQueue entries one filtered pull may pass over.
	MaxFilterMessageSize int `prop:"maxFilterMessageSize" def:"16000" is:"20.. live"`
	// CheckCRCOnRecover: check body CRCs on recovery.
	CheckCRCOnRecover bool `prop:"checkCRCOnRecover" def:"true"`
	// FlushCommitLogLeastPages: pages of 4 KiB that make a flush of the CommitLog worth while.
	FlushCommitLogLeastPages int `prop:"flushCommitLogLeastPages" def:"4" is:"live"`
	// CommitCommitLogLeastPages: the same for commits from the transient pool.
	CommitCommitLogLeastPages int `prop:"commitCommitLogLeastPages" def:"4" is:"live"`
	// FlushLeastPagesWhenWarmMapedFile: pages written between flushes while a new file is warmed.
	FlushLeastPagesWhenWarmMapedFile int `prop:"flushLeastPagesWhenWarmMapedFile" def:"4096" is:"1.."`
	// FlushConsumeQueueLeastPages: pages that make a flush of a ConsumeQueue worth while.
	FlushConsumeQueueLeastPages int `prop:"flushConsumeQueueLeastPages" def:"2" is:"live"`
	// FlushCommitLogThoroughInterval: milliseconds after which the CommitLog is flushed however little there
	// is.
	FlushCommitLogThoroughInterval int `prop:"flushCommitLogThoroughInterval" def:"10000" is:"1.. live"`
	// CommitCommitLogThoroughInterval: the same for commits.
	CommitCommitLogThoroughInterval int `prop:"commitCommitLogThoroughInterval" def:"200" is:"1.. live"`
	// FlushConsumeQueueThoroughInterval: the same for ConsumeQueues.
	FlushConsumeQueueThoroughInterval int `prop:"flushConsumeQueueThoroughInterval" def:"60000" is:"1.. live"`

	// Reading.

	// MaxTransferBytesOnMessageInMemory: bytes one pull gets from memory.
	MaxTransferBytesOnMessageInMemory int `prop:"maxTransferBytesOnMessageInMemory" def:"262144" is:"1.. live"`
	// MaxTransferCountOnMessageInMemory: messages one pull gets from memory.
	MaxTransferCountOnMessageInMemory int `prop:"maxTransferCountOnMessageInMemory" def:"32" is:"1.. live"`
	// MaxTransferBytesOnMessageInDisk: bytes one pull gets from disk.
	MaxTransferBytesOnMessageInDisk int `prop:"maxTransferBytesOnMessageInDisk" def:"65536" is:"1.. live"`
	// MaxTransferCountOnMessageInDisk: messages one pull gets from disk.
	MaxTransferCountOnMessageInDisk int `prop:"maxTransferCountOnMessageInDisk" def:"8" is:"1.. live"`
	// AccessMessageInMemoryMaxRatio: percent of RAM behind the end of the CommitLog that counts as memory;
	// 10 less on a slave.
	AccessMessageInMemoryMaxRatio int `prop:"accessMessageInMemoryMaxRatio" def:"40" is:"..100 live"`
	// MessageIndexEnable: write index files.
	MessageIndexEnable bool `prop:"messageIndexEnable" def:"true"`
	// MaxHashSlotNum: hash slots of one index file.
	MaxHashSlotNum int `prop:"maxHashSlotNum" def:"5000000" is:"1.."`
	// MaxIndexNum: entries of one index file.
	MaxIndexNum int `prop:"maxIndexNum" def:"20000000" is:"1.."`
	// MaxMsgsNumBatch: messages one query by key returns.
	MaxMsgsNumBatch int `prop:"maxMsgsNumBatch" def:"64" is:"1.. live"`
	// MessageIndexSafe: replay the index on recovery before anything else.
	MessageIndexSafe bool `prop:"messageIndexSafe"`

	// Replication.

	// HaListenPort: port slaves connect to; 0 means listenPort + 1.
	HaListenPort int `prop:"haListenPort" def:"10912" is:"..65535"`
	// HaSendHeartbeatInterval: milliseconds of silence after which an HA heartbeat is sent.
	HaSendHeartbeatInterval int `prop:"haSendHeartbeatInterval" def:"5000" is:"1.. live"`
	// HaHousekeepingInterval: milliseconds of silence after which an HA connection is closed.
	HaHousekeepingInterval int `prop:"haHousekeepingInterval" def:"20000" is:"1.. live"`
	// HaTransferBatchSize: bytes of one HA frame's body.
	HaTransferBatchSize int `prop:"haTransferBatchSize" def:"32768" is:"1..4194304 live"`
	// HaMasterAddress: slave: "host:port" of the master's HA port, instead of the one from the name server.
	HaMasterAddress string `prop:"haMasterAddress" is:"live"`
	// HaMaxGapNotInSync: bytes a slave may lag and still count as in sync; 4.9: haSlaveFallbehindMax.
	HaMaxGapNotInSync int `prop:"haMaxGapNotInSync" def:"268435456" old:"haSlaveFallbehindMax" is:"1.. live"`
	// BrokerRole: whether sends wait for slaves, or the broker is one.
	BrokerRole BrokerRole `prop:"brokerRole" def:"ASYNC_MASTER"`
	// FlushDiskType: whether sends wait for the disk.
	FlushDiskType FlushDiskType `prop:"flushDiskType" def:"ASYNC_FLUSH"`
	// SyncFlushTimeout: milliseconds a send waits for the disk.
	SyncFlushTimeout int `prop:"syncFlushTimeout" def:"5000" is:"1.. live"`
	// PutMessageTimeout: milliseconds a send waits for disk and slaves together.
	PutMessageTimeout int `prop:"putMessageTimeout" def:"8000" is:"1.. live"`
	// SlaveTimeout: milliseconds a send waits for slaves.
	SlaveTimeout int `prop:"slaveTimeout" def:"3000" is:"1.. live"`

	// Delay levels.

	// MessageDelayLevel: delays by level, blanks between, units s m h d; the first is level 1.
	MessageDelayLevel string `prop:"messageDelayLevel"`
	// FlushDelayOffsetInterval: milliseconds between writes of delayOffset.json.
	FlushDelayOffsetInterval int64 `prop:"flushDelayOffsetInterval" def:"10000" is:"1.."`

	// Odds and ends.

	// CleanFileForciblyEnable: delete files before their time when the disk fills.
	CleanFileForciblyEnable bool `prop:"cleanFileForciblyEnable" def:"true" is:"live"`
	// WarmMapedFileEnable: touch every page of a new CommitLog file ahead.
	WarmMapedFileEnable bool `prop:"warmMapedFileEnable"`
	// OffsetCheckInSlave: a slave too checks the offsets of pulls.
	OffsetCheckInSlave bool `prop:"offsetCheckInSlave" is:"live"`
	// DebugLockEnable: log long waits for the put lock.
	DebugLockEnable bool `prop:"debugLockEnable"`
	// DuplicationEnable: re-dispatch from a confirmed offset; unused.
	DuplicationEnable bool `prop:"duplicationEnable"`
	// DiskFallRecorded: record how far consumers are behind.
	DiskFallRecorded bool `prop:"diskFallRecorded" def:"true" is:"live"`
	// OsPageCacheBusyTimeOutMills: milliseconds the put lock may be held before the broker counts as busy.
	OsPageCacheBusyTimeOutMills int64 `prop:"osPageCacheBusyTimeOutMills" def:"1000" is:"1.. live"`
	// DefaultQueryMaxNum: messages QUERY_MESSAGE by unique key returns.
	DefaultQueryMaxNum int `prop:"defaultQueryMaxNum" def:"32" is:"1.. live"`
	// TransientStorePoolEnable: write to off-heap buffers first and to the file later; asynchronous masters
	// only, loses more on a crash.
	TransientStorePoolEnable bool `prop:"transientStorePoolEnable"`
	// TransientStorePoolSize: buffers of mappedFileSizeCommitLog bytes in that pool.
	TransientStorePoolSize int `prop:"transientStorePoolSize" def:"5" is:"1..256"`
	// FastFailIfNoBufferInStorePool: refuse sends when the pool is empty.
	FastFailIfNoBufferInStorePool bool `prop:"fastFailIfNoBufferInStorePool" is:"live"`

	// DLedger.

	// EnableDLegerCommitLog: DLedger replication (4.x).
	EnableDLegerCommitLog bool `prop:"enableDLegerCommitLog" is:"fixed"`
	// DLegerGroup: DLedger group.
	DLegerGroup string `prop:"dLegerGroup" is:"fixed"`
	// DLegerPeers: DLedger peers as "n0-host:port;n1-host:port".
	DLegerPeers string `prop:"dLegerPeers" is:"fixed"`
	// DLegerSelfId: own id among dLegerPeers.
	DLegerSelfId string `prop:"dLegerSelfId" is:"fixed"`
	// PreferredLeaderId: DLedger peer that should lead.
	PreferredLeaderId string `prop:"preferredLeaderId"`
	// EnableBatchPush: DLedger sends entries in batches.
	EnableBatchPush bool `prop:"enableBatchPush" old:"isEnableBatchPush"`

	// Schedule, light queues.

	// EnableScheduleMessageStats: count scheduled messages in the statistics.
	EnableScheduleMessageStats bool `prop:"enableScheduleMessageStats" def:"true" is:"live"`
	// EnableLmq: light message queues.
	EnableLmq bool `prop:"enableLmq"`
	// EnableMultiDispatch: 4.9: one message into several light queues.
	EnableMultiDispatch bool `prop:"enableMultiDispatch"`
	// MaxLmqConsumeQueueNum: light queues in all.
	MaxLmqConsumeQueueNum int `prop:"maxLmqConsumeQueueNum" def:"20000" is:"1.. live"`
	// EnableScheduleAsyncDeliver: deliver due messages without waiting for each.
	EnableScheduleAsyncDeliver bool `prop:"enableScheduleAsyncDeliver"`
	// ScheduleAsyncDeliverMaxPendingLimit: deliveries under way per level.
	ScheduleAsyncDeliverMaxPendingLimit int `prop:"scheduleAsyncDeliverMaxPendingLimit" def:"2000" is:"1.. live"`
	// ScheduleAsyncDeliverMaxResendNum2Blocked: failed tries after which a level waits.
	ScheduleAsyncDeliverMaxResendNum2Blocked int `prop:"scheduleAsyncDeliverMaxResendNum2Blocked" is:"live"`
	// MaxBatchDeleteFilesNum: files of deleted topics removed at a time.
	MaxBatchDeleteFilesNum int `prop:"maxBatchDeleteFilesNum" def:"50" is:"1.. live"`

	// Dispatch.

	// DispatchCqThreads: unused in the default store.
	DispatchCqThreads int `prop:"dispatchCqThreads" def:"10" is:"1.."`
	// DispatchCqCacheNum: unused in the default store.
	DispatchCqCacheNum int `prop:"dispatchCqCacheNum" def:"4096" is:"1.."`
	// EnableAsyncReput: unused in the default store.
	EnableAsyncReput bool `prop:"enableAsyncReput" def:"true"`
	// RecheckReputOffsetFromCq: start dispatching at the smallest end of the ConsumeQueues.
	RecheckReputOffsetFromCq bool `prop:"recheckReputOffsetFromCq"`
	// MaxTopicLength: bytes of a topic name; only checked without autoMessageVersionOnTopicLen.
	MaxTopicLength int `prop:"maxTopicLength" def:"127" is:"1..32767"`
	// AutoMessageVersionOnTopicLen: use record version 2 for topics beyond 127 bytes.
	AutoMessageVersionOnTopicLen bool `prop:"autoMessageVersionOnTopicLen" def:"true" is:"live"`
	// EnabledAppendPropCRC: append a CRC over body and properties to each message.
	EnabledAppendPropCRC bool `prop:"enabledAppendPropCRC"`
	// ForceVerifyPropCRC: check that CRC on recovery.
	ForceVerifyPropCRC bool `prop:"forceVerifyPropCRC"`
	// TravelCqFileNumWhenGetMessage: ConsumeQueue files a pull passes over when entries are gone from the
	// CommitLog.
	TravelCqFileNumWhenGetMessage int `prop:"travelCqFileNumWhenGetMessage" def:"1" is:"1.. live"`
	// CorrectLogicMinOffsetSleepInterval: milliseconds between two corrections of a queue's smallest offset.
	CorrectLogicMinOffsetSleepInterval int `prop:"correctLogicMinOffsetSleepInterval" def:"1" is:"live"`
	// CorrectLogicMinOffsetForceInterval: milliseconds after which that offset is corrected anyway.
	CorrectLogicMinOffsetForceInterval int `prop:"correctLogicMinOffsetForceInterval" def:"300000" is:"1.. live"`

	// Giving memory back.

	// MappedFileSwapEnable: map old files anew to give page tables back.
	MappedFileSwapEnable bool `prop:"mappedFileSwapEnable" def:"true"`
	// CommitLogForceSwapMapInterval: milliseconds after which an old CommitLog file is mapped anew anyway.
	CommitLogForceSwapMapInterval int64 `prop:"commitLogForceSwapMapInterval" def:"43200000" is:"1.."`
	// CommitLogSwapMapInterval: milliseconds after which an unused one is.
	CommitLogSwapMapInterval int64 `prop:"commitLogSwapMapInterval" def:"3600000" is:"1.."`
	// CommitLogSwapMapReserveFileNum: newest CommitLog files left alone.
	CommitLogSwapMapReserveFileNum int `prop:"commitLogSwapMapReserveFileNum" def:"100"`
	// LogicQueueForceSwapMapInterval: as commitLogForceSwapMapInterval, for ConsumeQueues.
	LogicQueueForceSwapMapInterval int64 `prop:"logicQueueForceSwapMapInterval" def:"43200000" is:"1.."`
	// LogicQueueSwapMapInterval: as commitLogSwapMapInterval, for ConsumeQueues.
	LogicQueueSwapMapInterval int64 `prop:"logicQueueSwapMapInterval" def:"3600000" is:"1.."`
	// CleanSwapedMapInterval: milliseconds before the old mapping goes.
	CleanSwapedMapInterval int64 `prop:"cleanSwapedMapInterval" def:"300000" is:"1.."`
	// LogicQueueSwapMapReserveFileNum: newest ConsumeQueue files left alone.
	LogicQueueSwapMapReserveFileNum int `prop:"logicQueueSwapMapReserveFileNum" def:"20"`
	// SearchBcqByCacheEnable: find batches by the cache of file bounds.
	SearchBcqByCacheEnable bool `prop:"searchBcqByCacheEnable" def:"true"`
	// DispatchFromSenderThread: unused in the default store.
	DispatchFromSenderThread bool `prop:"dispatchFromSenderThread"`
	// WakeCommitWhenPutMessage: wake the committer on each send.
	WakeCommitWhenPutMessage bool `prop:"wakeCommitWhenPutMessage" def:"true"`
	// WakeFlushWhenPutMessage: wake the flusher on each send.
	WakeFlushWhenPutMessage bool `prop:"wakeFlushWhenPutMessage" is:"live"`
	// EnableCleanExpiredOffset: delete queue offsets of topics that are gone.
	EnableCleanExpiredOffset bool `prop:"enableCleanExpiredOffset"`
	// MaxAsyncPutMessageRequests: sends under way that wait for flush or slaves.
	MaxAsyncPutMessageRequests int `prop:"maxAsyncPutMessageRequests" def:"5000" is:"1.."`
	// PullBatchMaxMessageCount: messages one pull of a batch topic gets.
	PullBatchMaxMessageCount int `prop:"pullBatchMaxMessageCount" def:"160" is:"1.. live"`

	// Replicas.

	// TotalReplicas: replicas of the broker set.
	TotalReplicas int `prop:"totalReplicas" def:"1" is:"1..64"`
	// InSyncReplicas: replicas, master included, a SYNC_MASTER send waits for; 1 waits for none but the
	// master.
	InSyncReplicas int `prop:"inSyncReplicas" def:"1" is:"1..64 live"`
	// MinInSyncReplicas: smallest number enableAutoInSyncReplicas may go down to.
	MinInSyncReplicas int `prop:"minInSyncReplicas" def:"1" is:"1..64 live"`
	// AllAckInSyncStateSet: a send waits for all of the SyncStateSet (controller mode).
	AllAckInSyncStateSet bool `prop:"allAckInSyncStateSet" is:"live"`
	// EnableAutoInSyncReplicas: lower inSyncReplicas to the replicas that are there.
	EnableAutoInSyncReplicas bool `prop:"enableAutoInSyncReplicas" is:"live"`
	// HaFlowControlEnable: limit replication to maxHaTransferByteInSecond.
	HaFlowControlEnable bool `prop:"haFlowControlEnable" is:"live"`
	// MaxHaTransferByteInSecond: bytes per second and slave.
	MaxHaTransferByteInSecond int64 `prop:"maxHaTransferByteInSecond" def:"104857600" is:"1.. live"`
	// HaMaxTimeSlaveNotCatchup: milliseconds a slave may lag before it leaves the SyncStateSet. Java: 15000.
	HaMaxTimeSlaveNotCatchup int64 `prop:"haMaxTimeSlaveNotCatchup" def:"2000" is:"1.. live"`
	// SyncMasterFlushOffsetWhenStartup: slave: take the flushed offset from the master at start.
	SyncMasterFlushOffsetWhenStartup bool `prop:"syncMasterFlushOffsetWhenStartup"`
	// MaxChecksumRange: bytes compared between master and slave in acting-master groups.
	MaxChecksumRange int64 `prop:"maxChecksumRange" def:"1073741824" is:"1.."`
	// ReplicasPerDiskPartition: stores that share a disk.
	ReplicasPerDiskPartition int `prop:"replicasPerDiskPartition" def:"1" is:"1.."`
	// LogicalDiskSpaceCleanForciblyThreshold: share of the disk used from which shared disks are cleaned.
	LogicalDiskSpaceCleanForciblyThreshold float64 `prop:"logicalDiskSpaceCleanForciblyThreshold" is:"..1 live"`
	// MaxSlaveResendLength: bytes a slave may have more than the master's confirmed offset.
	MaxSlaveResendLength int64 `prop:"maxSlaveResendLength" def:"268435456" is:"1.. live"`
	// SyncFromLastFile: an empty slave starts at the master's last CommitLog file.
	SyncFromLastFile bool `prop:"syncFromLastFile"`
	// AsyncLearner: replica that never joins the SyncStateSet.
	AsyncLearner bool `prop:"asyncLearner"`

	// Estimates, cold data.

	// MaxConsumeQueueScan: entries scanned before a lag is estimated.
	MaxConsumeQueueScan int `prop:"maxConsumeQueueScan" def:"20000" is:"1.. live"`
	// SampleCountThreshold: matches found before a lag is estimated.
	SampleCountThreshold int `prop:"sampleCountThreshold" def:"5000" is:"1.. live"`
	// ColdDataFlowControlEnable: limit reads of cold data.
	ColdDataFlowControlEnable bool `prop:"coldDataFlowControlEnable"`
	// ColdDataScanEnable: scan which data is cold.
	ColdDataScanEnable bool `prop:"coldDataScanEnable"`
	// DataReadAheadEnable: let the kernel read ahead.
	DataReadAheadEnable bool `prop:"dataReadAheadEnable" def:"true"`
	// TimerColdDataCheckIntervalMs: milliseconds between scans.
	TimerColdDataCheckIntervalMs int `prop:"timerColdDataCheckIntervalMs" def:"60000" is:"1.."`
	// SampleSteps: samples per estimate.
	SampleSteps int `prop:"sampleSteps" def:"32" is:"1.. live"`
	// AccessMessageInMemoryHotRatio: percent of RAM that counts as hot.
	AccessMessageInMemoryHotRatio int `prop:"accessMessageInMemoryHotRatio" def:"26" is:"..100 live"`
	// EnableBuildConsumeQueueConcurrently: dispatch with several workers.
	EnableBuildConsumeQueueConcurrently bool `prop:"enableBuildConsumeQueueConcurrently"`
	// BatchDispatchRequestThreadPoolNums: workers for that.
	BatchDispatchRequestThreadPoolNums int `prop:"batchDispatchRequestThreadPoolNums" def:"16" is:"1.."`

	// RocksDB.

	// CleanRocksDBDirtyCQIntervalMin: minutes between clean-ups of RocksDB queues.
	CleanRocksDBDirtyCQIntervalMin int64 `prop:"cleanRocksDBDirtyCQIntervalMin" def:"60" is:"1.."`
	// StatRocksDBCQIntervalSec: seconds between their statistics.
	StatRocksDBCQIntervalSec int64 `prop:"statRocksDBCQIntervalSec" def:"10" is:"1.."`
	// MemTableFlushIntervalMs: milliseconds between flushes of their memory tables.
	MemTableFlushIntervalMs int64 `prop:"memTableFlushIntervalMs" def:"3600000" is:"1.."`
	// RealTimePersistRocksDBConfig: write configuration to RocksDB at once.
	RealTimePersistRocksDBConfig bool `prop:"realTimePersistRocksDBConfig" def:"true"`
	// EnableRocksDBLog: RocksDB's own log.
	EnableRocksDBLog bool `prop:"enableRocksDBLog"`
	// TopicQueueLockNum: locks the queues share.
	TopicQueueLockNum int `prop:"topicQueueLockNum" def:"32" is:"1..65536"`
	// ReadUnCommitted: dispatch beyond the confirmed offset.
	ReadUnCommitted bool `prop:"readUnCommitted"`
	// PutConsumeQueueDataByFileChannel: write ConsumeQueue entries by write(2) instead of the mapping.
	PutConsumeQueueDataByFileChannel bool `prop:"putConsumeQueueDataByFileChannel" def:"true"`
	// RocksdbCQDoubleWriteEnable: keep ConsumeQueues in files and RocksDB.
	RocksdbCQDoubleWriteEnable bool `prop:"rocksdbCQDoubleWriteEnable"`
	// BottomMostCompressionTypeForConsumeQueueStore: RocksDB compression of the lowest level.
	BottomMostCompressionTypeForConsumeQueueStore string `prop:"bottomMostCompressionTypeForConsumeQueueStore"`
	// RocksdbCompressionType: RocksDB compression of the other levels.
	RocksdbCompressionType string `prop:"rocksdbCompressionType" def:"lz4"`
	// RocksdbFlushWalFrequency: writes between flushes of RocksDB's log.
	RocksdbFlushWalFrequency int `prop:"rocksdbFlushWalFrequency" def:"1024" is:"1.."`
	// RocksdbWalFileRollingThreshold: bytes of one RocksDB log file.
	RocksdbWalFileRollingThreshold int64 `prop:"rocksdbWalFileRollingThreshold" def:"1073741824" is:"1.."`
	// SpinLockCollisionRetreatOptimalDegree: spins of Java's adaptive put lock.
	SpinLockCollisionRetreatOptimalDegree int `prop:"spinLockCollisionRetreatOptimalDegree" def:"1000" is:"live"`
	// UseABSLock: Java's adaptive put lock.
	UseABSLock bool `prop:"useABSLock"`

	// After 5.3.3.

	// WriteWithoutMmap: write the CommitLog by write(2). After 5.3.3, as the rest.
	WriteWithoutMmap bool `prop:"writeWithoutMmap"`
	// EnableRunningFlagsInFlush: stop writing when a flush fails.
	EnableRunningFlagsInFlush bool `prop:"enableRunningFlagsInFlush"`
	// CombineCQLoadingCQTypes: ConsumeQueue stores loaded by storeType combine.
	CombineCQLoadingCQTypes string `prop:"combineCQLoadingCQTypes" def:"default;defaultRocksDB"`
	// CombineCQPreferCQType: the one that is read.
	CombineCQPreferCQType string `prop:"combineCQPreferCQType" def:"default"`
	// CombineAssignOffsetCQType: the one that assigns offsets.
	CombineAssignOffsetCQType string `prop:"combineAssignOffsetCQType" def:"default"`
	// CombineCQEnableCheckSelf: compare them.
	CombineCQEnableCheckSelf bool `prop:"combineCQEnableCheckSelf"`
	// CombineCQMaxExtraSearchCommitLogFiles: files searched when they differ.
	CombineCQMaxExtraSearchCommitLogFiles int `prop:"combineCQMaxExtraSearchCommitLogFiles" def:"3"`
	// EnableAcceleratedRecovery: recover from RocksDB's own offset.
	EnableAcceleratedRecovery bool `prop:"enableAcceleratedRecovery"`
	// EnableLogConsumeQueueRepeatedlyBuildWhenRecover: log entries that recovery builds twice.
	EnableLogConsumeQueueRepeatedlyBuildWhenRecover bool `prop:"enableLogConsumeQueueRepeatedlyBuildWhenRecover"`
}
