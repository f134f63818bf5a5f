package filter

import (
	"math"
	"strconv"
	"strings"
)

// class is what the parser knows about an operand before any message is seen; Java asks this with instanceof.
type class uint8

const (
	classValue    class = iota // a negation: a number or null at evaluation
	classProperty              // a bare property, also in parentheses or after unary plus
	classLiteral               // a literal string, number, boolean or null
	classBoolean               // a condition
)

// operand is a parsed part of the expression.
type operand struct {
	expr  expr
	class class
	value value // of a literal, and of a negation known at once
	known bool  // value is set
	depth int   // height of the tree
	off   int   // where it starts, in bytes
}

// binding is the strength with which an operator holds its operands.
type binding int

const (
	bindNone binding = iota
	bindOr
	bindAnd
	bindEquality
	bindComparison
	bindUnary
)

// infixBinding of the tokens that can follow an operand; everything else ends the expression.
var infixBinding = [len(tokenNames)]binding{
	tokOr: bindOr, tokAnd: bindAnd,
	tokEqual: bindEquality, tokNotEqual: bindEquality, tokIs: bindEquality,
	tokGreater: bindComparison, tokGreaterEqual: bindComparison, tokLess: bindComparison,
	tokLessEqual: bindComparison, tokNot: bindComparison, tokBetween: bindComparison, tokIn: bindComparison,
	tokContains: bindComparison, tokStartsWith: bindComparison, tokEndsWith: bindComparison,
}

// orderings of the comparison tokens.
var orderings = map[tokenKind]ordering{
	tokLess: less, tokLessEqual: lessEqual, tokGreater: greater, tokGreaterEqual: greaterEqual,
}

// parser is a Pratt parser: parse takes a prefix and then every operator that binds at least as tightly
// as asked. It sees one token ahead, as Java's does; this decides which broken text behind a condition is
// noticed.
type parser struct {
	lexer
	tok   token // the next one
	depth int   // of nested calls of parse
}

// advance returns the current token and reads the next.
func (p *parser) advance() (token, error) {
	t := p.tok
	next, err := p.next()
	p.tok = next
	return t, err
}

// expect takes a token of the given kind.
func (p *parser) expect(k tokenKind) (token, error) {
	if p.tok.kind != k {
		return token{}, p.fail(p.tok.start, "expected %s, found %s", k, p.found(p.tok))
	}
	return p.advance()
}

// parse reads an operand and all operators behind it that bind at least as tightly as min.
func (p *parser) parse(min binding) (operand, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > MaxDepth {
		return operand{}, p.fail(p.tok.start, "nested deeper than %d", MaxDepth)
	}
	left, err := p.parsePrefix()
	if err != nil {
		return operand{}, err
	}
	// After an operator only those follow that bind no tighter. This matters behind IS NULL, which has no
	// right operand to take them: in "a IS NULL > 5" the condition ends at ">", as in Java's grammar.
	for ceiling := bindUnary; ; {
		b := infixBinding[p.tok.kind]
		if b == bindNone || b < min || b > ceiling {
			return left, nil
		}
		ceiling = b
		off := left.off
		left, err = p.parseInfix(left, b)
		if err != nil {
			return operand{}, err
		}
		left.off = off
		if left.depth > MaxDepth {
			return operand{}, p.fail(p.tok.start, "chained deeper than %d", MaxDepth)
		}
	}
}

// parsePrefix reads what can start an operand.
func (p *parser) parsePrefix() (operand, error) {
	t, err := p.advance()
	if err != nil {
		return operand{}, err
	}
	switch t.kind {
	case tokIdent:
		return operand{expr: &property{p.text(t)}, class: classProperty, off: t.start}, nil
	case tokString, tokInteger, tokFloat, tokTrue, tokFalse, tokNull:
		v, err := p.literal(t)
		return operand{expr: &constant{v}, class: classLiteral, value: v, known: true, off: t.start}, err
	case tokOpen:
		x, err := p.parse(bindOr)
		if err != nil {
			return operand{}, err
		}
		_, err = p.expect(tokClose)
		return x, err
	case tokPlus:
		return p.parse(bindUnary)
	case tokMinus:
		x, err := p.parse(bindUnary)
		return negation(x, t.start), err
	case tokNot:
		x, err := p.parse(bindUnary)
		if err != nil {
			return operand{}, err
		}
		c, err := p.asCondition(x)
		return operand{expr: &not{c}, class: classBoolean, depth: x.depth + 1, off: t.start}, err
	}
	return operand{}, p.fail(t.start, "expected a value or a property, found %s", p.found(t))
}

// negation is unary minus. Known values are computed now, but the result is no literal: Java checks the
// operands of BETWEEN and "=" less strictly when they are negated.
func negation(x operand, off int) operand {
	if x.known {
		v := negated(x.value)
		return operand{expr: &constant{v}, value: v, known: true, off: off}
	}
	return operand{expr: &negate{x.expr}, depth: x.depth + 1, off: off}
}

// literal returns the value of a literal token (Java: ConstantExpression.createFromDecimal and createFloat).
func (p *parser) literal(t token) (value, error) {
	switch t.kind {
	case tokTrue:
		return truth, nil
	case tokFalse:
		return falseness, nil
	case tokString:
		return value{kind: kindString, str: []byte(p.unquote(t))}, nil
	case tokInteger:
		n, err := strconv.ParseInt(strings.TrimRight(p.text(t), "lL"), 10, 64)
		switch {
		case err != nil:
			return null, p.fail(t.start, "integer %s is above %d", p.found(t), int64(math.MaxInt64))
		case n <= math.MaxInt32:
			return value{kind: kindInteger, num: n}, nil
		}
		return value{kind: kindLong, num: n}, nil
	case tokFloat:
		f, _ := strconv.ParseFloat(p.text(t), 64) // ±Inf when out of range
		switch {
		case math.IsInf(f, 0):
			return null, p.fail(t.start, "float %s is above %g", p.found(t), math.MaxFloat64)
		case f == 0:
			return null, p.fail(t.start, "float %s is 0 or too close to it; write an integer", p.found(t))
		}
		return double(f), nil
	}
	return null, nil
}

// parseInfix reads the operator at the current token, which binds as b, and what belongs to it.
func (p *parser) parseInfix(left operand, b binding) (operand, error) {
	op, err := p.advance()
	if err != nil {
		return operand{}, err
	}
	switch op.kind {
	case tokOr, tokAnd:
		return p.parseChain(left, op.kind, b)
	case tokEqual, tokNotEqual:
		return p.parseEquality(left, op, b)
	case tokIs:
		return p.parseIs(left)
	case tokLess, tokLessEqual, tokGreater, tokGreaterEqual:
		return p.parseComparison(left, op)
	}
	inverted := op.kind == tokNot
	if inverted {
		if op, err = p.advance(); err != nil {
			return operand{}, err
		}
	}
	switch op.kind {
	case tokBetween:
		return p.parseBetween(left, op, inverted)
	case tokIn:
		return p.parseIn(left, inverted)
	case tokContains, tokStartsWith, tokEndsWith:
		return p.parseTextTest(left, op, inverted)
	}
	return operand{}, p.fail(op.start,
		"expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT, found %s", p.found(op))
}

// parseChain reads the rest of a chain "left OR b OR c" into one node, so that a long chain is not a deep
// tree.
func (p *parser) parseChain(left operand, op tokenKind, b binding) (operand, error) {
	first, err := p.asCondition(left)
	if err != nil {
		return operand{}, err
	}
	chain := &logic{decides: op == tokOr, xs: []expr{first}}
	depth := left.depth
	for {
		right, err := p.parse(b + 1)
		if err != nil {
			return operand{}, err
		}
		x, err := p.asCondition(right)
		if err != nil {
			return operand{}, err
		}
		chain.xs = append(chain.xs, x)
		depth = max(depth, right.depth)
		if p.tok.kind != op {
			return operand{expr: chain, class: classBoolean, depth: depth + 1}, nil
		}
		if _, err := p.advance(); err != nil {
			return operand{}, err
		}
	}
}

func (p *parser) parseEquality(left operand, op token, b binding) (operand, error) {
	right, err := p.parse(b + 1)
	if err != nil {
		return operand{}, err
	}
	for _, x := range []operand{left, right} {
		if x.class == classLiteral && x.value.kind == kindNull {
			return operand{}, p.fail(x.off, "NULL cannot be compared with %s, use IS NULL", op.kind)
		}
	}
	if left.class == classLiteral && right.class == classLiteral &&
		left.value.kind == kindBoolean && right.value.kind != kindBoolean {
		return operand{}, p.fail(op.start, "a boolean cannot be compared with a literal of another type")
	}
	depth := max(left.depth, right.depth) + 1
	var x expr = &equal{l: left.expr, r: right.expr, fail: p.evalError(op)}
	if op.kind == tokNotEqual {
		x, depth = &not{x}, depth+1
	}
	return operand{expr: x, class: classBoolean, depth: depth}, nil
}

func (p *parser) parseIs(left operand) (operand, error) {
	inverted := p.tok.kind == tokNot
	if inverted {
		if _, err := p.advance(); err != nil {
			return operand{}, err
		}
	}
	if _, err := p.expect(tokNull); err != nil {
		return operand{}, err
	}
	if inverted {
		return operand{expr: &not{&isNull{left.expr}}, class: classBoolean, depth: left.depth + 2}, nil
	}
	return operand{expr: &isNull{left.expr}, class: classBoolean, depth: left.depth + 1}, nil
}

func (p *parser) parseComparison(left operand, op token) (operand, error) {
	right, err := p.parse(bindUnary)
	if err != nil {
		return operand{}, err
	}
	if err := p.checkOrdered(op, left, right); err != nil {
		return operand{}, err
	}
	return operand{
		expr:  &compareTest{l: left.expr, r: right.expr, op: orderings[op.kind], fail: p.evalError(op)},
		class: classBoolean,
		depth: max(left.depth, right.depth) + 1,
	}, nil
}

func (p *parser) parseBetween(left operand, op token, inverted bool) (operand, error) {
	low, err := p.parse(bindUnary)
	if err != nil {
		return operand{}, err
	}
	if _, err := p.expect(tokAnd); err != nil {
		return operand{}, err
	}
	high, err := p.parse(bindUnary)
	if err != nil {
		return operand{}, err
	}
	if err := p.checkOrdered(op, left, low, high); err != nil {
		return operand{}, err
	}
	if !inverted && low.class == classLiteral && high.class == classLiteral {
		if order, _ := compare(high.value, low.value); order < 0 {
			return operand{}, p.fail(low.off, "the lower bound of BETWEEN is above the upper one")
		}
	}
	return operand{
		expr: &between{
			x: left.expr, low: low.expr, high: high.expr, inverted: inverted, fail: p.evalError(op),
		},
		class: classBoolean,
		depth: max(left.depth, low.depth, high.depth) + 1,
	}, nil
}

func (p *parser) parseIn(left operand, inverted bool) (operand, error) {
	if left.class != classProperty {
		return operand{}, p.fail(left.off, "expected a property before IN")
	}
	if _, err := p.expect(tokOpen); err != nil {
		return operand{}, err
	}
	x := &in{x: left.expr, inverted: inverted}
	for {
		t, err := p.expect(tokString)
		if err != nil {
			return operand{}, err
		}
		x.list = append(x.list, p.unquote(t))
		if p.tok.kind != tokComma {
			break
		}
		if _, err := p.advance(); err != nil {
			return operand{}, err
		}
	}
	if _, err := p.expect(tokClose); err != nil {
		return operand{}, err
	}
	if len(x.list) > linearListMax {
		x.set = make(map[string]struct{}, len(x.list))
		for _, s := range x.list {
			x.set[s] = struct{}{}
		}
		x.list = nil
	}
	return operand{expr: x, class: classBoolean, depth: left.depth + 1}, nil
}

func (p *parser) parseTextTest(left operand, op token, inverted bool) (operand, error) {
	t, err := p.expect(tokString)
	if err != nil {
		return operand{}, err
	}
	search := p.unquote(t)
	if search == "" { // FALSE in Java without a look at the operand, and for the NOT forms too
		return operand{expr: &constant{falseness}, class: classBoolean}, nil
	}
	return operand{
		expr: &textTest{
			x: left.expr, search: []byte(search), test: textTests[op.kind], inverted: inverted,
		},
		class: classBoolean,
		depth: left.depth + 1,
	}, nil
}

// asCondition makes a boolean node of an operand (Java: SelectorParser.asBooleanExpression).
func (p *parser) asCondition(x operand) (expr, error) {
	switch {
	case x.class == classBoolean:
		return x.expr, nil
	case x.class == classProperty:
		return &condition{x.expr}, nil
	case x.class == classLiteral && (x.value.kind == kindBoolean || x.value.kind == kindNull):
		return x.expr, nil
	}
	return nil, p.fail(x.off, "expected a condition, found a value")
}

// checkOrdered refuses operands of < <= > >= BETWEEN that can never be numbers (Java: checkLessThanOperand).
func (p *parser) checkOrdered(op token, operands ...operand) error {
	for _, x := range operands {
		if x.class == classBoolean {
			return p.fail(x.off, "a condition cannot be an operand of %s", op.kind)
		}
		if x.class == classLiteral && !x.value.isNumber() {
			return p.fail(x.off, "only numbers and properties can be operands of %s", op.kind)
		}
	}
	return nil
}

func (p *parser) evalError(op token) *EvalError {
	return &EvalError{Pos: p.position(op.start), Op: op.kind.String()}
}
