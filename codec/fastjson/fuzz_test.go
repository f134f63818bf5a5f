package fastjson

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func addSeeds(f *testing.F) {
	names, err := filepath.Glob("testdata/bodies/*.json")
	require.NoError(f, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, s := range []string{
		`{a:[{x:1}],b:{"$ref":"$.a[0]"},{"$ref":"$.a[0]"}:{"$ref":".."}}`, `{a:{"$ref":"$.b"},b:[{"$ref":"$.a"}]}`,
		`[+1,01,1.,1L,1e5,'\x41\v',"\ud83d\ude00",/*c*/undefined,]//`,
		"\ufeff{,1:2,-1.5:3,[1]:{},{}:[],null:NaN}\x1a",
	} {
		f.Add([]byte(s))
	}
}

// FuzzParse: no panic; memory in proportion to the text; what is parsed is written and parsed again as the
// same text, compact and pretty; what encoding/json takes is taken and means the same.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := Parse(data)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400*len(data)+1<<20))
		if err != nil {
			require.False(t, json.Valid(data) && !hasRef(data), "%q: %v", data, err)
			return
		}
		text, err := Marshal(v)
		require.NoError(t, err)
		again, err := Parse(text)
		require.NoError(t, err, "%q", text)
		if !hasRef(text) {
			require.Equal(t, string(text), again.String())
			pretty, err := MarshalPretty(v)
			require.NoError(t, err)
			again, err = Parse(pretty)
			require.NoError(t, err)
			require.Equal(t, string(text), again.String())
		}
		var std any
		if !hasRef(data) && json.Unmarshal(data, &std) == nil {
			require.Equal(t, plain(std), plain(v.Any()))
		}
	})
}

// hasRef: such a text may pass limits and changes when written.
func hasRef(data []byte) bool {
	for i := range data {
		if data[i] == '$' || data[i] == '\\' {
			return true
		}
	}
	return false
}

// FuzzUnmarshal: no panic, and Unmarshal undoes Marshal in all three shapes.
func FuzzUnmarshal(f *testing.F) {
	type all struct {
		javaBean
		topics
		Stats consumeStats `json:"stats"`
		Acks  []batchAck   `json:"acks"`
		Any   any          `json:"any"`
		Raw   Value        `json:"raw"`
		F32   float32      `json:"f32"`
		U8    *uint8       `json:"u8"`
	}
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var got all
		if Unmarshal(data, &got) != nil {
			return
		}
		got.Raw = Value{} // keeps its text, which the standard form does not
		for _, opts := range []Options{{}, {StandardKeys: true}, {Pretty: true}} {
			text, err := AppendMarshal(nil, &got, opts)
			require.NoError(t, err)
			if hasRef(text) {
				continue
			}
			var again all
			require.NoError(t, Unmarshal(text, &again), "%s", text)
			again2, err := AppendMarshal(nil, &again, opts)
			require.NoError(t, err)
			require.Equal(t, string(text), string(again2))
		}
	})
}

// TestMarshalIsUndone: a value with every kind of field comes back equal.
func TestMarshalIsUndone(t *testing.T) {
	n, b := int32(7), true
	want := javaBean{
		A: 1 << 62, B: -5, C: &n, D: true, E: &b, S: "é\x01\"\\😀", By: []byte{0, 255}, F: 1e-7,
		L: []string{"", "x"}, M: map[int32]string{-1: "a", 10: "b"}, Set: []int32{1},
		ML: map[string][]int64{"": {1}, "%RETRY%g": {}}, Sub: &javaBean{
			L: []string{}, M: map[int32]string{}, Set: []int32{}, ML: map[string][]int64{},
		},
	}
	for _, opts := range []Options{{}, {StandardKeys: true}, {Pretty: true}} {
		text, err := AppendMarshal(nil, want, opts)
		require.NoError(t, err)
		var got javaBean
		require.NoError(t, Unmarshal(text, &got))
		require.True(t, reflect.DeepEqual(want, got), "%s", text)
	}
}
