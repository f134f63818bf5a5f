package fastjson

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Options chooses the shape of written text. The zero Options is JSON.toJSONString.
type Options struct {
	// StandardKeys writes what Java sends as route body to clients that ask for standard JSON: all keys
	// quoted (objects as keys become strings of JSON), '/' as \/, everything beyond ASCII as \uXXXX, and,
	// as fastjson's BrowserCompatible does, integers beyond ±2^53-1 as strings.
	StandardKeys bool
	// Pretty is the form of the config files: TAB indent, LF, no blank behind ':'.
	Pretty bool
}

// maxDepth bounds nesting on the way out, so that a cycle of pointers is an error and not a stack overflow.
const maxDepth = 512

// Marshal writes v as JSON.toJSONString does: compact, fields A to Z, nil left out, integer and struct map
// keys unquoted. See AppendMarshal.
func Marshal(v any) ([]byte, error) { return AppendMarshal(nil, v, Options{}) }

// MarshalStandard writes v with Options.StandardKeys.
func MarshalStandard(v any) ([]byte, error) {
	return AppendMarshal(nil, v, Options{StandardKeys: true})
}

// MarshalPretty writes v with Options.Pretty, as ConfigManager writes topics.json and its kind. No LF ends
// it.
func MarshalPretty(v any) ([]byte, error) { return AppendMarshal(nil, v, Options{Pretty: true}) }

// AppendMarshal appends the text of v to dst.
//
//	Go value                written as
//	struct                  object, fields A to Z by json tag; nil pointers and interfaces left out; embedded
//	                        structs flat. Tag options: omitnull leaves out nil slices and maps and "" too,
//	                        omitempty also zero numbers, false and empty slices and maps; set marks a field
//	                        whose lists Java keeps in a Set or an array of primitives: one line when pretty
//	map                     object; keys sorted (numbers by value, structs field by field), nil values left out
//	nil slice, nil map      [] and {}, since null breaks Java's tools
//	[]byte                  Base64 string; nil is left out
//	float64, float32        as Double.toString and Float.toString: 0.0, 1.0E10; NaN and infinities null
//	Value                   as parsed
//	Marshaler               what it returns
//	encoding.TextMarshaler  string
//
// Types without a JSON form (channels, functions, complex numbers) and nesting beyond 512 levels are errors.
func AppendMarshal(dst []byte, v any, opts Options) ([]byte, error) {
	e := encoder{opts: opts}
	out := e.any(dst, reflect.ValueOf(v), false)
	if e.err != nil {
		return dst, e.err
	}
	return out, nil
}

// encoder keeps the indent and the first error, so that the write functions can be plain appends.
type encoder struct {
	opts   Options
	indent int // of pretty text: open lists and objects, sets not counted
	depth  int
	err    error
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("fastjson: "+format, args...)
	}
}

// newline ends a line of pretty text.
func (e *encoder) newline(b []byte) []byte {
	if !e.opts.Pretty {
		return b
	}
	b = append(b, '\n')
	for range e.indent {
		b = append(b, '\t')
	}
	return b
}

func (e *encoder) any(b []byte, v reflect.Value, set bool) []byte {
	if e.depth++; e.depth > maxDepth {
		e.fail("more than %d nested levels to write", maxDepth)
	}
	if e.err == nil {
		b = e.inner(b, v, set)
	}
	e.depth--
	return b
}

func (e *encoder) inner(b []byte, v reflect.Value, set bool) []byte {
	v, ok := e.simplify(v)
	if !ok {
		return append(b, "null"...)
	}
	if v.Type() == valueType {
		val := v.Interface().(Value)
		return e.value(b, &val, e.depth)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return e.integer(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(b, v.Uint(), 10)
	case reflect.Float64:
		return appendDouble(b, v.Float(), 64)
	case reflect.Float32:
		return appendDouble(b, v.Float(), 32)
	case reflect.String:
		return e.string(b, v.String())
	case reflect.Struct:
		return e.structure(b, v)
	case reflect.Map:
		return e.mapping(b, v, set)
	case reflect.Slice, reflect.Array:
		return e.list(b, v, set)
	}
	e.fail("cannot write Go type %v", v.Type())
	return b
}

// simplify follows pointers, interfaces and types that write themselves; ok is false for nil.
func (e *encoder) simplify(v reflect.Value) (reflect.Value, bool) {
	for range maxDepth {
		if !v.IsValid() {
			return v, false
		}
		t := v.Type()
		nilable := v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface
		if nilable && v.IsNil() {
			return v, false
		}
		switch {
		case v.Kind() == reflect.Interface:
			v = v.Elem()
		case t.Implements(marshalerType):
			out, err := v.Interface().(Marshaler).MarshalFastjson()
			if err != nil {
				e.fail("%v: %w", t, err)
			}
			v = reflect.ValueOf(out)
		case t.Implements(textMarshalerType):
			out, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			if err != nil {
				e.fail("%v: %w", t, err)
			}
			v = reflect.ValueOf(string(out))
		case v.Kind() == reflect.Pointer:
			v = v.Elem()
		case v.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && v.IsNil():
			return v, false
		default:
			return v, true
		}
	}
	e.fail("pointers without end")
	return v, false
}

func (e *encoder) integer(b []byte, n int64) []byte {
	const maxSafe = 1<<53 - 1
	if e.opts.StandardKeys && (n > maxSafe || n < -maxSafe) {
		b = append(b, '"')
		b = strconv.AppendInt(b, n, 10)
		return append(b, '"')
	}
	return strconv.AppendInt(b, n, 10)
}

func (e *encoder) structure(b []byte, v reflect.Value) []byte {
	si := infoOf(v.Type())
	b = append(b, '{')
	e.indent++
	first := true
	for i := range si.fields {
		f := &si.fields[i]
		fv := v.FieldByIndex(f.index)
		if f.skip(fv) {
			continue
		}
		sv, ok := e.simplify(fv)
		if !ok {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = e.newline(b)
		b = append(b, f.quoted...)
		b = e.any(b, sv, f.set)
	}
	e.indent--
	if !first {
		b = e.newline(b)
	}
	return append(b, '}')
}

func (f *fieldInfo) skip(v reflect.Value) bool {
	if !f.omitNull && !f.omitEmpty {
		return false
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.IsNil() || f.omitEmpty && v.Len() == 0
	case reflect.String:
		return v.Len() == 0
	}
	return f.omitEmpty && v.IsZero()
}

func (e *encoder) list(b []byte, v reflect.Value, set bool) []byte {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		return append(b, '"')
	}
	b = append(b, '[')
	if !set {
		e.indent++
	}
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if !set {
			b = e.newline(b)
		}
		b = e.any(b, v.Index(i), false)
	}
	if !set {
		e.indent--
		if v.Len() > 0 {
			b = e.newline(b)
		}
	}
	return append(b, ']')
}

// entry is one map entry about to be written.
type entry struct {
	key, val reflect.Value
}

func (e *encoder) mapping(b []byte, v reflect.Value, set bool) []byte {
	entries := make([]entry, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		val, ok := e.simplify(it.Value())
		if !ok {
			continue
		}
		key, ok := e.simplify(it.Key())
		if !ok {
			e.fail("nil as map key")
			return b
		}
		entries = append(entries, entry{key, val})
	}
	slices.SortFunc(entries, func(a, b entry) int { return compareKeys(a.key, b.key) })
	b = append(b, '{')
	e.indent++
	for i, en := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.mapKey(b, en.key)
		b = append(b, ':')
		b = e.any(b, en.val, set)
	}
	e.indent--
	if len(entries) > 0 {
		b = e.newline(b)
	}
	return append(b, '}')
}

// mapKey writes a key. fastjson starts a new line of pretty text for string keys only.
func (e *encoder) mapKey(b []byte, key reflect.Value) []byte {
	if key.Kind() == reflect.String {
		return e.string(e.newline(b), key.String())
	}
	if !e.opts.StandardKeys {
		return e.any(b, key, false)
	}
	plain := encoder{depth: e.depth}
	text := plain.any(nil, key, false)
	if plain.err != nil {
		e.fail("map key: %w", plain.err)
	}
	return e.string(b, string(text))
}

// compareKeys orders numbers by value, strings by bytes, structs by their fields A to Z.
func compareKeys(a, b reflect.Value) int {
	if a.Kind() != b.Kind() {
		return int(a.Kind()) - int(b.Kind())
	}
	switch {
	case a.CanInt():
		return cmpOrdered(a.Int(), b.Int())
	case a.CanUint():
		return cmpOrdered(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmpOrdered(a.Float(), b.Float())
	}
	switch a.Kind() {
	case reflect.String:
		return strings.Compare(a.String(), b.String())
	case reflect.Bool:
		return cmpOrdered(boolInt(a.Bool()), boolInt(b.Bool()))
	case reflect.Struct:
		for _, f := range infoOf(a.Type()).fields {
			if c := compareKeys(a.FieldByIndex(f.index), b.FieldByIndex(f.index)); c != 0 {
				return c
			}
		}
	}
	return 0
}
