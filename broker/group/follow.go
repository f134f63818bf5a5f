package group

import (
	"maps"

	"skylark/codec/body"
	"skylark/internal/persist"
)

// Follow takes over a master's table with its version (Java SlaveSynchronize.syncSubscriptionGroupConfig): groups that the
// master does not have go, but for the system's. An equal version changes nothing. keep leaves those groups alone: the
// master is one that came back with an old table.
func (m *Manager) Follow(w *body.SubscriptionGroupWrapper, keep bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == w.DataVersion {
		return nil
	}
	old := m.state.Load()
	st := &state{groups: map[string]*Group{}, forbidden: map[string]map[string]int32{}}
	if keep {
		st = old.clone()
	}
	for _, name := range systemGroups {
		if g := old.groups[name]; g != nil {
			st.groups[name] = g
		}
	}
	for name, c := range w.SubscriptionGroupTable {
		if c != nil {
			c.GroupName = name
			st.groups[name] = &Group{Name: name, Config: *c}
		}
	}
	maps.Copy(st.forbidden, w.ForbiddenTable)
	version := w.DataVersion
	if keep && m.version.Compare(version) > 0 {
		version = m.version
	}
	file := m.wrap(st, version)
	if err := persist.Save(m.o.FS, m.file(), &file); err != nil {
		return err
	}
	m.version = version
	m.state.Store(st)
	return nil
}
