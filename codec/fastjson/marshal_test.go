package fastjson

import (
	"errors"
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

type failing struct{}

func (failing) MarshalFastjson() (any, error) { return nil, errors.New("no") }

type absentee struct{}

func (absentee) MarshalFastjson() (any, error) { return nil, nil }

func TestMarshal(t *testing.T) {
	f := func(v any, compact, standard string) {
		t.Helper()
		out, err := Marshal(v)
		require.NoError(t, err)
		require.Equal(t, compact, string(out))
		if standard == "" {
			standard = compact
		}
		out, err = MarshalStandard(v)
		require.NoError(t, err)
		require.Equal(t, standard, string(out))
	}
	num, str := 5, "s"
	f(nil, "null", "")
	f((*int)(nil), "null", "")
	f(true, "true", "")
	f(int64(math.MaxInt64), "9223372036854775807", `"9223372036854775807"`)
	f(int64(math.MinInt64), "-9223372036854775808", `"-9223372036854775808"`)
	f(int64(1<<53-1), "9007199254740991", "")
	f(uint64(math.MaxUint64), "18446744073709551615", "")
	f(1.0, "1.0", "")
	f(float32(0.1), "0.1", "")
	f(math.NaN(), "null", "")
	f("中/\"\\<>&'\x01\x7f\u2028😀", `"中/\"\\<>&'\u0001\u007F\u2028😀"`,
		`"\u4E2D\/\"\\<>&'\u0001\u007F\u2028\uD83D\uDE00"`)
	f("a\xffb", "\"a\ufffdb\"", `"a\uFFFDb"`)
	f([]byte{1, 2}, `"AQI="`, "")
	f([]byte(nil), "null", "")
	f([]int(nil), "[]", "")
	f(map[string]int(nil), "{}", "")
	f([2]bool{true, false}, "[true,false]", "")
	f([]*int{&num, nil}, "[5,null]", "")
	f([]any{1, "a", nil, 1.5, []string{}}, `[1,"a",null,1.5,[]]`, "")
	f(map[string]any{"b": 1, "a": nil, "B": "x", "": &str}, `{"":"s","B":"x","b":1}`, "")
	f(map[int64]string{10: "c", 9: "b", -1: "a"}, `{-1:"a",9:"b",10:"c"}`, `{"-1":"a","9":"b","10":"c"}`)
	f(map[uint8]*int{1: nil, 2: &num}, `{2:5}`, `{"2":5}`)
	f(map[bool]int{true: 1, false: 0}, `{false:0,true:1}`, `{"false":0,"true":1}`)
	f(map[float64]int{1.5: 1, 0: 0}, `{0.0:0,1.5:1}`, `{"0.0":0,"1.5":1}`)
	f(map[messageQueue]int{{"b", 10, "t"}: 2, {"b", 9, "t"}: 1},
		`{{"brokerName":"b","queueId":9,"topic":"t"}:1,{"brokerName":"b","queueId":10,"topic":"t"}:2}`,
		`{"{\"brokerName\":\"b\",\"queueId\":9,\"topic\":\"t\"}":1,`+
			`"{\"brokerName\":\"b\",\"queueId\":10,\"topic\":\"t\"}":2}`)
	f(map[netip.Addr]filterType{netip.MustParseAddr("::1"): 1}, `{"::1":"MULTI_TAG"}`, "")
	f(map[filterType]int{0: 1}, `{"SINGLE_TAG":1}`, "")
	f([]any{absentee{}}, "[null]", "")

	type inner struct{ Z, A int }
	f(struct {
		inner
		B  string `json:"b,omitnull"`
		C  []int  `json:"c,omitnull"`
		D  []int  `json:"d,omitempty"`
		E  int    `json:"e,omitempty"`
		F  *int   `json:"f"`
		G  any    `json:"g"`
		H  []byte `json:"h"`
		I  absentee
		J  map[string]int `json:"j,omitnull"`
		K  string         `json:"0k"`
		XY *inner         `json:"-"`
	}{D: []int{}, C: []int{}}, `{"0k":"","a":0,"c":[],"z":0}`, "")
}

func TestMarshalErrors(t *testing.T) {
	f := func(v any, want string) {
		t.Helper()
		out, err := AppendMarshal([]byte("x"), v, Options{})
		require.EqualError(t, err, "fastjson: "+want)
		require.Equal(t, "x", string(out))
	}
	f(make(chan int), "cannot write Go type chan int")
	f(struct{ F func() }{}, "cannot write Go type func()")
	f([]any{failing{}}, "fastjson.failing: no")
	f(map[any]int{nil: 1}, "nil as map key")
	type loop struct{ Next *loop }
	l := &loop{}
	l.Next = l
	f(l, "more than 512 nested levels to write")
	m := map[string]any{}
	m["m"] = m
	f(m, "more than 512 nested levels to write")
}

func TestAppendMarshal(t *testing.T) {
	out, err := AppendMarshal([]byte("body="), map[int32]int{1: 2}, Options{})
	require.NoError(t, err)
	require.Equal(t, "body={1:2}", string(out))
}

func TestMarshalPretty(t *testing.T) {
	f := func(v any, want string) {
		t.Helper()
		out, err := MarshalPretty(v)
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
	f(map[string]any{}, "{}")
	f([]int{}, "[]")
	f(5, "5")
	f([]any{[]int{1}, map[string]int{"a": 1}, map[int]int{}},
		"[\n\t[\n\t\t1\n\t],\n\t{\n\t\t\"a\":1\n\t},\n\t{}\n]")
	f(map[int]any{1: map[string]int{"k": 1}, 2: []int{5}}, "{1:{\n\t\t\"k\":1\n\t},2:[\n\t\t5\n\t]\n}")
	f(struct {
		S map[string][]string `json:"s,set"`
		T [][]int             `json:"t,set"`
	}{map[string][]string{"g": {"a", "b"}}, [][]int{{1, 2}}},
		"{\n\t\"s\":{\n\t\t\"g\":[\"a\",\"b\"]\n\t},\n\t\"t\":[[\n\t\t1,\n\t\t2\n\t]]\n}")
}
