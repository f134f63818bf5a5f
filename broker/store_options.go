package broker

import (
	"time"

	"skylark/broker/schedule"
	"skylark/config"
	"skylark/store"
)

func millis[T int | int64](n T) time.Duration { return time.Duration(n) * time.Millisecond }

// coldRatio keeps a ratio of 0, which options of the store take for "the default".
func coldRatio(percent int) int {
	if percent == 0 {
		return -1
	}
	return percent
}

// storeOptions translates Java's keys.
func (b *Broker) storeOptions(levels schedule.Levels) store.Options {
	c := b.cfg.store
	flush := store.AsyncFlush
	if c.FlushDiskType == config.SyncFlush {
		flush = store.SyncFlush
	}
	o := store.Options{
		RootDir: c.StorePathRootDir, CommitLogDir: c.StorePathCommitLog,
		MappedFileSizeCommitLog: int64(c.MappedFileSizeCommitLog), MappedFileSizeConsumeQueue: int64(c.MappedFileSizeConsumeQueue),
		MaxHashSlotNum: c.MaxHashSlotNum, MaxIndexNum: c.MaxIndexNum,
		MessageIndexEnable: c.MessageIndexEnable, MessageIndexSafe: c.MessageIndexSafe,
		FlushDiskType: flush, FlushIntervalCommitLog: millis(c.FlushIntervalCommitLog),
		FlushCommitLogLeastPages:        c.FlushCommitLogLeastPages,
		FlushCommitLogThoroughInterval:  millis(c.FlushCommitLogThoroughInterval),
		FlushIntervalConsumeQueue:       millis(c.FlushIntervalConsumeQueue),
		FlushConsumeQueueLeastPages:     c.FlushConsumeQueueLeastPages,
		FlushConsumeQueueThoroughPeriod: millis(c.FlushConsumeQueueThoroughInterval),
		SyncFlushTimeout:                millis(c.SyncFlushTimeout),
		MaxMessageSize:                  c.MaxMessageSize, MaxTopicLength: c.MaxTopicLength,
		TopicQueueLockNum: c.TopicQueueLockNum, CheckCRCOnRecover: c.CheckCRCOnRecover,
		MaxMsgsNumBatch: c.MaxMsgsNumBatch, DefaultQueryMaxNum: c.DefaultQueryMaxNum,
		MaxTransferBytesInMemory:      c.MaxTransferBytesOnMessageInMemory,
		MaxTransferCountInMemory:      c.MaxTransferCountOnMessageInMemory,
		MaxTransferBytesOnDisk:        c.MaxTransferBytesOnMessageInDisk,
		MaxTransferCountOnDisk:        c.MaxTransferCountOnMessageInDisk,
		AccessMessageInMemoryMaxRatio: c.AccessMessageInMemoryMaxRatio,
		AccessMessageInMemoryHotRatio: coldRatio(c.AccessMessageInMemoryHotRatio),
		ColdDataFlowControlEnable:     c.ColdDataFlowControlEnable,
		ColdDataScanEnable:            c.ColdDataScanEnable,
		ColdDataCheckInterval:         millis(c.TimerColdDataCheckIntervalMs),
		DataReadAheadDisable:          !c.DataReadAheadEnable,
		MaxFilterMessageSize:          c.MaxFilterMessageSize,
		DeleteWhen:                    c.DeleteWhen, FileReservedTime: time.Duration(c.FileReservedTime) * time.Hour,
		DiskMaxUsedSpaceRatio:        c.DiskMaxUsedSpaceRatio,
		DiskSpaceCleanForciblyRatio:  c.DiskSpaceCleanForciblyRatio,
		DiskSpaceWarningLevelRatio:   c.DiskSpaceWarningLevelRatio,
		CleanFileForciblyEnable:      c.CleanFileForciblyEnable,
		CleanResourceInterval:        millis(c.CleanResourceInterval),
		DeleteCommitLogFilesInterval: millis(c.DeleteCommitLogFilesInterval),
		DestroyMappedFileForcibly:    millis(c.DestroyMapedFileIntervalForcibly),
		DeleteFileBatchMax:           c.DeleteFileBatchMax,
		OSPageCacheBusyTimeout:       millis(c.OsPageCacheBusyTimeOutMills),
		WarmMapedFileEnable:          c.WarmMapedFileEnable,

		FlushLeastPagesWhenWarmMapedFile: c.FlushLeastPagesWhenWarmMapedFile,
		TransientStorePoolEnable:         b.transientStorePoolEnable(),
		TransientStorePoolSize:           c.TransientStorePoolSize,
		FastFailIfNoBufferInStorePool:    c.FastFailIfNoBufferInStorePool,
		WakeCommitWhenPutMessage:         c.WakeCommitWhenPutMessage,
		CommitIntervalCommitLog:          millis(c.CommitIntervalCommitLog),
		CommitCommitLogLeastPages:        c.CommitCommitLogLeastPages,
		CommitCommitLogThoroughInterval:  millis(c.CommitCommitLogThoroughInterval),
		ConfirmedOnly:                    b.cfg.broker.EnableControllerMode,
		DelayTagsCode:                    levels.DueMillis,
		FS:                               b.o.FS, Clock: b.clock, Log: b.o.Log.With("part", "store"),
		Listener: store.Listener{
			Arrived: b.arrived,
			Truncated: func(file string, pos, bytes int64, reason string) {
				b.log.Warn("recovery cut a file", "file", file, "position", pos, "bytes", bytes, "reason", reason)
			},
			FileDeleted: func(path string) { b.log.Info("file deleted", "file", path) },
			DiskFull:    b.diskFilling,
			WriteError:  b.writeFailed,
		},
	}
	b.filterOptions(&o)
	b.queueOptions(&o)
	return o
}

// transientStorePoolEnable tells whether the pool is in effect (Java 5 DefaultMessageStore.isTransientStorePoolEnable): on
// a master, with either kind of flush, and in controller mode, where the role changes.
func (b *Broker) transientStorePoolEnable() bool {
	c := b.cfg.store
	return c.TransientStorePoolEnable && (b.cfg.broker.EnableControllerMode || c.BrokerRole != config.Slave)
}
