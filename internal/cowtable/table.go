// Package cowtable has a table by name that is read without locks, copy-on-write in parts: a change copies a 256th of it.
package cowtable

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
)

const parts = 256

// Table is a map from names to pointers. The zero value is empty. Any number of goroutines may read; changes are made by one
// at a time.
type Table[V any] struct {
	parts [parts]atomic.Pointer[map[string]*V]
}

var seed = maphash.MakeSeed()

func (t *Table[V]) part(name string) *atomic.Pointer[map[string]*V] {
	return &t.parts[maphash.String(seed, name)%parts]
}

// Get is the value of a name, nil without one.
func (t *Table[V]) Get(name string) *V {
	if p := t.part(name).Load(); p != nil {
		return (*p)[name]
	}
	return nil
}

// GetBytes is Get by the bytes of a name. It allocates nothing.
func (t *Table[V]) GetBytes(name []byte) *V {
	if p := t.parts[maphash.Bytes(seed, name)%parts].Load(); p != nil {
		return (*p)[string(name)]
	}
	return nil
}

// Set enters a value, or with nil takes the name away.
func (t *Table[V]) Set(name string, v *V) {
	part := t.part(name)
	next := map[string]*V{}
	if p := part.Load(); p != nil && len(*p) > 0 {
		next = maps.Clone(*p)
	}
	if v == nil {
		delete(next, name)
	} else {
		next[name] = v
	}
	part.Store(&next)
}

// Load replaces everything.
func (t *Table[V]) Load(values map[string]*V) {
	var all [parts]map[string]*V
	for name, v := range values {
		i := maphash.String(seed, name) % parts
		if all[i] == nil {
			all[i] = map[string]*V{}
		}
		all[i][name] = v
	}
	for i := range all {
		t.parts[i].Store(&all[i])
	}
}

// All are the values as they are when their part is looked at, in no order.
func (t *Table[V]) All() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for i := range t.parts {
			p := t.parts[i].Load()
			if p == nil {
				continue
			}
			for name, v := range *p {
				if !yield(name, v) {
					return
				}
			}
		}
	}
}
