package fastjson

import (
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files under testdata were written by fastjson 1.2.83 itself; 1.2.69 differs where a test says so.
// Texts in them are quoted as Go strings.

func readRows(t *testing.T, name string) [][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

func unquote(t *testing.T, s string) string {
	t.Helper()
	out, err := strconv.Unquote(s)
	require.NoError(t, err, s)
	return out
}

// plain makes values comparable whatever the form of their numbers and the order of their members.
func plain(x any) any {
	switch x := x.(type) {
	case int64:
		return float64(x)
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]any:
		for k := range maps.Clone(x) {
			x[k] = plain(x[k])
		}
	}
	return x
}

// TestParseAgainstJava: JSON.parse and Parse take the same texts and see the same values.
func TestParseAgainstJava(t *testing.T) {
	stricter := map[string]bool{
		"[1 2]": true, // Java forgets the comma, in arrays only
		"+":     true, // Java reads 0
	}
	for _, row := range readRows(t, "parse.txt") {
		text := unquote(t, row[0])
		v, err := Parse([]byte(text))
		if row[1] == "ERR" || stricter[text] {
			require.ErrorIs(t, err, ErrSyntax, "%q", text)
			continue
		}
		require.NoError(t, err, "%q", text)
		want, err := Parse([]byte(unquote(t, row[1])))
		require.NoError(t, err)
		require.Equal(t, plain(want.Any()), plain(v.Any()), "%q", text)
	}
}

// javaBean has the fields of the bean that testdata/bean.txt was made with.
type javaBean struct {
	A   int64              `json:"a"`
	B   int32              `json:"b"`
	C   *int32             `json:"c"`
	D   bool               `json:"d"`
	E   *bool              `json:"e"`
	S   string             `json:"s"`
	By  []byte             `json:"by"`
	F   float64            `json:"f"`
	L   []string           `json:"l"`
	M   map[int32]string   `json:"m"`
	Set []int32            `json:"set"`
	ML  map[string][]int64 `json:"ml"`
	Sub *javaBean          `json:"sub"`
}

// TestBindAgainstJava: JSON.parseObject(bytes, B.class) and Unmarshal take the same texts and fill in the
// same. 1.2.69 refuses {"a":true} for a long.
func TestBindAgainstJava(t *testing.T) {
	differs := map[string]string{
		`{"set":[1,1,2]}`: `{"set":[1,1,2]}`, // a HashSet loses the double, a slice keeps it
		`{"a":"5.0"}`:     `{"a":5}`,         // Java refuses the fraction in quotes only
	}
	for _, row := range readRows(t, "bean.txt") {
		text := unquote(t, row[0])
		var got javaBean
		err := Unmarshal([]byte(text), &got)
		javaText := differs[text]
		if row[1] == "ERR" && javaText == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		var want javaBean
		if javaText == "" {
			javaText = unquote(t, row[1])
		}
		require.NoError(t, Unmarshal([]byte(javaText), &want))
		require.Equal(t, want, got, text)
	}
}

// TestEscapeAgainstJava: rows are mode (0 plain, 1 BrowserCompatible), first and last UTF-16 unit of a
// range that is escaped, and both of them written.
func TestEscapeAgainstJava(t *testing.T) {
	escaped := [2]map[rune]bool{{}, {}}
	for _, row := range readRows(t, "escape.txt") {
		mode, _ := strconv.Atoi(row[0])
		first, _ := strconv.Atoi(row[1])
		last, _ := strconv.Atoi(row[2])
		for r := first; r <= last; r++ {
			escaped[mode][rune(r)] = true
		}
		out, err := AppendMarshal(nil, string([]rune{rune(first), rune(last)}), Options{StandardKeys: mode == 1})
		require.NoError(t, err)
		require.Equal(t, row[3], string(out))
	}
	for mode := range escaped {
		for r := range rune(0x10000) {
			if r >= 0xd800 && r < 0xe000 {
				continue // halves of surrogate pairs cannot stand in a Go string
			}
			out, err := AppendMarshal(nil, string(r), Options{StandardKeys: mode == 1})
			require.NoError(t, err)
			require.Equal(t, escaped[mode][r], string(out) != `"`+string(r)+`"`, "mode %d U+%04X", mode, r)
		}
	}
}

// TestDoubleAgainstJava: rows are d or f, the bits in hex, Java 17's text.
func TestDoubleAgainstJava(t *testing.T) {
	longer := 0
	for _, row := range readRows(t, "double.txt") {
		bits, err := strconv.ParseUint(row[1], 16, 64)
		require.NoError(t, err)
		var x any = math.Float64frombits(bits)
		size := 64
		if row[0] == "f" {
			x, size = math.Float32frombits(uint32(bits)), 32
		}
		out, err := Marshal(x)
		require.NoError(t, err)
		if string(out) == row[2] {
			continue
		}
		// Before JDK 19 Java sometimes writes more digits than needed (JDK-4511638).
		want, err := strconv.ParseFloat(row[2], size)
		require.NoError(t, err)
		got, err := strconv.ParseFloat(string(out), size)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(out), len(row[2]), "%s %s", out, row[2])
		longer++
	}
	require.Less(t, longer, 40)
}
