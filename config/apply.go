package config

import (
	"maps"
	"slices"
	"strings"
)

// Change is one value that Apply changed. Old and New are as Describe shows them.
type Change struct {
	Key  string
	Old  string
	New  string
	Live bool // in force now; else after a restart
}

// Changes are sorted by key.
type Changes []Change

// RestartKeys are the keys that take effect only after a restart.
func (cs Changes) RestartKeys() []string {
	var keys []string
	for _, c := range cs {
		if !c.Live {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// alwaysForbidden are Java's own additions to configBlackList. The fixed keys are forbidden besides.
var alwaysForbidden = []string{
	"brokerConfigPath", "rocketmqHome", "configBlackList", "configStorePath", "kvConfigPath",
}

// BlackList reads a configBlackList value: keys with ';' between. The keys that are forbidden anyway need
// not be in it.
func BlackList(text string) []string {
	var keys []string
	for key := range strings.SplitSeq(text, ";") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Apply changes values at run time, all or none: UPDATE_BROKER_CONFIG and its kin. blackList names keys
// that must not change; paths, credentials and TLS keys never may, nor those of Java's built-in list. The
// error is a ForbiddenError (answer NO_PERMISSION) or a Problems that names each unknown key and each value
// of the wrong type or range (INVALID_PARAMETER). Keys are taken exactly as written; values are trimmed.
// The result leaves out keys that had their value already. The caller saves Text.
func (s *Set) Apply(changes map[string]string, blackList []string) (Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(changes))
	if err := s.forbidden(keys, blackList); err != nil {
		return nil, err
	}
	next := s.next.clone()
	rep := &report{}
	for _, key := range keys {
		known, want := next.set(key, strings.TrimSpace(changes[key]))
		if !known {
			want = "unknown key"
			if len(rep.bad) < maxHints {
				want += next.hint(key)
			}
		}
		if want != "" {
			rep.add(key, changes[key], want)
		}
	}
	if len(rep.bad) == 0 {
		s.check(next, rep)
	}
	if len(rep.bad) > 0 {
		return nil, rep.bad
	}
	return s.takeOver(keys, next), nil
}

func (s *Set) forbidden(keys, blackList []string) error {
	var bad []string
	for _, key := range keys {
		name := key
		fixed := slices.Contains(alwaysForbidden, key)
		for _, obj := range s.next {
			if f, ok := schemaOf(obj).find(key); ok {
				name = f.key
				fixed = fixed || f.fixed
			}
		}
		if fixed || slices.Contains(blackList, key) || slices.Contains(blackList, name) {
			bad = append(bad, key)
		}
	}
	if bad != nil {
		return &ForbiddenError{Keys: bad}
	}
	return nil
}

// takeOver publishes the live ones of keys and remembers the others.
func (s *Set) takeOver(keys []string, next snapshot) Changes {
	running := s.running.Load().clone()
	var done Changes
	for _, key := range keys {
		obj, f := next.field(key)
		old, _ := s.next.field(key)
		if f.get(obj) == f.get(old) {
			continue
		}
		if f.live {
			running.set(f.key, f.get(obj))
		}
		s.changed[f.key] = f.get(obj)
		done = append(done, Change{Key: f.key, Old: f.shown(old), New: f.shown(obj), Live: f.live})
	}
	s.next = next
	s.publish(running)
	return done
}
