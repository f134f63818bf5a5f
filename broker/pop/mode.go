package pop

import (
	"log/slog"
	"path"
	"sync"

	"skylark/codec/body"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// ModeManager keeps which groups pull and which pop a topic: messageRequestMode.json (Java MessageRequestModeManager).
type ModeManager struct {
	fs   vfs.FS
	file string
	log  *slog.Logger

	mu    sync.Mutex // also held while the file is written
	table map[string]map[string]*body.SetMessageRequestModeRequestBody
}

// NewModeManager makes an empty table; Load follows.
func NewModeManager(fsys vfs.FS, configDir string, log *slog.Logger) *ModeManager {
	return &ModeManager{fs: fsys, file: path.Join(configDir, "messageRequestMode.json"), log: log,
		table: map[string]map[string]*body.SetMessageRequestModeRequestBody{}}
}

// Load reads the file.
func (m *ModeManager) Load() error {
	var w body.MessageRequestModeSerializeWrapper
	if _, err := persist.Load(m.fs, m.file, &w, m.log); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, groups := range w.MessageRequestModeMap {
		for group, mode := range groups {
			if mode != nil {
				m.set(m.table, topic, group, mode)
			}
		}
	}
	return nil
}

func (m *ModeManager) set(table map[string]map[string]*body.SetMessageRequestModeRequestBody, topic, group string,
	mode *body.SetMessageRequestModeRequestBody) {
	if table[topic] == nil {
		table[topic] = map[string]*body.SetMessageRequestModeRequestBody{}
	}
	table[topic][group] = mode
}

// Get is what was set for a group, nil when nothing was; not to be changed.
func (m *ModeManager) Get(topic, group string) *body.SetMessageRequestModeRequestBody {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[topic][group]
}

// Set writes a mode. When the file cannot be written nothing has changed.
func (m *ModeManager) Set(mode *body.SetMessageRequestModeRequestBody) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.copy()
	m.set(next, mode.Topic, mode.ConsumerGroup, mode)
	w := body.MessageRequestModeSerializeWrapper{MessageRequestModeMap: next}
	if err := persist.Save(m.fs, m.file, &w); err != nil {
		return err
	}
	m.table = next
	return nil
}

func (m *ModeManager) copy() map[string]map[string]*body.SetMessageRequestModeRequestBody {
	out := map[string]map[string]*body.SetMessageRequestModeRequestBody{}
	for topic, groups := range m.table {
		for group, mode := range groups {
			m.set(out, topic, group, mode)
		}
	}
	return out
}

// Wrapper is the table for GET_ALL_MESSAGE_REQUEST_MODE.
func (m *ModeManager) Wrapper() body.MessageRequestModeSerializeWrapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	return body.MessageRequestModeSerializeWrapper{MessageRequestModeMap: m.copy()}
}
