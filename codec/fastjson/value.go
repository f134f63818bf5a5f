package fastjson

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind says which of the six JSON kinds a Value has.
type Kind uint8

// The kinds. The zero Value is null.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String gives the kind's name for error texts.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "bool"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Value is one node of a parsed text. It is 32 bytes and read-only: references may make several places of a
// tree share the same members. Strings are slices of one private copy of the input, so keeping any part of
// a tree keeps that whole copy; Unmarshal therefore clones what it stores.
type Value struct {
	text string // String: the text; Number: its digits; Bool: "true" or "false"
	node *node  // Array and Object that are not empty
	kind Kind
	ref  bool // a "$ref" not yet resolved; never seen outside this package
}

type node struct {
	items   []Value
	members []Member
}

// Member is one key and value of an object. Key is a String (also for bare names and literals), a Number, an
// Object or an Array.
type Member struct {
	Key Value
	Val Value
}

// Kind of the value; Null for a nil pointer.
func (v *Value) Kind() Kind {
	if v == nil {
		return Null
	}
	return v.kind
}

// IsNull is true for null and for a nil pointer, so v.Get("absent").IsNull() is fine.
func (v *Value) IsNull() bool { return v.Kind() == Null }

// Text gives a string's text, a number's digits as written (without '+', needless zeros and a type suffix),
// "true" or "false"; "" for the other kinds.
func (v *Value) Text() string {
	if v == nil {
		return ""
	}
	return v.text
}

// Bool is true for the literal true only; Unmarshal knows the looser forms.
func (v *Value) Bool() bool { return v.Kind() == Bool && v.text == "true" }

// Int64 reads a number or a quoted number. Like fastjson it takes "" and "null" as 0, true as 1, cuts the
// fraction of 5.7, and takes 1e3 and "1,000". Out of range or not a number is a TypeError.
func (v *Value) Int64() (int64, error) {
	switch v.Kind() {
	case Bool:
		if v.text == "true" {
			return 1, nil
		}
		return 0, nil
	case Number:
		return parseInt(v, v.text)
	case String:
		if v.text == "" || v.text == "null" {
			return 0, nil
		}
		return parseInt(v, strings.ReplaceAll(v.text, ",", ""))
	}
	return 0, mismatch(v, "integer", nil)
}

func parseInt(v *Value, s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if !numeric(s) || !strings.ContainsAny(s, ".eE") {
		return 0, mismatch(v, "64-bit integer", nil)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f >= math.MaxInt64 || f < math.MinInt64 {
		return 0, mismatch(v, "64-bit integer", nil)
	}
	if dot := strings.IndexByte(s, '.'); dot > 0 && !strings.ContainsAny(s, "eE") {
		return strconv.ParseInt(s[:dot], 10, 64) // exact beyond 2^53
	}
	return int64(f), nil
}

// Float64 reads a number or a quoted number ("NaN" and "Infinity" too); "" and "null" are 0.
func (v *Value) Float64() (float64, error) {
	switch v.Kind() {
	case Number, String:
		if v.kind == String && (v.text == "" || v.text == "null") {
			return 0, nil
		}
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || strings.ContainsAny(v.text, "xX_") {
			return 0, mismatch(v, "number", nil)
		}
		return f, nil
	}
	return 0, mismatch(v, "number", nil)
}

// numeric is true if s is a plain decimal number, which keeps ParseFloat from taking hex, "inf" and '_'.
func numeric(s string) bool {
	digits := false
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E':
		default:
			return false
		}
	}
	return digits
}

// Len is the number of items of an array or of members of an object, else 0.
func (v *Value) Len() int { return len(v.Items()) + len(v.Members()) }

// Items of an array in order; nil for other kinds. Do not change them.
func (v *Value) Items() []Value {
	if v == nil || v.node == nil {
		return nil
	}
	return v.node.items
}

// Members of an object in the order of the text, duplicates kept; nil for other kinds. Do not change them.
func (v *Value) Members() []Member {
	if v == nil || v.node == nil {
		return nil
	}
	return v.node.members
}

// Get finds the last member whose key has exactly this text (a string or a number); nil if there is none.
func (v *Value) Get(name string) *Value {
	ms := v.Members()
	for i := len(ms) - 1; i >= 0; i-- {
		if k := &ms[i].Key; k.text == name && (k.kind == String || k.kind == Number) {
			return &ms[i].Val
		}
	}
	return nil
}

// String is the compact fastjson text of the value, for logs and errors.
func (v *Value) String() string {
	if v == nil {
		return "null"
	}
	e := encoder{}
	return string(e.value(nil, v, 0))
}

// describe names kind and beginning of the value for error texts.
func (v *Value) describe() string {
	switch v.Kind() {
	case Null, Array, Object:
		return v.Kind().String()
	}
	s := cut(v.text)
	if v.kind == String {
		return fmt.Sprintf("string %q", s)
	}
	return v.kind.String() + " " + s
}

// label names a map key in the path of an error.
func (v *Value) label() string {
	if v.kind == Object || v.kind == Array {
		return cut(v.String())
	}
	return cut(v.text)
}

// cut shortens text for an error.
func cut(s string) string {
	const maxShown = 40
	if len(s) <= maxShown {
		return s
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
