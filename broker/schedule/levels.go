package schedule

import (
	"fmt"
	"time"

	"skylark/config"
)

// DefaultLevels is Java's messageDelayLevel.
const DefaultLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// MaxLevels bounds the table: each level is a queue of the schedule topic.
const MaxLevels = 1024

// Levels is the table of delays; level 1 is the first.
type Levels struct{ delay []time.Duration }

// ParseLevels reads messageDelayLevel: numbers with the unit s, m, h or d, separated by blanks.
func ParseLevels(text string) (Levels, error) {
	delay, err := config.DelayLevels(text)
	if err != nil {
		return Levels{}, fmt.Errorf("messageDelayLevel: %w", err)
	}
	if len(delay) > MaxLevels {
		return Levels{}, fmt.Errorf("messageDelayLevel: %d levels, 1 to %d are possible", len(delay), MaxLevels)
	}
	return Levels{delay}, nil
}

// Max is the highest level; a higher one in a message counts as this.
func (l Levels) Max() int { return len(l.delay) }

// Clamp brings a level into the table.
func (l Levels) Clamp(level int) int { return min(max(level, 1), len(l.delay)) }

// Delay of a level; one that is not in the table waits a second (Java computeDeliverTimestamp).
func (l Levels) Delay(level int) time.Duration {
	if level < 1 || level > len(l.delay) {
		return time.Second
	}
	return l.delay[level-1]
}

// DueMillis is when a message of that level, stored then, is due: the tagsCode of its queue entry.
func (l Levels) DueMillis(level int, storeTimestamp int64) int64 {
	if level > len(l.delay) {
		level = len(l.delay)
	}
	return storeTimestamp + l.Delay(level).Milliseconds()
}
