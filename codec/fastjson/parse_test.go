package fastjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSyntaxErrors(t *testing.T) {
	f := func(text string, offset int, msg string) {
		t.Helper()
		_, err := Parse([]byte(text))
		var se *SyntaxError
		require.ErrorAs(t, err, &se)
		require.ErrorIs(t, err, ErrSyntax)
		require.Equal(t, SyntaxError{Offset: offset, Msg: msg}, *se)
	}
	f("", 0, "text ends where a value should stand")
	f("  ", 2, "text ends where a value should stand")
	f("\ufeff x", 4, "not a value")
	f("{\"a\":1} x", 8, "text behind the value")
	f("{a:1", 4, "object is not closed")
	f("[1", 2, "array is not closed")
	f("{a 1}", 3, "colon expected behind a key")
	f("{a:1 b:2}", 5, "comma or } expected")
	f("{=:1}", 1, "not a key")
	f("\"abc", 4, "string is not closed")
	f(`"\`, 1, "string is not closed")
	f(`"\u12`, 1, "string is not closed")
	f(`"\u12zz"`, 1, "not a hex digit in an escape")
	f(`"\q"`, 1, "unknown escape")
	f("-", 1, "digit expected")
	f("1e", 2, "digit expected in an exponent")
	f("12a", 2, "number runs into other text")
	f("1.2.3", 3, "number runs into other text")
	f("/*", 0, "comment is not closed")
	f("nul", 0, "not a value")
}

func TestParseLimits(t *testing.T) {
	lim := Limits{MaxBytes: 100, MaxDepth: 3, MaxValues: 5, MaxGrowth: 64}
	f := func(text string, ok bool) {
		t.Helper()
		_, err := ParseLimits([]byte(text), lim)
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrLimit)
		}
	}
	f("[[[]]]", true)
	f("[[[[]]]]", false)
	f("{a:{b:{}}}", true)
	f("{a:{b:{c:{}}}}", false)
	f("{{{{}:1}:1}:1}", false)
	f("[1,2,3,4]", true)
	f("[1,2,3,4,5]", false)
	f("{a:1,b:2}", true)
	f("{a:1,b:2,c:3}", false)
	f(`"`+strings.Repeat("x", 98)+`"`, true)
	f(`"`+strings.Repeat("x", 99)+`"`, false)
	_, err := Parse([]byte(strings.Repeat("[", 100000)))
	require.ErrorIs(t, err, ErrLimit)
	_, err = Parse([]byte(strings.Repeat("[", 512) + strings.Repeat("]", 512)))
	require.NoError(t, err)
}

func TestRefs(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		v, err := Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, v.String())
	}
	ref := func(path string) string { return `{"$ref":"` + path + `"}` }
	f(`{a:{x:1},b:`+ref("$.a")+`}`, `{"a":{"x":1},"b":{"x":1}}`)
	f(`{b:`+ref("$.a")+`,a:{x:1}}`, `{"b":{"x":1},"a":{"x":1}}`)
	f(`[[1],`+ref("$[0]")+`,`+ref("$[1][0]")+`]`, `[[1],[1],1]`)
	f(`{a:[{b:2}],c:`+ref("$.a[0].b")+`}`, `{"a":[{"b":2}],"c":2}`)
	f(`{"a.b":{"c-d":1},x:`+ref(`$.a\\.b.c\\-d`)+`}`, `{"a.b":{"c-d":1},"x":1}`)
	f(`{a:{},b:`+ref("$['a']")+`,c:`+ref(`$[\"a\"]`)+`}`, `{"a":{},"b":{},"c":{}}`)
	f(`{1:{x:1},b:`+ref("$.1")+`}`, `{1:{"x":1},"b":{"x":1}}`)
	f(`{"":{x:1},b:`+ref("$.")+`}`, `{"":{"x":1},"b":{"x":1}}`)
	f(`{k:{{q:1}:5},`+ref("$.k.null")+`:6}`, `{"k":{{"q":1}:5},{"q":1}:6}`)
	f(`{k:{{q:1}:5,{q:2}:6},m:{`+ref("$.k.null")+`:7,`+ref("$.k.null")+`:8},n:{`+ref("$.k.null")+`:9}}`,
		`{"k":{{"q":1}:5,{"q":2}:6},"m":{{"q":1}:7,{"q":2}:8},"n":{{"q":1}:9}}`)
	f(`{k:{null:3},a:`+ref("$.k.null")+`}`, `{"k":{"null":3},"a":3}`)
	f(`{l:[{q:1}],a:`+ref("$.l.null")+`}`, `{"l":[{"q":1}],"a":{"q":1}}`)
	// through other references
	f(`{a:`+ref("$.b")+`,b:`+ref("$.c")+`,c:[1],d:`+ref("$.a[0]")+`}`, `{"a":[1],"b":[1],"c":[1],"d":1}`)
	// nothing there
	for _, path := range []string{"", "a", "$.zz", "$[9]", "$[x]", "$[-1]", "$[0", "$x", "$.a.b", "$.a[0]"} {
		f(`{a:{x:1},b:`+ref(path)+`}`, `{"a":{"x":1},"b":null}`)
	}
	// cycles
	f(`{a:`+ref("$")+`,b:`+ref("..")+`,c:`+ref("@")+`}`, `{"a":null,"b":null,"c":null}`)
	f(`{a:{b:`+ref("$.a")+`}}`, `{"a":{"b":null}}`)
	f(`{a:`+ref("$.a")+`}`, `{"a":null}`)
	f(`{a:`+ref("$.b")+`,b:`+ref("$.a")+`}`, `{"a":null,"b":null}`)
	f(`{a:[`+ref("$.b")+`],b:[`+ref("$.a")+`]}`, `{"a":[[null]],"b":[null]}`)
	f(ref("$"), `null`)
	// not references
	f(`{"$ref":"$.a",b:1}`, `{"$ref":"$.a","b":1}`)
	f(`{"$ref":1}`, `{"$ref":1}`)
}

// TestRefsDoNotBlowUp: texts whose references stand for more than MaxGrowth allows are refused quickly.
func TestRefsDoNotBlowUp(t *testing.T) {
	f := func(name, text string) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse([]byte(text))
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrLimit, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400*len(text)+1<<20), name)
	}
	var b strings.Builder
	b.WriteString(`{"a0":[1]`)
	for i := range 60 {
		fmt.Fprintf(&b, `,"a%d":[{"$ref":"$.a%d"},{"$ref":"$.a%d"}]`, i+1, i, i)
	}
	f("doubling", b.String()+"}")
	big := strings.Repeat("x", 100000)
	f("a long string often", `{"a":"`+big+`","b":[`+strings.Repeat(`{"$ref":"$.a"},`, 10000)+`]}`)
	b.Reset()
	b.WriteString(`{"a0":1`)
	for i := range 2000 {
		fmt.Fprintf(&b, `,"a%d":{"$ref":"$.a%d"}`, i+1, i+2)
	}
	f("a chain forward", b.String()+"}")
	b.Reset()
	b.WriteString(`{"a0":[]`)
	for i := range 2000 {
		fmt.Fprintf(&b, `,"a%d":[{"$ref":"$.a%d"}]`, i+1, i)
	}
	f("deep nesting", b.String()+"}")
}

// TestRefsAreLinear would run for minutes if each look-up went through all members.
func TestRefsAreLinear(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"r":{"x":1}`)
	for i := range 50000 {
		fmt.Fprintf(&b, `,"k%d":{"v":%d},"r%d":{"$ref":"$.k%d"}`, i, i, i, i)
	}
	v, err := Parse([]byte(b.String() + "}"))
	require.NoError(t, err)
	n, err := v.Get("r49999").Get("v").Int64()
	require.NoError(t, err)
	require.EqualValues(t, 49999, n)
}

func TestValueAccess(t *testing.T) {
	v, err := Parse([]byte(`{a:1,b:[true,"x",null,2.5],a:7,5:"five",` +
		`c:"12345678901234567890123456789012345678901234567890"}`))
	require.NoError(t, err)
	require.Equal(t, Object, v.Kind())
	require.Equal(t, 5, v.Len())
	n, err := v.Get("a").Int64()
	require.NoError(t, err)
	require.EqualValues(t, 7, n, "the last one counts")
	require.Equal(t, "five", v.Get("5").Text())
	items := v.Get("b").Items()
	require.True(t, items[0].Bool())
	require.False(t, items[1].Bool())
	require.True(t, items[2].IsNull())
	f, err := items[3].Float64()
	require.NoError(t, err)
	require.Equal(t, 2.5, f)
	require.True(t, v.Get("zz").IsNull())
	require.True(t, v.Get("zz").Get("y").IsNull())
	require.Equal(t, "null", v.Get("zz").String())
	_, err = v.Get("b").Int64()
	require.EqualError(t, err, "fastjson: $: want integer, got array")
	_, err = v.Get("c").Int64()
	require.EqualError(t, err,
		`fastjson: $: want 64-bit integer, got string "1234567890123456789012345678901234567890…"`)
	require.Equal(t, "array", Array.String())
}

// TestStandardJSON: what encoding/json writes and takes is read with the same meaning.
func TestStandardJSON(t *testing.T) {
	for _, text := range []string{
		`{"a":[1,-2.5e10,"\u00e9\ud83d\ude00\n",true,false,null,{"b":{}}],"c":""}`,
		"\t[ 0 , 1E2 ]\r\n", `"\u2028\b\f"`, `{"\\":"\/"}`, `"\ud800x"`,
	} {
		var want any
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		v, err := Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, plain(v.Any()))
	}
}

func TestErrorsUnwrap(t *testing.T) {
	cause := errors.New("cause")
	err := at(&TypeError{Path: "$[1]", Want: "x", Got: "y", Err: cause}, ".f")
	require.EqualError(t, err, "fastjson: $.f[1]: want x, got y: cause")
	require.ErrorIs(t, err, ErrType)
	require.ErrorIs(t, err, cause)
}
