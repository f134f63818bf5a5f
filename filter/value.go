package filter

import (
	"bytes"
	"math"
)

// kind is the type of a value during evaluation, named after the Java class it stands for.
type kind uint8

const (
	kindNull    kind = iota
	kindBoolean      // num is 0 or 1
	kindInteger      // num, 32 bits wide
	kindLong         // num
	kindDouble       // num holds the bits
	kindString       // str
)

// value is what an expression evaluates to. It is passed by value, so that evaluation needs no heap.
type value struct {
	kind kind
	num  int64
	str  []byte
}

var (
	null      = value{}
	falseness = value{kind: kindBoolean}
	truth     = value{kind: kindBoolean, num: 1}
)

func boolean(b bool) value {
	if b {
		return truth
	}
	return falseness
}

func double(v float64) value { return value{kind: kindDouble, num: int64(math.Float64bits(v))} }

func (v value) double() float64 { return math.Float64frombits(uint64(v.num)) }

func (v value) isTrue() bool { return v.kind == kindBoolean && v.num == 1 }

func (v value) isNumber() bool {
	return v.kind == kindInteger || v.kind == kindLong || v.kind == kindDouble
}

// toDouble widens a number.
func (v value) toDouble() float64 {
	if v.kind == kindDouble {
		return v.double()
	}
	return float64(v.num)
}

// convert reads string s as the type k of the other operand, as Java's valueOf of that type. ok is false
// where Java throws NumberFormatException.
func convert(s []byte, k kind) (v value, ok bool) {
	switch k {
	case kindBoolean:
		return boolean(len(s) == 4 && bytes.EqualFold(s, []byte("true"))), true
	case kindInteger:
		n, ok := parseInteger(s, 32)
		return value{kind: k, num: n}, ok
	case kindLong:
		n, ok := parseInteger(s, 64)
		return value{kind: k, num: n}, ok
	case kindDouble:
		d, ok := parseDouble(s)
		return double(d), ok
	}
	return value{kind: kindString, str: s}, true
}

// incomparable is what compare answers for a boolean against a number: Java's __compare returns -1, so
// such operands are never equal.
const incomparable = -1

// compare orders two values that are not null (Java: ComparisonExpression.__compare). ok is false where
// Java throws because a string is not a number of the other operand's type. Strings against strings are
// ordered by bytes, which is good for equality only; see compareOrdered.
func compare(l, r value) (order int, ok bool) {
	ok = true
	switch {
	case l.kind == r.kind:
	case l.kind == kindString:
		l, ok = convert(l.str, r.kind)
	case r.kind == kindString:
		r, ok = convert(r.str, l.kind)
	case l.kind == kindBoolean || r.kind == kindBoolean:
		return incomparable, true
	}
	if !ok {
		return 0, false
	}
	switch {
	case l.kind == kindString:
		return bytes.Compare(l.str, r.str), true
	case l.kind == kindDouble || r.kind == kindDouble:
		return compareDoubles(l.toDouble(), r.toDouble()), true
	}
	return compareInts(l.num, r.num), true
}

// compareOrdered is compare for < <= > >=, where two strings are read as doubles.
func compareOrdered(l, r value) (order int, ok bool) {
	if l.kind != kindString || r.kind != kindString {
		return compare(l, r)
	}
	a, ok := parseDouble(l.str)
	if !ok {
		return 0, false
	}
	b, ok := parseDouble(r.str)
	if !ok {
		return 0, false
	}
	return compareDoubles(a, b), true
}
