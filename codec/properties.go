package codec

import (
	"bytes"
	"iter"
	"maps"
	"slices"
)

// Separators of a properties string: name \x01 value \x02 … (Java MessageDecoder).
const (
	PropNameSeparator  = 1
	PropValueSeparator = 2
)

// NextProperty takes the first property off props. Entries that Java skips are skipped: those without a
// separator, with an empty name or an empty value. ok is false at the end. The value may hold further \x01.
func NextProperty(props []byte) (name, value, rest []byte, ok bool) {
	for len(props) > 0 {
		var entry []byte
		entry, props = cutEntry(props)
		if at := bytes.IndexByte(entry, PropNameSeparator); at > 0 && at < len(entry)-1 {
			return entry[:at:at], entry[at+1:], props, true
		}
	}
	return nil, nil, nil, false
}

// cutEntry takes the first entry off props, also one that Java skips.
func cutEntry(props []byte) (entry, rest []byte) {
	if end := bytes.IndexByte(props, PropValueSeparator); end >= 0 {
		return props[:end:end], props[end+1:]
	}
	return props, nil
}

// EachProperty ranges over the properties in their order, duplicates included; the last of a name is the
// valid one.
func EachProperty(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for {
			name, value, rest, ok := NextProperty(props)
			if !ok || !yield(name, value) {
				return
			}
			props = rest
		}
	}
}

// LookupProperty finds a property; of duplicates the last. It does not allocate.
func LookupProperty(props []byte, name string) (value []byte, ok bool) {
	at := len(name)
	for len(props) > 0 {
		var entry []byte
		entry, props = cutEntry(props)
		// a name has no separator in it, so this is the first one of the entry
		if at > 0 && at < len(entry)-1 && entry[at] == PropNameSeparator && string(entry[:at]) == name {
			value, ok = entry[at+1:], true
		}
	}
	return value, ok
}

// AppendProperty appends a property to the properties string dst and ends it with \x02; a missing \x02 before
// it is added. A property with an empty name or value is left out, since no reader would see it.
func AppendProperty[V string | []byte](dst []byte, name string, value V) []byte {
	if len(name) == 0 || len(value) == 0 {
		return dst
	}
	if len(dst) > 0 && dst[len(dst)-1] != PropValueSeparator {
		dst = append(dst, PropValueSeparator)
	}
	dst = append(dst, name...)
	dst = append(dst, PropNameSeparator)
	dst = append(dst, value...)
	return append(dst, PropValueSeparator)
}

// RemoveProperty appends to the properties string dst all of props but those with one of the names. To work
// in place pass props[:0:len(props)]: what is kept moves towards the front, and nothing behind props is
// touched.
func RemoveProperty(dst, props []byte, names ...string) []byte {
	for {
		name, value, rest, ok := NextProperty(props)
		if !ok {
			return dst
		}
		props = rest
		if isOneOf(names, name) {
			continue
		}
		if len(dst) > 0 && dst[len(dst)-1] != PropValueSeparator {
			dst = append(dst, PropValueSeparator)
		}
		dst = append(dst, name...)
		dst = append(dst, PropNameSeparator)
		dst = append(dst, value...)
		dst = append(dst, PropValueSeparator)
	}
}

func isOneOf(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) { // no copy, unlike slices.Contains
			return true
		}
	}
	return false
}

// ParseProperties makes a map of a properties string.
func ParseProperties(props []byte) map[string]string {
	m := make(map[string]string, bytes.Count(props, []byte{PropValueSeparator})+1)
	for name, value := range EachProperty(props) {
		m[string(name)] = string(value)
	}
	return m
}

// EncodeProperties makes a properties string of a map, in the order of the names, so that equal maps give
// equal bytes. Java's order is that of its hash map and means nothing.
func EncodeProperties(m map[string]string) []byte {
	n := 0
	for name, value := range m {
		n += len(name) + len(value) + 2
	}
	dst := make([]byte, 0, n)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		dst = AppendProperty(dst, name, m[name])
	}
	return dst
}
