package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultLevels is Java's messageDelayLevel.
const DefaultLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// MaxLevels bounds the table: each level is a queue of the schedule topic.
const MaxLevels = 1024

// Levels is the table of delays; level 1 is the first.
type Levels struct{ delay []time.Duration }

// ParseLevels reads messageDelayLevel: numbers with the unit s, m, h or d, separated by blanks.
func ParseLevels(text string) (Levels, error) {
	var l Levels
	for _, word := range strings.Fields(text) {
		units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
		unit, ok := units[word[len(word)-1]]
		n, err := strconv.ParseInt(word[:len(word)-1], 10, 64)
		if !ok || err != nil || n < 0 || n > int64(1<<62/unit) {
			return Levels{}, fmt.Errorf("messageDelayLevel: %q is no delay like 10s, 5m, 2h or 1d", word)
		}
		l.delay = append(l.delay, time.Duration(n)*unit)
	}
	if len(l.delay) == 0 || len(l.delay) > MaxLevels {
		return Levels{}, fmt.Errorf("messageDelayLevel: %d levels, 1 to %d are possible", len(l.delay), MaxLevels)
	}
	return l, nil
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
