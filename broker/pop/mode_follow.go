package pop

import (
	"maps"

	"skylark/codec/body"
	"skylark/internal/persist"
)

// Follow takes over a master's table, the body of GET_ALL_MESSAGE_REQUEST_MODE (Java
// SlaveSynchronize.syncMessageRequestMode).
func (m *ModeManager) Follow(w *body.MessageRequestModeSerializeWrapper) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string]map[string]*body.SetMessageRequestModeRequestBody{}
	same := len(w.MessageRequestModeMap) == len(m.table)
	for topic, groups := range w.MessageRequestModeMap {
		for group, mode := range groups {
			if mode != nil {
				m.set(next, topic, group, mode)
			}
		}
		same = same && maps.EqualFunc(next[topic], m.table[topic],
			func(a, b *body.SetMessageRequestModeRequestBody) bool { return *a == *b })
	}
	if same {
		return nil
	}
	if err := persist.Save(m.fs, m.file, &body.MessageRequestModeSerializeWrapper{MessageRequestModeMap: next}); err != nil {
		return err
	}
	m.table = next
	return nil
}
