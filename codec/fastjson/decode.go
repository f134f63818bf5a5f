package fastjson

import (
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Unmarshal reads text into what ptr points to, under DefaultLimits. Errors wrap ErrSyntax, ErrLimit or
// ErrType; after a TypeError (which names the path) the target is partly filled.
//
//	Go type                 takes
//	struct                  object; field names by the json tag (else the Go name, first letter lowered),
//	                        alternates by an alt:"x,y" tag; see Defaulter for absent members
//	pointer                 null gives nil, as do "" and "null" for numbers and bools and [] for structs; else
//	                        the element is filled, a new one if it was nil
//	map                     object; keys may be string, integer, struct (object, or string holding its JSON) or
//	                        encoding.TextUnmarshaler types; null keys are dropped
//	slice                   array; "" gives nil; any other single value a slice of one
//	[]byte                  Base64 string, padding and line breaks optional; array of bytes -128…255
//	int…, uint…, float…     number; quoted number; "" and "null" are 0, true is 1; integers lose fractions
//	bool                    true, false; 1 is true, other numbers false; "true", "1", "Y", "T" and "false",
//	                        "0", "N", "F" in any case; "" and "null" are false
//	string                  string; text of a number or bool; compact JSON of an array or object
//	any                     nil, bool, string, int64 or float64, []any, map[string]any
//	Value                   any value, kept as it is
//	Unmarshaler             what it likes, null included
//	encoding.TextUnmarshaler   text of a string, number or bool
//
// null leaves numbers, bools and structs as they are and sets pointers, slices, maps and strings to zero.
func Unmarshal(data []byte, ptr any) error {
	v, err := Parse(data)
	if err != nil {
		return err
	}
	return v.Bind(ptr)
}

// Bind is Unmarshal for a value already parsed. What it stores does not share memory with the tree.
func (v *Value) Bind(ptr any) error {
	rv := reflect.ValueOf(ptr)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("fastjson: Bind to %T: a pointer is needed", ptr)
	}
	if v == nil {
		v = new(Value)
	}
	return bind(v, rv.Elem())
}

// bind fills dst, which is addressable or a map element about to be stored, from v.
func bind(v *Value, dst reflect.Value) error {
	t := dst.Type()
	if t == valueType {
		dst.Set(reflect.ValueOf(*v))
		return nil
	}
	if done, err := bindSelf(v, dst, t); done {
		return err
	}
	switch t.Kind() {
	case reflect.Pointer:
		if absent(v, t.Elem()) {
			dst.SetZero()
			return nil
		}
		if dst.IsNil() {
			dst.Set(reflect.New(t.Elem()))
		}
		return bind(v, dst.Elem())
	case reflect.Struct:
		return bindStruct(v, dst, t)
	case reflect.Map:
		return bindMap(v, dst, t)
	case reflect.Slice:
		return bindSlice(v, dst, t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			if v.kind == Null {
				dst.SetZero()
			} else {
				dst.Set(reflect.ValueOf(v.Any()))
			}
			return nil
		}
	}
	return bindScalar(v, dst, t)
}

// absent tells what stands for a nil pointer: null; "" and "null" for numbers and bools; [] for structs.
func absent(v *Value, elem reflect.Type) bool {
	switch v.kind {
	case Null:
		return true
	case String:
		k := elem.Kind()
		return k >= reflect.Bool && k <= reflect.Float64 && (v.text == "" || v.text == "null")
	case Array:
		return elem.Kind() == reflect.Struct && v.Len() == 0 && elem != valueType
	}
	return false
}

// bindSelf serves types that read themselves.
func bindSelf(v *Value, dst reflect.Value, t reflect.Type) (bool, error) {
	if t.Kind() == reflect.Pointer {
		return false, nil
	}
	pt := reflect.PointerTo(t)
	if pt.Implements(unmarshalerType) {
		err := dst.Addr().Interface().(Unmarshaler).UnmarshalFastjson(v)
		var te *TypeError
		if err != nil && !errors.As(err, &te) {
			err = mismatch(v, t.String(), err)
		}
		return true, err
	}
	if pt.Implements(textUnmarshalerType) {
		switch v.kind {
		case Null:
			return true, nil
		case Array, Object:
			return true, mismatch(v, t.String(), nil)
		}
		if err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.text)); err != nil {
			return true, mismatch(v, t.String(), err)
		}
		return true, nil
	}
	return false, nil
}

func bindStruct(v *Value, dst reflect.Value, t reflect.Type) error {
	if absent(v, t) {
		return nil
	}
	if v.kind != Object {
		return mismatch(v, t.String(), nil)
	}
	si := infoOf(t)
	if si.nilable && dst.IsZero() {
		dst.Addr().Interface().(Defaulter).SetDefaults()
	}
	var exactly [4]uint64 // fields set under their exact name; beyond 256 fields exactness is not tracked
	for pass := range 2 {
		missed := false
		for i := range v.Members() {
			m := &v.node.members[i]
			if m.Key.kind != String && m.Key.kind != Number {
				continue
			}
			f, exact := si.find(m.Key.text)
			if f < 0 {
				continue
			}
			word, bit := f/64%4, uint64(1)<<(f%64)
			switch {
			case exact != (pass == 0):
				missed = true
				continue
			case exact && f < 256:
				exactly[word] |= bit
			case f < 256 && exactly[word]&bit != 0:
				continue
			}
			if err := bind(&m.Val, dst.FieldByIndex(si.fields[f].index)); err != nil {
				return at(err, "."+si.fields[f].name)
			}
		}
		if !missed {
			break
		}
	}
	return nil
}

func bindMap(v *Value, dst reflect.Value, t reflect.Type) error {
	switch {
	case v.kind == Null || v.kind == String && v.text == "":
		dst.SetZero()
		return nil
	case v.kind != Object:
		return mismatch(v, t.String(), nil)
	}
	if dst.IsNil() {
		dst.Set(reflect.MakeMapWithSize(t, min(v.Len(), 1024)))
	}
	for i := range v.Members() {
		m := &v.node.members[i]
		key := reflect.New(t.Key()).Elem()
		skip, err := bindKey(&m.Key, key)
		if err != nil {
			return at(err, ".<key>")
		}
		if skip {
			continue
		}
		elem := reflect.New(t.Elem()).Elem()
		if err := bind(&m.Val, elem); err != nil {
			return at(err, "."+m.Key.label())
		}
		dst.SetMapIndex(key, elem)
	}
	return nil
}

// bindKey fills a map key. skip is true for null, "" and "null" where a string is not what is asked for.
func bindKey(k *Value, dst reflect.Value) (skip bool, err error) {
	t := dst.Type()
	if t.Kind() == reflect.String && !reflect.PointerTo(t).Implements(unmarshalerType) {
		return false, bind(k, dst)
	}
	if k.kind == Null || k.kind == String && (k.text == "" || k.text == "null") {
		return true, nil
	}
	if t.Kind() != reflect.Struct || k.kind != String || reflect.PointerTo(t).Implements(textUnmarshalerType) {
		return false, bind(k, dst)
	}
	inner, err := parseString(k.text, DefaultLimits)
	if err != nil {
		return false, mismatch(k, t.String()+" as JSON", err)
	}
	return false, bind(inner, dst)
}

func bindSlice(v *Value, dst reflect.Value, t reflect.Type) error {
	if v.kind == Null || v.kind == String && v.text == "" {
		dst.SetZero()
		return nil
	}
	if t.Elem().Kind() == reflect.Uint8 {
		return bindBytes(v, dst, t)
	}
	items := v.Items()
	if v.kind != Array {
		items = []Value{*v}
	}
	out := reflect.MakeSlice(t, len(items), len(items))
	for i := range items {
		if err := bind(&items[i], out.Index(i)); err != nil {
			return at(err, "["+strconv.Itoa(i)+"]")
		}
	}
	dst.Set(out)
	return nil
}

func bindBytes(v *Value, dst reflect.Value, t reflect.Type) error {
	switch v.kind {
	case String:
		s := strings.TrimRight(strings.NewReplacer("\r", "", "\n", "").Replace(v.text), "=")
		b, err := base64.RawStdEncoding.DecodeString(s)
		if err != nil {
			return mismatch(v, "Base64", err)
		}
		dst.SetBytes(b)
	case Array:
		b := make([]byte, v.Len())
		for i := range v.Items() {
			n, err := v.node.items[i].Int64()
			if err != nil || n < math.MinInt8 || n > math.MaxUint8 {
				return at(mismatch(&v.node.items[i], "byte", nil), "["+strconv.Itoa(i)+"]")
			}
			b[i] = byte(n)
		}
		dst.SetBytes(b)
	default:
		return mismatch(v, t.String(), nil)
	}
	return nil
}

func bindScalar(v *Value, dst reflect.Value, t reflect.Type) error {
	if v.kind == Null {
		if t.Kind() == reflect.String {
			dst.SetString("")
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		b, err := looseBool(v)
		dst.SetBool(b)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := v.Int64()
		if err != nil || dst.OverflowInt(n) {
			return mismatch(v, t.Kind().String(), nil)
		}
		dst.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := v.Int64()
		if u, uerr := strconv.ParseUint(v.text, 10, 64); uerr == nil && !dst.OverflowUint(u) {
			dst.SetUint(u)
			return nil
		}
		if err != nil || n < 0 || dst.OverflowUint(uint64(n)) {
			return mismatch(v, t.Kind().String(), nil)
		}
		dst.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		f, err := v.Float64()
		if err != nil || dst.OverflowFloat(f) {
			return mismatch(v, t.Kind().String(), nil)
		}
		dst.SetFloat(f)
	case reflect.String:
		if v.kind == Array || v.kind == Object {
			dst.SetString(v.String())
		} else {
			dst.SetString(strings.Clone(v.text))
		}
	default:
		return fmt.Errorf("fastjson: cannot bind to Go type %v", t)
	}
	return nil
}

func looseBool(v *Value) (bool, error) {
	switch v.kind {
	case Bool:
		return v.text == "true", nil
	case Number:
		n, err := v.Int64()
		return n == 1, err
	case String:
		switch strings.ToLower(v.text) {
		case "true", "1", "y", "t":
			return true, nil
		case "false", "0", "n", "f", "", "null":
			return false, nil
		}
	}
	return false, mismatch(v, "bool", nil)
}

// Any gives plain Go values: nil, bool, string, int64 if it fits else float64, []any, map[string]any
// (object keys as their compact JSON).
func (v *Value) Any() any {
	switch v.Kind() {
	case Bool:
		return v.text == "true"
	case String:
		return strings.Clone(v.text)
	case Number:
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(v.text, 64)
		return f
	case Array:
		out := make([]any, v.Len())
		for i := range v.Items() {
			out[i] = v.node.items[i].Any()
		}
		return out
	case Object:
		out := make(map[string]any, v.Len())
		for i := range v.Members() {
			m := &v.node.members[i]
			key := m.Key.text
			if m.Key.kind != String && m.Key.kind != Number {
				key = m.Key.String()
			}
			out[strings.Clone(key)] = m.Val.Any()
		}
		return out
	}
	return nil
}
