package topic

import (
	"maps"

	"skylark/codec/body"
	"skylark/internal/persist"
)

// Follow takes over a master's table with its version (Java SlaveSynchronize.syncTopicConfig): topics that the master does
// not have go, but for the system topics of this broker. An equal version changes nothing. keep leaves those topics alone:
// the master is one that came back with an old table.
func (m *Manager) Follow(w *body.TopicConfigAndMappingSerializeWrapper, keep bool) (changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == w.DataVersion {
		return false, nil
	}
	old := *m.table.Load()
	table := map[string]*Topic{}
	for name, t := range old {
		if keep || t.System {
			table[name] = t
		}
	}
	for name, c := range w.TopicConfigTable {
		if c == nil {
			continue
		}
		next := *c
		next.TopicName = name
		if have := old[name]; have != nil && equal(&have.Config, &next) {
			table[name] = have
			continue
		}
		table[name] = m.make(next)
	}
	version := w.DataVersion
	if keep && m.version.Compare(version) > 0 {
		version = m.version
	}
	file := body.TopicConfigSerializeWrapper{DataVersion: version, TopicConfigTable: configs(table)}
	if err := persist.Save(m.o.FS, m.file(), &file); err != nil {
		return false, err
	}
	m.version = version
	changed = !maps.Equal(old, table)
	m.table.Store(&table)
	return changed, nil
}
