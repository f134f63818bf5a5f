package fastjson

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unmarshaler is implemented by pointer types that read themselves, mostly enums, which Java takes by name in
// any case or by ordinal. The value is never nil; null reaches it too.
type Unmarshaler interface {
	UnmarshalFastjson(v *Value) error
}

// Marshaler is implemented by types that write themselves as another Go value: a string for an enum, nil to
// be left out (null inside a list).
type Marshaler interface {
	MarshalFastjson() (any, error)
}

// Defaulter gives a struct the values it keeps for members that the text lacks, as a Java bean's field
// initializers do. Unmarshal calls it before it fills a struct that is still all zero, at any level.
type Defaulter interface {
	SetDefaults()
}

var (
	unmarshalerType     = reflect.TypeFor[Unmarshaler]()
	marshalerType       = reflect.TypeFor[Marshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	defaulterType       = reflect.TypeFor[Defaulter]()
	valueType           = reflect.TypeFor[Value]()
)

// structInfo is what the tags of a struct type say.
type structInfo struct {
	fields  []fieldInfo    // A to Z by name
	exact   map[string]int // name or alternate name
	loose   map[string]int // the same without case, '_' and '-'
	nilable bool           // pointer type implements Defaulter
}

type fieldInfo struct {
	name      string
	quoted    string // `"name":`, names need no escapes
	index     []int
	typ       reflect.Type
	omitNull  bool
	omitEmpty bool
	set       bool
}

var structInfos sync.Map // reflect.Type to *structInfo; as many entries as the program has body types

func infoOf(t reflect.Type) *structInfo {
	if si, ok := structInfos.Load(t); ok {
		return si.(*structInfo)
	}
	si, _ := structInfos.LoadOrStore(t, newStructInfo(t))
	return si.(*structInfo)
}

func newStructInfo(t reflect.Type) *structInfo {
	si := &structInfo{exact: map[string]int{}, loose: map[string]int{}}
	si.nilable = reflect.PointerTo(t).Implements(defaulterType)
	si.collect(t, nil)
	slices.SortStableFunc(si.fields, func(a, b fieldInfo) int { return strings.Compare(a.name, b.name) })
	for i, f := range si.fields {
		if _, dup := si.exact[f.name]; dup {
			panic(fmt.Sprintf("BUG: fastjson: two fields of %v are named %q", t, f.name))
		}
		si.exact[f.name] = i
		addLoose(si.loose, f.name, i)
		if f.typ.Kind() == reflect.Bool {
			addLoose(si.loose, "is"+f.name, i)
		}
	}
	for i, f := range si.fields {
		for alt := range strings.SplitSeq(t.FieldByIndex(f.index).Tag.Get("alt"), ",") {
			if _, taken := si.exact[alt]; alt != "" && !taken {
				si.exact[alt] = i
				addLoose(si.loose, alt, i)
			}
		}
	}
	return si
}

func addLoose(loose map[string]int, name string, i int) {
	if k := looseName(name); k != "" {
		if _, taken := loose[k]; !taken {
			loose[k] = i
		}
	}
}

// collect adds t's fields; those of embedded structs without a tag count as t's own, as in Java's subclasses.
func (si *structInfo) collect(t reflect.Type, above []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("json")
		index := append(slices.Clone(above), i)
		if sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			si.collect(sf.Type, index)
			continue
		}
		if !sf.IsExported() || tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if name == "" {
			name = strings.ToLower(sf.Name[:1]) + sf.Name[1:]
		}
		f := fieldInfo{name: name, quoted: `"` + name + `":`, index: index, typ: sf.Type}
		for opt := range strings.SplitSeq(opts, ",") {
			switch opt {
			case "omitnull":
				f.omitNull = true
			case "omitempty":
				f.omitEmpty = true
			case "set":
				f.set = true
			case "":
			default:
				panic(fmt.Sprintf("BUG: fastjson: unknown tag option %q on %v.%s", opt, t, sf.Name))
			}
		}
		si.fields = append(si.fields, f)
	}
}

// looseName is a member name as fastjson's smart match sees it.
func looseName(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; c == '_' || c == '-' || c >= 'A' && c <= 'Z' {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '-':
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// find gives the field for a member name and whether the name is an exact one; -1 if there is none.
func (si *structInfo) find(name string) (i int, exact bool) {
	if i, ok := si.exact[name]; ok {
		return i, true
	}
	if i, ok := si.loose[looseName(name)]; ok {
		return i, false
	}
	return -1, false
}
