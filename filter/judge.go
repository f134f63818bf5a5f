package filter

// verdict is what a condition says of a message.
type verdict uint8

const (
	no verdict = iota
	yes
	unknown // null
	failed  // eval tells why
)

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// test is a condition made ready to be asked about many messages. It answers as the eval of the node it was made of, which
// stays the definition: TestGoldenExpressions compares the two. Values are 40 bytes and pass through every node of eval;
// what most subscriptions consist of, a property against literals, is one node here and has no values, which takes a
// third of the time.
type test interface{ judge(p Properties) verdict }

// testOf is the test of a condition.
func testOf(x expr) test {
	switch x := x.(type) {
	case *logic:
		c := &chainTest{decides: verdictOf(x.decides), rest: verdictOf(!x.decides)}
		for _, x := range x.xs {
			c.xs = append(c.xs, testOf(x))
		}
		return c
	case *not:
		return &notTest{testOf(x.x)}
	case *isNull:
		if p, ok := x.x.(*property); ok {
			return &nullTest{p.name}
		}
	case *condition:
		if p, ok := x.x.(*property); ok {
			return &presenceTest{p.name}
		}
	case *in:
		if p, ok := x.x.(*property); ok {
			return &listTest{p.name, x}
		}
	case *textTest:
		if p, ok := x.x.(*property); ok {
			return &searchTest{p.name, x}
		}
	case *equal:
		return equalityTest(x)
	case *compareTest:
		return orderTest(x)
	case *between:
		return rangeTest(x)
	}
	return &anyTest{x}
}

// anyTest is any condition.
type anyTest struct{ x expr }

func (t *anyTest) judge(p Properties) verdict {
	v, err := t.x.eval(p)
	switch {
	case err != nil:
		return failed
	case v.kind == kindNull:
		return unknown
	}
	return verdictOf(v.isTrue())
}

// chainTest is logic.
type chainTest struct {
	decides, rest verdict
	xs            []test
}

func (t *chainTest) judge(p Properties) verdict {
	result := t.rest
	for _, x := range t.xs {
		switch v := x.judge(p); v {
		case t.decides, failed:
			return v
		case unknown:
			result = unknown
		}
	}
	return result
}

// notTest is not.
type notTest struct{ x test }

func (t *notTest) judge(p Properties) verdict {
	switch v := t.x.judge(p); v {
	case no:
		return yes
	case yes:
		return no
	default:
		return v
	}
}

// nullTest is isNull of a property.
type nullTest struct{ name string }

func (t *nullTest) judge(p Properties) verdict {
	_, ok := p.Lookup(t.name)
	return verdictOf(!ok)
}

// presenceTest is condition of a property.
type presenceTest struct{ name string }

func (t *presenceTest) judge(p Properties) verdict {
	if _, ok := p.Lookup(t.name); ok {
		return no
	}
	return unknown
}

// listTest is in of a property.
type listTest struct {
	name string
	in   *in
}

func (t *listTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	if !ok {
		return unknown
	}
	return verdictOf(t.in.contains(s) != t.in.inverted)
}

// searchTest is textTest of a property.
type searchTest struct {
	name string
	text *textTest
}

func (t *searchTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	return verdictOf(ok && t.text.test(s, t.text.search) != t.text.inverted)
}

// equalityTest makes a test of "=" between a property and a literal that is not null.
func equalityTest(x *equal) test {
	for _, side := range []struct {
		property, literal expr
		missing           verdict
	}{{x.l, x.r, unknown}, {x.r, x.l, no}} {
		p, isProperty := side.property.(*property)
		c, isConstant := side.literal.(*constant)
		if !isProperty || !isConstant || c.v.kind == kindNull {
			continue
		}
		if c.v.kind == kindString {
			return &sameTextTest{p.name, string(c.v.str), side.missing}
		}
		return &sameTest{p.name, literal{c.v.kind, c.v.num}, side.missing}
	}
	return &anyTest{x}
}

// sameTextTest is equal between a property and a string.
type sameTextTest struct {
	name, text string
	missing    verdict // if there is no such property
}

func (t *sameTextTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	if !ok {
		return t.missing
	}
	return verdictOf(string(s) == t.text)
}

// sameTest is equal between a property and a number or a boolean.
type sameTest struct {
	name    string
	with    literal
	missing verdict // if there is no such property
}

func (t *sameTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	if !ok {
		return t.missing
	}
	n, ok := t.with.read(s)
	if !ok {
		return failed
	}
	return verdictOf(t.with.order(n) == 0)
}

// orderTest makes a test of one of < <= > >= between a property and a number.
func orderTest(x *compareTest) test {
	if p, c, ok := propertyAndNumber(x.l, x.r); ok {
		return &boundTest{name: p, than: c, op: x.op}
	}
	if p, c, ok := propertyAndNumber(x.r, x.l); ok {
		return &boundTest{name: p, than: c, op: x.op, turned: true}
	}
	return &anyTest{x}
}

func propertyAndNumber(x, y expr) (name string, l literal, ok bool) {
	p, isProperty := x.(*property)
	c, isConstant := y.(*constant)
	if !isProperty || !isConstant || !c.v.isNumber() {
		return "", l, false
	}
	return p.name, literal{c.v.kind, c.v.num}, true
}

// boundTest is compareTest between a property and a number.
type boundTest struct {
	name   string
	than   literal
	op     ordering
	turned bool // the number stands on the left
}

func (t *boundTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	if !ok {
		return unknown
	}
	n, ok := t.than.read(s)
	if !ok {
		return failed
	}
	order := t.than.order(n)
	if t.turned {
		order = -order
	}
	return verdictOf(t.op.holds(order))
}

// rangeTest makes a test of BETWEEN two numbers.
func rangeTest(x *between) test {
	name, low, ok := propertyAndNumber(x.x, x.low)
	_, high, okHigh := propertyAndNumber(x.x, x.high)
	if !ok || !okHigh {
		return &anyTest{x}
	}
	t := &betweenTest{name: name, low: low, high: high, first: greaterEqual, second: lessEqual, decides: no}
	if x.inverted {
		t.first, t.second, t.decides = less, greater, yes
	}
	return t
}

// betweenTest is between of a property and two numbers.
type betweenTest struct {
	name          string
	low, high     literal
	first, second ordering
	decides       verdict // the answer to first that makes second superfluous
}

func (t *betweenTest) judge(p Properties) verdict {
	s, ok := p.Lookup(t.name)
	if !ok {
		return unknown
	}
	n, ok := t.low.read(s)
	if !ok {
		return failed
	}
	if v := verdictOf(t.first.holds(t.low.order(n))); v == t.decides {
		return v
	}
	if t.high.kind != t.low.kind {
		if n, ok = t.high.read(s); !ok {
			return failed
		}
	}
	return verdictOf(t.second.holds(t.high.order(n)))
}

// literal is a number or a boolean that the text of a property is compared with: see value.
type literal struct {
	kind kind
	num  int64
}

// read is the text as a value's num of the literal's kind; false where convert is.
func (l literal) read(s []byte) (num int64, ok bool) {
	if l.kind == kindInteger && len(s) > 0 && len(s) < 10 { // what convert would say of a few digits
		n := int64(0)
		for _, c := range s {
			if c-'0' > 9 {
				v, ok := convert(s, l.kind)
				return v.num, ok
			}
			n = n*10 + int64(c-'0')
		}
		return n, true
	}
	v, ok := convert(s, l.kind)
	return v.num, ok
}

// order compares what read made of a text with the literal.
func (l literal) order(num int64) int {
	if l.kind == kindDouble {
		a, b := value{num: num}, value{num: l.num}
		return compareDoubles(a.double(), b.double())
	}
	return compareInts(num, l.num)
}
