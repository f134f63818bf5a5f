package config

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Set is the configuration of one server: several structs fed by one file (Java's Configuration). Its
// snapshots are immutable and free to share; its methods are safe for concurrent use, except Load, which
// comes first.
type Set struct {
	running atomic.Pointer[snapshot] // what the server works with

	mu      sync.Mutex
	next    snapshot          // what it will work with after a restart
	file    *File             // nil without -c
	extra   map[string]string // keys of the file that nobody knows; printed and kept, as Java does
	changed map[string]string // applied since Load, for Text

	settle func(snapshot, *File)   // once in Load: values that follow from others; the file may be nil
	check  func(snapshot, *report) // after Load and before each Apply: values that must fit together
}

// snapshot holds pointers to configuration structs in the order in which Java registers them.
type snapshot []any

// report gathers problems that a check finds.
type report struct {
	file *File
	bad  Problems
}

func (r *report) add(key, value, msg string) {
	p := Problem{Key: key, Value: value, Msg: msg}
	if r.file != nil {
		p.File, p.Line = r.file.Name, r.file.line(key)
	}
	r.bad = append(r.bad, p)
}

func newSet(objs ...any) *Set {
	s := &Set{next: objs, extra: map[string]string{}, changed: map[string]string{}}
	s.settle = func(snapshot, *File) {}
	s.check = func(snapshot, *report) {}
	s.publish(s.next)
	return s
}

func (s *Set) publish(sn snapshot) { s.running.Store(&sn) }

func (sn snapshot) clone() snapshot {
	out := make(snapshot, len(sn))
	for i, obj := range sn {
		out[i] = clone(obj)
	}
	return out
}

func pick[T any](sn snapshot) *T {
	for _, obj := range sn {
		if t, ok := obj.(*T); ok {
			return t
		}
	}
	panic(fmt.Sprintf("BUG: config: this server has no %v", reflect.TypeFor[T]()))
}

// Get gives the running snapshot of one struct, as config.Get[config.BrokerConfig](set). Do not change it. It
// panics if the server has no such struct.
func Get[T any](s *Set) *T { return pick[T](*s.running.Load()) }

// Broker is Get[BrokerConfig].
func (s *Set) Broker() *BrokerConfig { return Get[BrokerConfig](s) }

// Store is Get[MessageStoreConfig].
func (s *Set) Store() *MessageStoreConfig { return Get[MessageStoreConfig](s) }

// Server is Get[NettyServerConfig].
func (s *Set) Server() *NettyServerConfig { return Get[NettyServerConfig](s) }

// Client is Get[NettyClientConfig].
func (s *Set) Client() *NettyClientConfig { return Get[NettyClientConfig](s) }

// Auth is Get[AuthConfig].
func (s *Set) Auth() *AuthConfig { return Get[AuthConfig](s) }

// Namesrv is Get[NamesrvConfig].
func (s *Set) Namesrv() *NamesrvConfig { return Get[NamesrvConfig](s) }

// Controller is Get[ControllerConfig].
func (s *Set) Controller() *ControllerConfig { return Get[ControllerConfig](s) }

// Own is Get[OwnConfig].
func (s *Set) Own() *OwnConfig { return Get[OwnConfig](s) }

// Load takes over a file; nil means no file and only settles defaults. Call it once, before the server
// starts. Warnings are for the log; with an error, a Problems, nothing was taken over.
func (s *Set) Load(f *File) (warnings []Problem, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sn := s.next.clone()
	rep := &report{file: f}
	extra := map[string]string{}
	if f != nil {
		warnings = sn.load(f, rep, extra)
	}
	if len(rep.bad) == 0 {
		s.settle(sn, f)
		s.check(sn, rep)
	}
	if len(rep.bad) > 0 {
		return warnings, rep.bad
	}
	s.file, s.extra, s.next = f, extra, sn
	s.publish(sn.clone())
	return warnings, nil
}

// Override sets a value that the program knows better than any file, such as the name server of a standalone system,
// after Load and before the server starts. The server runs with it and Describe shows it; Text, which is what is saved,
// does not have it. An unknown key or a wrong value is a bug of ours.
func (s *Set) Override(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.running.Load().clone()
	for _, sn := range []snapshot{s.next, running} {
		if known, want := sn.set(key, value); !known || want != "" {
			panic(fmt.Sprintf("BUG: config: %s=%s: known %v, %s", key, value, known, want))
		}
	}
	s.publish(running)
}

// load binds the entries of f.
func (sn snapshot) load(f *File, rep *report, extra map[string]string) (warnings []Problem) {
	seen := make(map[string]int)
	for _, e := range f.Entries {
		warn := Problem{File: f.Name, Line: e.Line, Key: e.Key, Value: e.Value}
		if line, again := seen[e.Key]; again {
			warn.Msg = fmt.Sprintf("stands in line %d already; this one counts", line)
			warn.Value = sn.mask(e.Key, e.Value)
			warnings = append(warnings, warn)
		}
		seen[e.Key] = e.Line
		known, want := sn.set(e.Key, e.Value)
		switch {
		case !known:
			extra[e.Key] = e.Value
			warn.Msg, warn.Value = "unknown key", maskUnknown(e.Key, e.Value)
			if len(extra) <= maxHints {
				warn.Msg += sn.hint(e.Key)
			}
			warnings = append(warnings, warn)
		case want != "":
			warn.Msg, warn.Value = want, sn.mask(e.Key, e.Value)
			rep.bad = append(rep.bad, warn)
		}
	}
	return warnings
}

// set puts text into every struct that has the key. want is empty if all is well.
func (sn snapshot) set(key, text string) (known bool, want string) {
	for _, obj := range sn {
		if f, ok := schemaOf(obj).find(key); ok {
			known = true
			if w := f.set(obj, text); w != "" {
				want = w
			}
		}
	}
	return known, want
}

// field gives the last struct that has the key, which is the one Java prints, and its field.
func (sn snapshot) field(key string) (any, *field) {
	for _, obj := range slices.Backward(sn) {
		if f, ok := schemaOf(obj).find(key); ok {
			return obj, f
		}
	}
	return nil, nil
}

func (sn snapshot) mask(key, value string) string {
	if _, f := sn.field(key); f != nil {
		return f.mask(value)
	}
	return value
}

// maxHints bounds the unknown keys of one text for which a near one is looked for.
const maxHints = 20

// maskUnknown hides values of unknown keys that sound like secrets.
func maskUnknown(key, value string) string {
	low := strings.ToLower(key)
	for _, word := range []string{"password", "secret", "credential", "accesskey", "token"} {
		if strings.Contains(low, word) {
			return "******"
		}
	}
	return value
}

// hint names the nearest known key, if one is near.
func (sn snapshot) hint(key string) string {
	best, bestDist := "", max(2, len(key)/4)+1
	for _, obj := range sn {
		for _, f := range schemaOf(obj).fields {
			d := distance(strings.ToLower(key), strings.ToLower(f.key))
			if d < bestDist {
				best, bestDist = f.key, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of bytes to insert, delete or replace to get from a to b. Keys are short.
func distance(a, b string) int {
	const maxKey = 100
	if len(a) > maxKey {
		return maxKey
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Describe is the answer to GET_BROKER_CONFIG and its kin: "key=value\n" lines of all structs, sorted, keys
// that several structs have once (the last one's, as Java merges them), unset strings left out, secrets
// hidden. It shows changes that wait for a restart.
func (s *Set) Describe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]string)
	for key, text := range s.extra {
		all[key] = maskUnknown(key, text)
	}
	for _, obj := range s.next {
		for _, f := range schemaOf(obj).fields {
			text := f.shown(obj)
			if text == "" && f.def == "" {
				delete(all, f.key)
				continue
			}
			all[f.key] = text
		}
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(key + "=" + all[key] + "\n")
	}
	return b.String()
}

// Lookup gives the value of one key as Describe shows it.
func (s *Set) Lookup(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj, f := s.next.field(key); f != nil {
		return f.shown(obj), true
	}
	text, ok := s.extra[key]
	return maskUnknown(key, text), ok
}

// Print writes "key=value" lines struct by struct in Java's order, as -p does; important leaves only the
// keys that Java marks, as -m does.
func (s *Set) Print(w io.Writer, important bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	seen := make(map[string]bool)
	for _, obj := range s.next {
		for _, f := range schemaOf(obj).fields {
			if !important || importantKeys[f.key] && !seen[f.key] {
				b.WriteString(f.key + "=" + f.shown(obj) + "\n")
			}
			seen[f.key] = true
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text is what to save after Apply: the file as it was with the applied values in it, or those values alone
// if there was no file. Java writes every key instead; it reads either.
func (s *Set) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Edited(s.changed)
}
