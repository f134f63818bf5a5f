package store

import (
	"fmt"
	"path"
	"strconv"
)

// diskRatio is the used share of the partition of a directory, 0..1; -1 if it cannot be told.
func (s *MessageStore) diskRatio(dir string) float64 {
	usage, err := s.fs.Usage(dir)
	if ignoreNotExist(err) == nil && err != nil {
		usage, err = s.fs.Usage(s.o.RootDir) // no queue was made yet
	}
	if err != nil {
		s.log.Error("disk usage unknown", "dir", dir, "err", err)
		return -1
	}
	return usage.UsedRatio
}

// CommitLogDiskRatio is the used share of the CommitLog's partition, 0..1, -1 if it cannot be told.
func (s *MessageStore) CommitLogDiskRatio() float64 { return s.diskRatio(s.o.CommitLogDir) }

// RuntimeInfo is the store's part of GET_BROKER_RUNTIME_INFO under Java's keys (StoreStatsService.getRuntimeInfo,
// DefaultMessageStore.getRuntimeInfo).
func (s *MessageStore) RuntimeInfo() map[string]string {
	st := &s.stats
	now := s.o.Clock.Now()
	puts, bytes := st.putMessages.Load(), st.putBytes.Load()
	average := float64(bytes) / float64(max(puts, 1))
	logRatio := strconv.FormatFloat(s.CommitLogDiskRatio(), 'g', -1, 64)
	queueRatio := s.diskRatio(path.Join(s.o.RootDir, consumeQueueDirName))
	info := map[string]string{
		"bootTimestamp":            strconv.FormatInt(st.startMillis, 10),
		"runtime":                  st.uptime(now.UnixMilli()),
		"putMessageEntireTimeMax":  strconv.FormatInt(st.putMaxMillis.Load(), 10),
		"putMessageTimesTotal":     strconv.FormatInt(puts, 10),
		"putMessageFailedTimes":    strconv.FormatInt(st.putFailed.Load(), 10),
		"putMessageSizeTotal":      strconv.FormatInt(bytes, 10),
		"putMessageDistributeTime": st.distribution(),
		"putMessageAverageSize":    strconv.FormatFloat(average, 'g', -1, 64),
		"dispatchMaxBuffer":        "0",
		"getMessageEntireTimeMax":  "0", // a Get never waits; two clock reads for each are not worth a zero
		"putTps":                   st.rates(now, func(x statsSample) int64 { return x.put }),
		"getFoundTps":              st.rates(now, func(x statsSample) int64 { return x.found }),
		"getMissTps":               st.rates(now, func(x statsSample) int64 { return x.miss }),
		"getTotalTps":              st.rates(now, func(x statsSample) int64 { return x.found + x.miss }),
		"getTransferredTps":        st.rates(now, func(x statsSample) int64 { return x.transferred }),
		"putLatency99":             fmt.Sprintf("%.2f", st.latency(0.99)),
		"putLatency999":            fmt.Sprintf("%.2f", st.latency(0.999)),

		"commitLogDiskRatio":                     logRatio,
		"commitLogDiskRatio_" + s.o.CommitLogDir: logRatio,
		"consumeQueueDiskRatio":                  strconv.FormatFloat(queueRatio, 'g', -1, 64),
		"commitLogMinOffset":                     strconv.FormatInt(int64(s.MinPhyOffset()), 10),
		"commitLogMaxOffset":                     strconv.FormatInt(int64(s.MaxPhyOffset()), 10),
		"commitLogDirCapacity":                   s.capacityText(),
		"dispatchBehindBytes":                    strconv.FormatInt(s.DispatchBehindBytes(), 10),
		"pageCacheLockTimeMills":                 strconv.FormatInt(s.LockTimeMillis(), 10),
		"earliestMessageTimeStamp":               strconv.FormatInt(s.cl.earliestTimestamp(), 10),
		"remainTransientStoreBufferNumbs":        strconv.Itoa(s.RemainTransientStoreBufferNumbs()),
		"remainHowManyDataToFlush":               bytesText(s.cl.remainToFlush()),
		"writerPageFaults":                       strconv.FormatInt(s.WriterPageFaults(), 10), // ours
	}
	if s.cl.pool != nil {
		info["remainHowManyDataToCommit"] = bytesText(s.cl.remainToCommit())
	}
	return info
}

// capacityText is the text of commitLogDirCapacity.
func (s *MessageStore) capacityText() string {
	usage, err := s.fs.Usage(s.o.CommitLogDir)
	if err != nil {
		s.log.Error("disk usage unknown", "dir", s.o.CommitLogDir, "err", err)
	}
	return fmt.Sprintf("Total : %s, Free : %s.", bytesText(int64(usage.TotalBytes)), bytesText(int64(usage.FreeBytes)))
}

// bytesText is a size as Java prints it (MixAll.humanReadableByteCount with powers of 1024).
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1024 && unit < len("KMGTPE")-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[unit])
}
