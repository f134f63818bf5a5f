package store

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// manualDeleteRounds is how many rounds DeleteExpiredFiles lasts (Java MAX_MANUAL_DELETE_FILE_TIMES).
	manualDeleteRounds = 20
	// maxQueueFilesRound bounds the files one queue loses in one round.
	maxQueueFilesRound = 10
)

// diskLimits are the watermarks as shares of 1, clamped as Java clamps them.
type diskLimits struct{ maxUsed, forcibly, warning float64 }

func (o *Options) diskLimits() diskLimits {
	clamp := func(percent, low, high int) float64 { return float64(min(max(percent, low), high)) / 100 }
	return diskLimits{
		maxUsed:  clamp(o.DiskMaxUsedSpaceRatio, 10, 95),
		forcibly: clamp(o.DiskSpaceCleanForciblyRatio, 30, 85),
		warning:  clamp(o.DiskSpaceWarningLevelRatio, 35, 90),
	}
}

// cleanService deletes what has expired (Java CleanCommitLogService, CleanConsumeQueueService, CorrectLogicOffsetService)
// and watches the disk. Every CleanResourceInterval, and at once when DeleteExpiredFiles asks:
//
//	disk used by more than       effect
//	DiskSpaceWarningLevelRatio   puts are refused, and files go as below
//	DiskSpaceCleanForciblyRatio  the oldest log files go regardless of age
//	DiskMaxUsedSpaceRatio        log files older than FileReservedTime go at any hour
//
// Between the second and the first mark the refusal of puts stays as it was. Otherwise files older than FileReservedTime
// go in the hours of DeleteWhen. A round deletes DeleteFileBatchMax log files at most, DeleteCommitLogFilesInterval apart,
// and never the last one; then the files of queues and index that point before the log.
//
// A file that is being read is unlinked at once, so the space is free when its last reader lets go; Java waits for
// DestroyMappedFileForcibly and then unmaps under the reader.
type cleanService struct {
	s            *MessageStore
	manualRounds atomic.Int32
	looked       atomic.Int64 // ms, of the last lookNow
	wakeup       chan struct{}
	look         chan struct{} // the disk is to be watched, between rounds
	stop         chan struct{}
	done         chan struct{}
}

func newCleanService(s *MessageStore) *cleanService {
	return &cleanService{s: s, wakeup: make(chan struct{}, 1), look: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
}

func (c *cleanService) start() { go c.run() }

func (c *cleanService) close() {
	close(c.stop)
	<-c.done
}

// deleteNow asks for the next manualDeleteRounds rounds to delete at any hour, the first at once.
func (c *cleanService) deleteNow() {
	c.manualRounds.Store(manualDeleteRounds)
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// lookInterval is how often the disk is looked at while messages are refused.
const lookInterval = 500 * time.Millisecond

// lookNow has the disk watched without waiting for the next round: a put found no room for a file.
func (c *cleanService) lookNow() {
	now, last := c.s.o.Clock.Millis(), c.looked.Load()
	if since := now - last; since >= 0 && since < lookInterval.Milliseconds() || !c.looked.CompareAndSwap(last, now) {
		return
	}
	c.lookSoon()
}

func (c *cleanService) lookSoon() {
	select {
	case c.look <- struct{}{}:
	default:
	}
}

func (c *cleanService) run() {
	defer close(c.done)
	ticker := c.s.o.Clock.NewTicker(c.s.o.CleanResourceInterval)
	defer ticker.Stop()
	dropped := c.s.o.Clock.Millis()
	for {
		select {
		case <-c.stop:
			return
		case <-c.look:
			if c.watchDisk(); c.s.flags.has(flagDiskFull | flagLogicDiskFull) {
				c.s.o.Clock.AfterFunc(lookInterval, c.lookSoon)
			}
			continue
		case <-ticker.C():
		case <-c.wakeup:
		}
		c.s.stats.sample(c.s.o.Clock.Now())
		c.round()
		if now := c.s.o.Clock.Millis(); now-dropped >= idlePagesInterval {
			c.s.dropIdlePages(now)
			dropped = now
		}
	}
}

// round is one pass.
func (c *cleanService) round() {
	byDisk, atOnce := c.watchDisk()
	manual := c.manualRounds.Load() > 0
	if manual {
		c.manualRounds.Add(-1)
	}
	if !byDisk && !manual && !hourMatches(c.s.o.DeleteWhen, c.s.o.Clock.Now()) {
		return
	}
	if n := c.deleteLogFiles(atOnce && c.s.o.CleanFileForciblyEnable); n > 0 {
		c.deleteBehindLog()
	}
}

// watchDisk sets and clears the disk flags. byDisk: expired files may go now; atOnce: so may others.
func (c *cleanService) watchDisk() (byDisk, atOnce bool) {
	o := &c.s.o
	limits := o.diskLimits()
	for _, d := range []struct {
		dir  string
		flag runningFlag
	}{{o.CommitLogDir, flagDiskFull}, {path.Join(o.RootDir, consumeQueueDirName), flagLogicDiskFull}} {
		ratio := c.s.diskRatio(d.dir)
		switch {
		case ratio > limits.warning:
			atOnce = true
			if c.s.flags.set(d.flag, diskError(d.dir, ratio, limits.warning)) {
				c.s.log.Error("disk too full, messages are refused", "dir", d.dir, "usedRatio", ratio)
				o.Listener.DiskFull(d.dir, ratio, true)
			}
		case ratio > limits.forcibly:
			atOnce = true
		default:
			if c.s.flags.clear(d.flag) {
				c.s.log.Info("disk has room again", "dir", d.dir, "usedRatio", ratio)
				o.Listener.DiskFull(d.dir, ratio, false)
			}
		}
		byDisk = byDisk || ratio > limits.maxUsed
	}
	return byDisk || atOnce, atOnce
}

// diskError says how full the disk is.
func diskError(dir string, ratio, limit float64) error {
	return fmt.Errorf("%w: %s is used by %.0f %%, the limit is %.0f %%", ErrDiskFull, dir, ratio*100, limit*100)
}

// hourMatches tells whether the hour is in a ';'-list of hours such as "04;16".
func hourMatches(list string, now time.Time) bool {
	for hour := range strings.SplitSeq(list, ";") {
		if n, err := strconv.Atoi(strings.TrimSpace(hour)); err == nil && n == now.Hour() {
			return true
		}
	}
	return false
}

// deleteLogFiles deletes the oldest log files that have expired, or any with regardlessOfAge. It pauses between two of
// them: freeing a GiB keeps a file system's journal busy.
func (c *cleanService) deleteLogFiles(regardlessOfAge bool) (n int) {
	expired := func(mf *mappedFile) bool {
		if regardlessOfAge {
			return true
		}
		info, err := c.s.fs.Stat(mf.path)
		if err != nil {
			c.s.log.Error("age of a file unknown", "file", mf.path, "err", err)
			return false
		}
		return c.s.o.Clock.Now().Sub(info.ModTime()) >= c.s.o.FileReservedTime
	}
	for n < c.s.o.DeleteFileBatchMax {
		if n > 0 && !c.pause(c.s.o.DeleteCommitLogFilesInterval) {
			return n
		}
		deleted, err := c.s.cl.files.deleteLeading(1, expired)
		if err != nil {
			c.s.log.Error("expired file not deleted", "err", err)
		}
		if len(deleted) == 0 {
			return n
		}
		n++
		c.s.log.Info("commit log file deleted", "file", deleted[0], "regardlessOfAge", regardlessOfAge)
		c.s.o.Listener.FileDeleted(deleted[0])
	}
	return n
}

// pause is false when the service has to stop.
func (c *cleanService) pause(d time.Duration) bool {
	over := make(chan struct{})
	defer c.s.o.Clock.AfterFunc(d, func() { close(over) }).Stop()
	select {
	case <-over:
		return true
	case <-c.stop:
		return false
	}
}

// deleteBehindLog deletes what points before the log, and moves the least offsets of the queues.
func (c *cleanService) deleteBehindLog() {
	minPhy := int64(c.s.cl.minOffset())
	deleted, err := c.s.index.deleteExpired(minPhy)
	if err != nil {
		c.s.log.Error("index files not deleted", "err", err)
	}
	for _, cq := range c.s.queues.all() {
		c.s.queues.writeMu.Lock()
		files, err := cq.deleteExpired(minPhy, maxQueueFilesRound)
		c.s.queues.writeMu.Unlock()
		if err != nil {
			c.s.log.Error("queue files not deleted", "topic", cq.topic, "queueId", cq.queueID, "err", err)
		}
		deleted = append(deleted, files...)
	}
	for _, name := range deleted {
		c.s.o.Listener.FileDeleted(name)
	}
}
