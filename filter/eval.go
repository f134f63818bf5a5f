package filter

import "bytes"

// expr is a node of a compiled condition. Nodes never change after Compile. The depth of a tree is bounded by
// MaxDepth, so the recursion of eval is too.
type expr interface {
	// eval computes the node's value for one message. The string in a value is valid until the next Lookup.
	eval(p Properties) (value, error)
}

// constant is a literal, or what could be computed at once.
type constant struct{ v value }

func (e *constant) eval(Properties) (value, error) { return e.v, nil }

// property is the string of that name, or null.
type property struct{ name string }

func (e *property) eval(p Properties) (value, error) {
	if s, ok := p.Lookup(e.name); ok {
		return value{kind: kindString, str: s}, nil
	}
	return null, nil
}

// negate is unary minus: null for everything but numbers (Java: UnaryExpression.createNegate).
type negate struct{ x expr }

func (e *negate) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	return negated(v), err
}

func negated(v value) value {
	switch v.kind {
	case kindInteger:
		v.num = int64(int32(-v.num))
		return v
	case kindLong:
		v.num = -v.num
		return v
	case kindDouble:
		return double(-v.double())
	}
	return null
}

// condition is a bare property where a boolean is wanted: null if absent, else FALSE, as properties are
// strings (Java: UnaryExpression.createBooleanCast).
type condition struct{ x expr }

func (e *condition) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	if err != nil || v.kind == kindNull || v.kind == kindBoolean {
		return v, err
	}
	return falseness, nil
}

// not keeps null.
type not struct{ x expr }

func (e *not) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	if err != nil || v.kind == kindNull {
		return null, err
	}
	return boolean(!v.isTrue()), nil
}

// logic is a chain of AND or of OR. It stops at the first operand that decides, so errors behind that do
// not show; else null wins over the neutral value (Java: LogicExpression, whose nested pairs give the
// same).
type logic struct {
	decides bool // the value that ends the chain: TRUE for OR, FALSE for AND
	xs      []expr
}

func (e *logic) eval(p Properties) (value, error) {
	result := boolean(!e.decides)
	for _, x := range e.xs {
		v, err := x.eval(p)
		if err != nil {
			return null, err
		}
		if v.kind == kindNull {
			result = null
		} else if v.isTrue() == e.decides {
			return v, nil
		}
	}
	return result, nil
}

// isNull is IS NULL; IS NOT NULL is a not around it.
type isNull struct{ x expr }

func (e *isNull) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	return boolean(v.kind == kindNull), err
}

// equal is "="; "<>" is a not around it. Both sides are always evaluated. Null on both sides is TRUE, on
// the left alone null, on the right alone FALSE (Java: ComparisonExpression.doCreateEqual).
type equal struct {
	l, r expr
	fail *EvalError
}

func (e *equal) eval(p Properties) (value, error) {
	l, err := e.l.eval(p)
	if err != nil {
		return null, err
	}
	r, err := e.r.eval(p)
	if err != nil {
		return null, err
	}
	switch {
	case l.kind == kindNull && r.kind == kindNull:
		return truth, nil
	case l.kind == kindNull:
		return null, nil
	case r.kind == kindNull:
		return falseness, nil
	}
	order, ok := compare(l, r)
	if !ok {
		return null, e.fail
	}
	return boolean(order == 0), nil
}

// ordering is one of < <= > >=.
type ordering uint8

const (
	less ordering = iota
	lessEqual
	greater
	greaterEqual
)

func (o ordering) String() string { return [...]string{"<", "<=", ">", ">="}[o] }

func (o ordering) holds(order int) bool {
	switch o {
	case less:
		return order < 0
	case lessEqual:
		return order <= 0
	case greater:
		return order > 0
	}
	return order >= 0
}

// compareTest compares numbers. A null on the left ends it before the right is evaluated.
type compareTest struct {
	l, r expr
	op   ordering
	fail *EvalError
}

func (e *compareTest) eval(p Properties) (value, error) {
	l, err := e.l.eval(p)
	if err != nil || l.kind == kindNull {
		return null, err
	}
	return ordered(p, l, e.op, e.r, e.fail)
}

// ordered is the second half of compareTest: the left side is known and not null.
func ordered(p Properties, l value, op ordering, right expr, fail *EvalError) (value, error) {
	r, err := right.eval(p)
	if err != nil || r.kind == kindNull {
		return null, err
	}
	order, ok := compareOrdered(l, r)
	if !ok {
		return null, fail
	}
	return boolean(op.holds(order)), nil
}

// between is x >= low AND x <= high; inverted it is x < low OR x > high, which is not the same as NOT of
// the former when a bound is null. The tested side is evaluated once where Java does it twice.
type between struct {
	x, low, high expr
	inverted     bool
	fail         *EvalError
}

func (e *between) eval(p Properties) (value, error) {
	x, err := e.x.eval(p)
	if err != nil || x.kind == kindNull {
		return null, err
	}
	first, second := greaterEqual, lessEqual
	if e.inverted {
		first, second = less, greater
	}
	a, err := ordered(p, x, first, e.low, e.fail)
	if err != nil || a.kind == kindBoolean && a.isTrue() == e.inverted {
		return a, err
	}
	b, err := ordered(p, x, second, e.high, e.fail)
	if err != nil || b.kind == kindBoolean && b.isTrue() == e.inverted {
		return b, err
	}
	if a.kind == kindNull {
		return null, nil
	}
	return b, nil
}

// linearListMax is the longest IN list that is searched one by one.
const linearListMax = 8

// in tests a property against a list of strings; null stays null.
type in struct {
	x        expr
	list     []string
	set      map[string]struct{} // of list, if that is longer than linearListMax
	inverted bool
}

func (e *in) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	if err != nil || v.kind != kindString {
		return null, err
	}
	return boolean(e.contains(v.str) != e.inverted), nil
}

func (e *in) contains(s []byte) bool {
	if e.set != nil {
		_, found := e.set[string(s)]
		return found
	}
	for _, want := range e.list {
		if want == string(s) {
			return true
		}
	}
	return false
}

// textTest is [NOT] CONTAINS, STARTSWITH, ENDSWITH with a search text that is not empty: FALSE, even with
// NOT, for everything but strings (Java: ComparisonExpression.ContainsExpression and its five twins).
type textTest struct {
	x        expr
	search   []byte
	test     func(s, search []byte) bool
	inverted bool
}

func (e *textTest) eval(p Properties) (value, error) {
	v, err := e.x.eval(p)
	if err != nil {
		return null, err
	}
	return boolean(v.kind == kindString && e.test(v.str, e.search) != e.inverted), nil
}

// textTests are the functions behind the keywords.
var textTests = map[tokenKind]func(s, search []byte) bool{
	tokContains:   bytes.Contains,
	tokStartsWith: bytes.HasPrefix,
	tokEndsWith:   bytes.HasSuffix,
}
