package group

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// Errors of the manager.
var (
	// ErrNotExist: the group is unknown and may not be made automatically.
	ErrNotExist = errors.New("group: no such group")
	ErrInvalid  = errors.New("group: invalid configuration")
	ErrTooMany  = errors.New("group: too many groups")
)

// Limits of the table.
const (
	// MaxAutoGroups is the number of groups from which none is made automatically any more; tools may go on. A
	// group takes about 500 bytes.
	MaxAutoGroups = 100_000
	// MaxRetryQueueNums bounds the queues of a retry topic. Java takes any number.
	MaxRetryQueueNums = 65535
)

// Group is a consumer group as it is configured now.
type Group struct {
	Name   string
	Config body.SubscriptionGroupConfig
}

// Options of the manager; the names are Java's keys.
type Options struct {
	FS                          vfs.FS
	ConfigDir                   string
	Clock                       clock.Clock
	Log                         *slog.Logger
	AutoCreateSubscriptionGroup bool
	EnableCreateSysGroup        bool // CID_RMQ_SYS_… are made even if AutoCreateSubscriptionGroup is off
	// EnableLmq: every group %LMQ%… exists, with the settings of a new one, and stands in no table (Java
	// LmqSubscriptionGroupManager).
	EnableLmq bool
}

// state is all that a change replaces.
type state struct {
	groups    map[string]*Group
	forbidden map[string]map[string]int32 // group → topic → bits
}

// readForbidden is the bit of "may not consume" (Java SubscriptionForbidden PERM_READ).
const readForbidden = 1 << 2

// Manager is Java's SubscriptionGroupManager.
type Manager struct {
	o       Options
	state   atomic.Pointer[state]
	mu      sync.Mutex
	version body.DataVersion
}

// systemGroups exist on every broker (Java init).
var systemGroups = []string{codec.ToolsConsumerGroup, codec.FilterServerConsumerGroup,
	codec.SelfTestConsumerGroup, codec.HTTPProxyGroup, codec.APIPullGroup, codec.APIPermissionGroup,
	codec.APIOwnerGroup, codec.TransGroup}

// New makes the manager with the system groups.
func New(o Options) *Manager {
	m := &Manager{o: o}
	m.version.Timestamp = o.Clock.Millis()
	st := &state{groups: map[string]*Group{}, forbidden: map[string]map[string]int32{}}
	for _, name := range systemGroups {
		st.groups[name] = &Group{Name: name, Config: *body.NewSubscriptionGroupConfig(name)}
	}
	m.state.Store(st)
	return m
}

func (m *Manager) file() string { return path.Join(m.o.ConfigDir, "subscriptionGroup.json") }

// Load reads subscriptionGroup.json.
func (m *Manager) Load() error {
	var w body.SubscriptionGroupWrapper
	found, err := persist.Load(m.o.FS, m.file(), &w, m.o.Log)
	if err != nil || !found {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.state.Load().clone()
	for name, c := range w.SubscriptionGroupTable {
		if c != nil {
			c.GroupName = name
			st.groups[name] = &Group{Name: name, Config: *c}
		}
	}
	maps.Copy(st.forbidden, w.ForbiddenTable)
	m.state.Store(st)
	m.version = w.DataVersion
	return nil
}

func (s *state) clone() *state {
	return &state{groups: maps.Clone(s.groups), forbidden: maps.Clone(s.forbidden)}
}

// Lookup finds a group without allocating, unless it is one of light queues; nil when there is none.
func (m *Manager) Lookup(name []byte) *Group {
	if m.o.EnableLmq && bytes.HasPrefix(name, lmqPrefix) {
		return light(string(name))
	}
	return m.state.Load().groups[string(name)]
}

// Get is Lookup by string.
func (m *Manager) Get(name string) *Group {
	if m.isLight(name) {
		return light(name)
	}
	return m.state.Load().groups[name]
}

var lmqPrefix = []byte(codec.LMQPrefix)

func (m *Manager) isLight(name string) bool { return m.o.EnableLmq && codec.IsLMQ(name) }

// light is a group of light queues, nil if the name cannot be one.
func light(name string) *Group {
	if codec.ValidateGroup(name) != nil {
		return nil
	}
	return &Group{Name: name, Config: *body.NewSubscriptionGroupConfig(name)}
}

// Find is Java's findSubscriptionGroupConfig: an unknown group is made if it may be. It may write a file.
func (m *Manager) Find(name string) (*Group, error) {
	if g := m.Get(name); g != nil {
		return g, nil
	}
	if !m.o.AutoCreateSubscriptionGroup && !(m.o.EnableCreateSysGroup && codec.IsSystemGroup(name)) {
		return nil, fmt.Errorf("%w: %s (autoCreateSubscriptionGroup is off)", ErrNotExist, name)
	}
	if err := codec.ValidateGroup(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotExist, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.Get(name); g != nil {
		return g, nil
	}
	if n := len(m.state.Load().groups); n >= MaxAutoGroups {
		return nil, fmt.Errorf("%w: %w: there are %d, none is made automatically", ErrNotExist, ErrTooMany, n)
	}
	st := m.state.Load().clone()
	g := &Group{Name: name, Config: *body.NewSubscriptionGroupConfig(name)}
	st.groups[name] = g
	if err := m.publish(st); err != nil {
		// Nobody has configured it, and whoever asks makes it again after a restart: consumers must not stand still
		// because the disk is full.
		m.o.Log.Error("subscription group not written", "group", name, "error", err)
		m.state.Store(st)
	}
	m.o.Log.Info("subscription group created", "group", name)
	return g, nil
}

// FindAll makes those of many groups that Find would make; the file, which grows with the groups, is written once for all.
func (m *Manager) FindAll(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, made := m.state.Load().clone(), 0
	for _, name := range names {
		if m.isLight(name) || st.groups[name] != nil || codec.ValidateGroup(name) != nil || len(st.groups) >= MaxAutoGroups ||
			!m.o.AutoCreateSubscriptionGroup && !(m.o.EnableCreateSysGroup && codec.IsSystemGroup(name)) {
			continue
		}
		st.groups[name] = &Group{Name: name, Config: *body.NewSubscriptionGroupConfig(name)}
		made++
	}
	if made == 0 {
		return
	}
	if err := m.publish(st); err != nil { // as in Find
		m.o.Log.Error("subscription groups not written", "groups", made, "error", err)
		m.state.Store(st)
	}
	m.o.Log.Info("subscription groups created", "groups", made)
}

// All are the groups sorted by name.
func (m *Manager) All() []*Group {
	groups := m.state.Load().groups
	out := make([]*Group, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[name])
	}
	return out
}

// Wrapper is the table for GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
func (m *Manager) Wrapper() body.SubscriptionGroupWrapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap(m.state.Load(), m.version)
}

func (m *Manager) wrap(st *state, v body.DataVersion) body.SubscriptionGroupWrapper {
	w := body.SubscriptionGroupWrapper{DataVersion: v, ForbiddenTable: st.forbidden,
		SubscriptionGroupTable: make(map[string]*body.SubscriptionGroupConfig, len(st.groups))}
	for name, g := range st.groups {
		c := g.Config
		w.SubscriptionGroupTable[name] = &c
	}
	return w
}

// NextState bumps the version for the time of another master: epoch is what the controllers count. Versions of this time are
// newer than all of the time before.
func (m *Manager) NextState(epoch int32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version.StateVersion = max(m.version.StateVersion, int64(epoch))
	return m.publish(m.state.Load())
}

// publish writes a state and then puts it in force; mu is held.
func (m *Manager) publish(st *state) error {
	next := m.version.Next(m.o.Clock.Millis(), m.version.StateVersion)
	w := m.wrap(st, next)
	if err := persist.Save(m.o.FS, m.file(), &w); err != nil {
		return err
	}
	m.version = next
	m.state.Store(st)
	return nil
}

// Update creates or changes groups as a tool asks, all or none. The error is a *codec.NameError or
// ErrInvalid.
func (m *Manager) Update(list ...*body.SubscriptionGroupConfig) error {
	for _, c := range list {
		if err := codec.ValidateGroup(c.GroupName); err != nil {
			return err
		}
		if c.RetryQueueNums > MaxRetryQueueNums {
			return fmt.Errorf("%w: retryQueueNums %d of group %s, at most %d", ErrInvalid, c.RetryQueueNums,
				c.GroupName, MaxRetryQueueNums)
		}
		for key := range c.Attributes { // Java 5.3.3 knows none
			return fmt.Errorf("%w: unsupported key: %s", ErrInvalid, strings.TrimLeft(key, "+-"))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.state.Load().clone()
	for _, c := range list {
		if m.isLight(c.GroupName) {
			continue
		}
		st.groups[c.GroupName] = &Group{Name: c.GroupName, Config: *c}
	}
	return m.publish(st)
}

// Delete forgets a group; false when it did not exist.
func (m *Manager) Delete(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Get(name) == nil {
		return false, nil
	}
	st := m.state.Load().clone()
	delete(st.groups, name)
	delete(st.forbidden, name)
	return true, m.publish(st)
}

// Forbidden tells whether the group may not consume the topic (request code 353).
func (m *Manager) Forbidden(group, topic string) bool {
	f := m.state.Load().forbidden
	return len(f) > 0 && f[group][topic]&readForbidden != 0
}

// SetForbidden changes that. The group must exist.
func (m *Manager) SetForbidden(group, topic string, forbidden bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Get(group) == nil {
		return fmt.Errorf("%w: %s", ErrNotExist, group)
	}
	if m.Forbidden(group, topic) == forbidden {
		return nil
	}
	st := m.state.Load().clone()
	topics := maps.Clone(st.forbidden[group])
	if topics == nil {
		topics = map[string]int32{}
	}
	if forbidden {
		topics[topic] |= readForbidden
	} else if topics[topic] &^= readForbidden; topics[topic] == 0 {
		delete(topics, topic)
	}
	st.forbidden[group] = topics
	if len(topics) == 0 {
		delete(st.forbidden, group)
	}
	return m.publish(st)
}

// Disable switches a group's consumption off (Java disableConsume, protectBroker).
func (m *Manager) Disable(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.Get(name)
	if g == nil || !g.Config.ConsumeEnable {
		return nil
	}
	st := m.state.Load().clone()
	c := g.Config
	c.ConsumeEnable = false
	st.groups[name] = &Group{Name: name, Config: c}
	return m.publish(st)
}

// DataVersion is the version of the table.
func (m *Manager) DataVersion() body.DataVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}
