// Package coldctr limits consumer groups that read cold data (Java broker.coldctr: ColdDataCgCtrService with its
// strategies). What a group reads from the cold area of the log is counted, and cleared every Interval; a group over its
// threshold, or any that reads cold data while all together are over the global one, is to be slowed down, which is the
// broker's affair. It is off unless coldDataFlowControlEnable is set.
//
// Step is called by the clock; everything else from any goroutine.
package coldctr

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skylark/config"
	"skylark/internal/clock"
)

const (
	// Interval is how often Step clears the counts.
	Interval = 5 * time.Second
	// forgetAfter is how long a group stays after its last cold read.
	forgetAfter = time.Minute
	// MaxGroups bounds the groups of each table, which Java does not; some 200 bytes each. The counts of groups beyond it
	// go to the global one only.
	MaxGroups = 10000
	// maxSlowed is how many of the groups with the highest adaptive thresholds one Step slows down.
	maxSlowed = 3
)

// ErrTooManyGroups answers Set when MaxGroups have a threshold of their own.
var ErrTooManyGroups = errors.New("coldctr: too many groups have a cold read threshold of their own")

// Control is the tables.
type Control struct {
	clock    clock.Clock
	cfg      *config.BrokerConfig // live keys are read when they are needed
	strategy strategy
	enabled  bool

	global atomic.Int64 // bytes since the last Step

	mu       sync.RWMutex
	reading  map[string]*account
	config   map[string]int64 // by the administrator
	adaptive map[string]int64 // by the strategy
}

// account is what a group has read.
type account struct {
	bytes   atomic.Int64
	last    atomic.Int64 // ms
	created int64
}

// New makes the tables. enabled is coldDataFlowControlEnable: without it nobody is limited.
func New(cfg *config.BrokerConfig, enabled bool, c clock.Clock) *Control {
	ctl := &Control{clock: c, cfg: cfg, enabled: enabled, reading: map[string]*account{}, config: map[string]int64{},
		adaptive: map[string]int64{}}
	ctl.strategy = simple{ctl}
	if cfg.UsePIDColdCtrStrategy {
		ctl.strategy = &pid{c: ctl, expected: cfg.GlobalColdReadThreshold / 10 * 8}
	}
	return ctl
}

// Enabled tells whether groups are limited at all.
func (c *Control) Enabled() bool { return c.enabled }

// Count adds cold bytes that a group has read.
func (c *Control) Count(group string, bytes int64) {
	if bytes <= 0 {
		return
	}
	c.global.Add(bytes)
	now := c.clock.Millis()
	a := c.account(group)
	if a == nil {
		c.mu.Lock()
		if a = c.reading[group]; a == nil {
			if len(c.reading) >= MaxGroups {
				c.mu.Unlock()
				return
			}
			a = &account{created: now}
			c.reading[group] = a
		}
		c.mu.Unlock()
	}
	a.bytes.Add(bytes)
	a.last.Store(now)
}

func (c *Control) account(group string) *account {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.reading[group]
}

// Limited tells whether a group that wants cold data is to be slowed down (Java isCgNeedColdDataFlowCtr).
func (c *Control) Limited(group string) bool {
	if !c.enabled {
		return false
	}
	a := c.account(group)
	if a == nil {
		return false
	}
	return a.bytes.Load() >= c.Threshold(group) || c.global.Load() >= c.cfg.GlobalColdReadThreshold
}

// Threshold is what a group may read in an Interval, in bytes: the administrator's, else the adaptive one, else
// cgColdReadThreshold.
func (c *Control) Threshold(group string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.thresholdLocked(group)
}

func (c *Control) thresholdLocked(group string) int64 {
	if v, ok := c.config[group]; ok {
		return v
	}
	if v, ok := c.adaptive[group]; ok && c.cfg.ColdCtrStrategyEnable {
		return v
	}
	return c.cfg.CgColdReadThreshold
}

// Set gives a group a threshold of its own, until the broker stops.
func (c *Control) Set(group string, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.config[group]; !known && len(c.config) >= MaxGroups {
		return ErrTooManyGroups
	}
	c.config[group] = bytes
	return nil
}

// Remove takes it away.
func (c *Control) Remove(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.config, group)
}

// overGlobal is Java's isGlobalColdCtr.
func (c *Control) overGlobal() bool { return c.global.Load() > c.cfg.GlobalColdReadThreshold }

// Step ends an interval: the thresholds are adapted, the counts cleared, groups that have caught up forgotten.
func (c *Control) Step() {
	now, adapt := c.clock.Millis(), c.cfg.ColdCtrStrategyEnable
	c.mu.Lock()
	defer c.mu.Unlock()
	if adapt {
		c.strategy.collect(c.global.Load())
	} else {
		clear(c.adaptive)
	}
	for group, a := range c.reading {
		_, set := c.config[group]
		threshold := c.thresholdLocked(group)
		switch {
		case now >= a.last.Load()+forgetAfter.Milliseconds():
			delete(c.adaptive, group)
			delete(c.reading, group)
		case adapt && !set && a.bytes.Load() >= threshold && !c.overGlobal() && c.strategy.promotes():
			c.adaptive[group] = threshold + threshold/2
		}
		a.bytes.Store(0)
	}
	if adapt && c.strategy.slows() {
		c.slowDownLocked()
	}
	c.global.Store(0)
}

// slowDownLocked lowers the highest adaptive thresholds by a fifth, not below cgColdReadThreshold.
func (c *Control) slowDownLocked() {
	groups := make([]string, 0, len(c.adaptive))
	for group := range c.adaptive {
		if _, set := c.config[group]; !set {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.adaptive[b], c.adaptive[a]), cmp.Compare(a, b))
	})
	for _, group := range groups[:min(len(groups), maxSlowed)] {
		c.adaptive[group] = max(c.adaptive[group]/10*8, c.cfg.CgColdReadThreshold)
	}
}

// Info is the body of GET_COLD_DATA_FLOW_CTR_INFO, with Java's member names. Adaptive thresholds are in ConfigTable under
// Java's key: the group with "||adaptive" behind it.
type Info struct {
	RuntimeTable            map[string]GroupInfo `json:"runtimeTable"`
	ConfigTable             map[string]int64     `json:"configTable"`
	CgColdReadThreshold     int64                `json:"cgColdReadThreshold"`
	GlobalColdReadThreshold int64                `json:"globalColdReadThreshold"`
	GlobalAcc               int64                `json:"globalAcc"`
}

// GroupInfo is Java's AccAndTimeStamp.
type GroupInfo struct {
	ColdAcc               int64 `json:"coldAcc"`
	CreateTimeMills       int64 `json:"createTimeMills"`
	LastColdReadTimeMills int64 `json:"lastColdReadTimeMills"`
}

// Info copies the tables.
func (c *Control) Info() Info {
	c.mu.RLock()
	defer c.mu.RUnlock()
	info := Info{RuntimeTable: map[string]GroupInfo{}, ConfigTable: map[string]int64{},
		CgColdReadThreshold:     c.cfg.CgColdReadThreshold,
		GlobalColdReadThreshold: c.cfg.GlobalColdReadThreshold, GlobalAcc: c.global.Load()}
	for group, a := range c.reading {
		info.RuntimeTable[group] = GroupInfo{a.bytes.Load(), a.created, a.last.Load()}
	}
	for group, v := range c.config {
		info.ConfigTable[group] = v
	}
	for group, v := range c.adaptive {
		info.ConfigTable[group+"||adaptive"] = v
	}
	return info
}
