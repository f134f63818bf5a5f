package namesrv

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"sync"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/codec/fastjson"
	"skylark/internal/persist"
	"skylark/internal/vfs"
)

// MaxKVBytes bounds the keys, values and names of namespaces of the KV configuration, all together.
const MaxKVBytes = 16 << 20

// ErrKVFull: the KV configuration would grow beyond MaxKVBytes.
var ErrKVFull = errors.New("namesrv: the KV configuration is full")

// kvTable is namespace to key to value. A published one is not changed any more.
type kvTable map[string]map[string]string

func (t kvTable) bytes() (n int) {
	for namespace, of := range t {
		n += len(namespace)
		for k, v := range of {
			n += len(k) + len(v)
		}
	}
	return n
}

// KVConfigManager is Java's class of that name: configuration by namespace and key that tools put and brokers
// and clients get. A change is in the file, with the former content in .bak, when it is answered.
type KVConfigManager struct {
	fs    vfs.FS
	path  string
	log   *slog.Logger
	mu    sync.Mutex // changes
	table atomic.Pointer[kvTable]
}

// NewKVConfigManager makes an empty configuration kept at path.
func NewKVConfigManager(fs vfs.FS, path string, log *slog.Logger) *KVConfigManager {
	m := &KVConfigManager{fs: fs, path: path, log: log}
	m.table.Store(&kvTable{})
	return m
}

// Load reads the file; none is an empty configuration. A damaged one is read from its .bak; if that is
// damaged too the error is persist.ErrDamaged and names both.
func (m *KVConfigManager) Load() error {
	var w body.KVConfigSerializeWrapper
	found, err := persist.Load(m.fs, m.path, &w, m.log)
	if err != nil {
		return fmt.Errorf("namesrv: KV configuration: %w", err)
	}
	table := kvTable{}
	for namespace, of := range w.ConfigTable {
		if of != nil {
			table[namespace] = of
		}
	}
	m.table.Store(&table)
	if found {
		m.log.Info("KV configuration loaded", "file", m.path, "namespaces", len(table))
	}
	return nil
}

// Put sets a value.
func (m *KVConfigManager) Put(namespace, key, value string) error {
	return m.change(namespace, func(of map[string]string) { of[key] = value })
}

// Delete removes a key; a missing one is no error. An empty namespace stays, as in Java.
func (m *KVConfigManager) Delete(namespace, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := (*m.table.Load())[namespace]; !has {
		return nil
	}
	return m.changeLocked(namespace, func(of map[string]string) { delete(of, key) })
}

func (m *KVConfigManager) change(namespace string, f func(of map[string]string)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changeLocked(namespace, f)
}

// changeLocked writes the changed table and publishes it. Java publishes first and logs a write that fails.
func (m *KVConfigManager) changeLocked(namespace string, f func(of map[string]string)) error {
	next := maps.Clone(*m.table.Load())
	of := maps.Clone(next[namespace])
	if of == nil {
		of = map[string]string{}
	}
	f(of)
	next[namespace] = of
	if next.bytes() > MaxKVBytes {
		return fmt.Errorf("%w: %d bytes at most", ErrKVFull, MaxKVBytes)
	}
	text, err := fastjson.Marshal(body.KVConfigSerializeWrapper{ConfigTable: next})
	if err != nil {
		return fmt.Errorf("namesrv: KV configuration: %w", err)
	}
	if err := saveFile(m.fs, m.path, text); err != nil {
		return fmt.Errorf("namesrv: KV configuration: %w", err)
	}
	m.table.Store(&next)
	return nil
}

// saveFile replaces a file and keeps the former content in .bak; missing directories are made.
func saveFile(fs vfs.FS, name string, text []byte) error {
	if err := vfs.MkdirAllSync(fs, path.Dir(name)); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fs, name, text, true)
}

// Get gives a value. It never waits.
func (m *KVConfigManager) Get(namespace, key string) (string, bool) {
	v, ok := (*m.table.Load())[namespace][key]
	return v, ok
}

// Namespace gives all of a namespace, not to be changed; false if it does not exist.
func (m *KVConfigManager) Namespace(namespace string) (map[string]string, bool) {
	of, ok := (*m.table.Load())[namespace]
	return of, ok
}

// orderConf is the order configuration of a topic, "" if there is none. It allocates nothing.
func (m *KVConfigManager) orderConf(topic []byte) string {
	return (*m.table.Load())[codec.OrderTopicConfNamespace][string(topic)]
}
