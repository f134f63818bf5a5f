package filter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMatch walks through the rules of the package comment; the golden files have every other case.
func TestMatch(t *testing.T) {
	props := mapProperties{"a": "5", "f": "5.5", "s": "it's", "t": "true", "x": "abc"}
	f := func(expression string, matched, failed bool) {
		t.Helper()
		q, err := Compile(expression)
		require.NoError(t, err)
		require.Equal(t, expression, q.String())
		require.Empty(t, q.Trailing())
		got, err := q.Match(props)
		require.Equal(t, matched, got)
		if failed {
			require.ErrorIs(t, err, ErrEvaluate)
			return
		}
		require.NoError(t, err)
	}
	f("a > 4", true, false)
	f("f = 5", false, true) // '5.5' is no int
	f("f > 5.0", true, false)
	f("f > a", true, false) // two strings are ordered as doubles
	f("f = a", false, false)
	f("x > a", false, true)
	f("x > 5 OR TRUE", false, true) // the error wins over the rest
	f("TRUE OR x > 5", true, false) // which is not reached here
	f("s = 'it''s' AND s CONTAINS '''' AND s NOT STARTSWITH 'a' AND s ENDSWITH 's'", true, false)
	f("none IS NULL AND x IS NOT NULL", true, false)
	f("none = 5", false, false)
	f("none <> 5", false, false)
	f("none = other", true, false) // both null
	f("NOT (none = 5)", false, false)
	f("(none = 5) IS NULL", true, false)
	f("none NOT IN ('y')", false, false)
	f("x NOT IN ('y') AND x IN ('abc', 'z')", true, false)
	f("a BETWEEN 5 AND 5 AND a NOT BETWEEN 6 AND 7", true, false)
	f("x", false, false)
	f("NOT x", true, false)
	f("NOT t = TRUE", true, false) // (NOT t) = TRUE
}

// TestCaseB13 are parts (c) and (d) of case B13, "SQL filter edges" (apache/rocketmq#10877, #310, #427,
// #11102).
func TestCaseB13(t *testing.T) {
	f := func(expression string, props mapProperties, matched, failed bool) {
		t.Helper()
		q, err := Compile(expression)
		require.NoError(t, err)
		got, err := q.Match(props)
		require.Equal(t, matched, got)
		require.Equal(t, failed, err != nil, "%v", err)
	}
	flag, absent, abc := mapProperties{"flag": "true"}, mapProperties{}, mapProperties{"a": "abc"}
	f("TRUE = flag", flag, true, false)
	f("flag = TRUE", flag, true, false)
	f("FALSE <> flag", flag, true, false)
	f("TRUE = flag", mapProperties{"flag": "no"}, false, false)

	f("a > 5", absent, false, false)
	f("NOT (a > 5)", absent, false, false)
	f("a IS NULL", absent, true, false)
	f("a IN ('x')", absent, false, false)
	f("a > 5", nil, false, false)
	f("a > 5", abc, false, true)
	f("NOT (a > 5)", abc, false, true)
	f("a = 9223372036854775807", mapProperties{"a": "9223372036854775807"}, true, false)
	f("a = 9223372036854775807", mapProperties{"a": "9223372036854775808"}, false, true)
	f("a = 'it''s ''quoted'''", mapProperties{"a": "it's 'quoted'"}, true, false)
	long := strings.Repeat("a = 'xxxxxxxx' OR ", 10<<10/18) + "a = 'abc'"
	f(long, abc, true, false)

	_, err := Compile("a between 0 3")
	require.EqualError(t, err, "filter: invalid SQL92 expression: position 13: expected AND, found 3")
}

func TestCompileErrors(t *testing.T) {
	f := func(expression string, pos int, msg string) {
		t.Helper()
		_, err := Compile(expression)
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax)
		require.ErrorIs(t, err, ErrExpression)
		require.Equal(t, msg, syntax.Msg)
		require.Equal(t, pos, syntax.Pos)
	}
	const wantValue = "expected a value or a property, found "
	f("", 1, wantValue+"the end of the expression")
	f("a = ", 5, wantValue+"the end of the expression")
	f("a = AND", 5, wantValue+`"AND"`)
	f("日本", 1, "unexpected '日'")
	f("s = '日本' & a", 10, "unexpected '&'")
	f("a = \xff", 5, `unexpected '�'`)
	f("a = 'it", 5, "string 'it is not closed")
	f("a = 5 /* b", 7, "unexpected '/'")
	f("(a = 5", 7, "expected ), found the end of the expression")
	f("a NOT NULL", 7, `expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT, found "NULL"`)
	f("a IS 5", 6, "expected NULL, found 5")
	f("a IN (b)", 7, `expected a string, found "b"`)
	f("a IN ('b' 'c')", 11, "expected ), found 'c'")
	f("5 IN ('5')", 1, "expected a property before IN")
	f("a = NULL", 5, "NULL cannot be compared with =, use IS NULL")
	f("NULL <> a", 1, "NULL cannot be compared with <>, use IS NULL")
	f("TRUE = 'x'", 6, "a boolean cannot be compared with a literal of another type")
	f("a > 'x'", 5, "only numbers and properties can be operands of >")
	f("NOT a > 5", 1, "a condition cannot be an operand of >")
	f("a BETWEEN 5 AND 1", 11, "the lower bound of BETWEEN is above the upper one")
	f("a = 5 AND 'x'", 11, "expected a condition, found a value")
	f("NOT -a", 5, "expected a condition, found a value")
	f("a > 0.0", 5, "float 0.0 is 0 or too close to it; write an integer")
	f("a > 1e999", 5, "float 1e999 is above 1.7976931348623157e+308")
	f("a > 9223372036854775808", 5, "integer 9223372036854775808 is above 9223372036854775807")
}

func TestTrailing(t *testing.T) {
	f := func(expression, trailing string) {
		t.Helper()
		q, err := Compile(expression)
		require.NoError(t, err)
		require.Equal(t, trailing, q.Trailing())
	}
	f("a = 5", "")
	f("a = 5 -- comment\n", "")
	f("a LIKE 'x'", "LIKE 'x'")
	f("a = 5 b = 6", "b = 6")
	f("a = 5) AND b", ") AND b")
	f("a IS NULL > 5", "> 5")
	f("a = 007", "07")
}

func TestLimits(t *testing.T) {
	ok := func(expression string) {
		t.Helper()
		q, err := Compile(expression)
		require.NoError(t, err)
		_, err = q.Match(mapProperties{"a": "5"})
		require.NoError(t, err)
	}
	bad := func(expression, msg string) {
		t.Helper()
		_, err := Compile(expression)
		require.ErrorIs(t, err, ErrExpression)
		require.ErrorContains(t, err, msg)
	}
	nested := func(prefix, core, suffix string, n int) string {
		return strings.Repeat(prefix, n) + core + strings.Repeat(suffix, n)
	}
	const n = MaxDepth - 10
	ok(nested("(", "a = 5", ")", n))
	ok(nested("NOT ", "a", "", n))
	ok(nested("-", "a IS NULL", "", n))
	ok(nested("", "a IS NULL", " = TRUE", n))
	ok(nested("(", "a", " OR TRUE)", n))
	ok(nested("a = 5 OR ", "a = 5", "", MaxExpressionBytes/10))
	ok("a IN ('x" + strings.Repeat("','x", MaxExpressionBytes/5) + "')")

	const deep = "deeper than 4000"
	bad(nested("(", "a = 5", ")", MaxDepth+1), "position 4001: nested "+deep)
	bad(strings.Repeat("(", MaxExpressionBytes), deep)
	bad(strings.Repeat("NOT ", MaxExpressionBytes/4), deep)
	bad(strings.Repeat("-", MaxExpressionBytes), deep)
	bad(strings.Repeat("--", MaxExpressionBytes/2), deep)
	bad(nested("", "a", " IS NULL", MaxDepth+1), "chained "+deep)
	bad(nested("", "a = 5", " <> TRUE", MaxDepth), "chained "+deep)
	bad(strings.Repeat("a = ", MaxExpressionBytes/4), deep)
	bad(strings.Repeat(" ", MaxExpressionBytes+1), "position 1: 131073 bytes, the limit is 131072")
	bad(strings.Repeat("'", MaxExpressionBytes-1), "is not closed")
	bad("a /"+strings.Repeat("*", MaxExpressionBytes-3), "unexpected '/'")
	bad("a = "+strings.Repeat("9", MaxExpressionBytes-4), "is above 9223372036854775807")
}

func TestEvalError(t *testing.T) {
	q, err := Compile("s = '日本' AND a >= 5")
	require.NoError(t, err)
	_, err = q.Match(mapProperties{"s": "日本", "a": "x"})
	require.EqualError(t, err, "filter: SQL92 evaluation failed: position 16: "+
		"an operand of >= cannot be read as the number it is compared with")
}

// allocExpressions are what subscriptions usually look like; none may allocate.
var allocExpressions = []string{
	"region = 'hangzhou'",
	"amount > 100 AND amount <= 2000",
	"price BETWEEN 0.5 AND 99.5",
	"region IN ('beijing', 'hangzhou', 'shanghai') AND vip = TRUE",
	"region IN ('a','b','c','d','e','f','g','h','i','j')",
	"region CONTAINS 'zhou' OR level IS NULL",
	"price > amount",
	"NOT (level = 3) AND region <> 'x'",
	"region > 5", // an evaluation error
}

const allocProperties = "region\x01hangzhou\x02amount\x01250\x02price\x0112.75e0\x02vip\x01true\x02"

// rawProperties are properties as a message record stores them, name \x01 value \x02 each.
type rawProperties struct{ text []byte }

func (r *rawProperties) Lookup(name string) ([]byte, bool) {
	for raw := r.text; len(raw) > 0; {
		pair, rest, _ := bytes.Cut(raw, []byte{2})
		if len(pair) > len(name) && pair[len(name)] == 1 && string(pair[:len(name)]) == name {
			return pair[len(name)+1:], true
		}
		raw = rest
	}
	return nil, false
}

func TestMatchDoesNotAllocate(t *testing.T) {
	props := &rawProperties{[]byte(allocProperties)}
	for _, expression := range allocExpressions {
		q, err := Compile(expression)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = q.Match(props) }), expression)
	}
}

// FuzzCompile: no panic and no unbounded work on any text; an error has a position in the text; a
// compiled condition answers for any properties, and compiles to the same without the trailing text.
func FuzzCompile(f *testing.F) {
	for i, expression := range allocExpressions {
		f.Add(expression, "5", fmt.Sprint(i))
	}
	for _, seed := range []string{
		"", "a = 'it''s' -- c\n", "NOT(a)=-+5L", "a/**/IN('x','y')", "a IS NOT NULL b", "((((", "1e5",
	} {
		f.Add(seed, "abc", "\xff")
	}
	f.Fuzz(func(t *testing.T, expression, a, b string) {
		q, err := Compile(expression)
		if err != nil {
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Positive(t, syntax.Pos)
			require.LessOrEqual(t, syntax.Pos, len(expression)+1)
			require.Less(t, len(syntax.Msg), 300)
			return
		}
		props := mapProperties{"a": a, "b": b, "region": b, "amount": a, "price": b}
		matched, err := q.Match(props)
		if err != nil {
			require.ErrorIs(t, err, ErrEvaluate)
			require.False(t, matched)
		}
		require.Equal(t, (&anyTest{q.root}).judge(props), q.test.judge(props))
		sound, ok := strings.CutSuffix(expression, q.Trailing())
		require.True(t, ok)
		again, err := Compile(sound)
		require.NoError(t, err)
		require.Empty(t, again.Trailing())
		got, _ := again.Match(props)
		require.Equal(t, matched, got)
	})
}

// FuzzNumbers: no panic, and what Java reads as a long it reads as a double of the same value.
func FuzzNumbers(f *testing.F) {
	for _, seed := range []string{"5", "-9223372036854775808", "1e400", "0x1p3", " .5f", "٣", "NaN", "+"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := parseInteger([]byte(text), 64)
		d, isDouble := parseDouble([]byte(text))
		if ok && isDouble {
			require.Equal(t, float64(n), d+0) // "-0" is the integer 0
		}
		if m, ok32 := parseInteger([]byte(text), 32); ok32 {
			require.True(t, ok)
			require.Equal(t, n, m)
		}
	})
}
