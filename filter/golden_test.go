package filter

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The golden files hold the answers of the classes of RocketMQ 5.3.3; testdata/oracle/FilterOracle.java
// writes them. Another folder can be given to compare with more random expressions than are worth
// keeping.
var goldenDir = flag.String("golden", "testdata", "folder with the answers of Java")

// mapProperties are message properties for tests.
type mapProperties map[string]string

func (m mapProperties) Lookup(name string) ([]byte, bool) {
	v, ok := m[name]
	return []byte(v), ok
}

// readGolden decodes each line of a file of JSON objects.
func readGolden[T any](t *testing.T, name string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join(*goldenDir, name))
	require.NoError(t, err)
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line), "%s: %s", name, lines.Text())
		all = append(all, line)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

type goldenExpression struct {
	Expr     string
	Error    string // class of the exception at compile time
	Java     string // per property set T, F, N (null), E (exception), C (ClassCastException)
	Repaired string // the same with apache/rocketmq#10877 repaired, where Java has a C
}

func (g goldenExpression) want() string {
	if g.Repaired != "" {
		return g.Repaired
	}
	return g.Java
}

func readProperties(t *testing.T) []mapProperties {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(*goldenDir, "properties.json"))
	require.NoError(t, err)
	var props []mapProperties
	require.NoError(t, json.Unmarshal(text, &props))
	return props
}

// TestGoldenExpressions compiles every expression and evaluates it over every property set, and compares
// with Java down to null and exception, which Match does not tell apart.
func TestGoldenExpressions(t *testing.T) {
	props := readProperties(t)
	letter := func(q *SQL, p mapProperties) byte {
		v := q.test.judge(p)
		require.Equal(t, (&anyTest{q.root}).judge(p), v, "eval and judge of %s with %q", q, p)
		return "FTNE"[v]
	}
	compiled, refused := 0, 0
	for _, g := range readGolden[goldenExpression](t, "expressions.jsonl") {
		q, err := Compile(g.Expr)
		if g.Error != "" {
			refused++
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax, "%s\nJava: %s", g.Expr, g.Error)
			require.ErrorIs(t, err, ErrExpression)
			continue
		}
		compiled++
		require.NoError(t, err, g.Expr)
		require.Len(t, g.Java, len(props))
		require.NotContains(t, g.want(), "C")
		got := make([]byte, len(props))
		for i, p := range props {
			got[i] = letter(q, p)
			matched, err := q.Match(p)
			require.Equal(t, got[i] == 'T', matched)
			require.Equal(t, got[i] == 'E', err != nil)
		}
		if g.want() != string(got) {
			i := 0
			for got[i] == g.want()[i] {
				i++
			}
			require.Failf(t, "differs from Java", "%s\nproperties %q\nJava %c, we %c",
				g.Expr, props[i], g.want()[i], got[i])
		}
	}
	t.Logf("%d expressions over %d property sets, %d refused ones", compiled, len(props), refused)
	require.NotZero(t, compiled)
	require.NotZero(t, refused)
}

func TestGoldenTags(t *testing.T) {
	type line struct {
		Sub, SubString, Error string
		Tags                  []string
		Codes                 []int32
	}
	for _, g := range readGolden[line](t, "tags.jsonl") {
		got, err := ParseTags(g.Sub)
		if g.Error != "" {
			require.ErrorIs(t, err, ErrTagExpression, g.Sub)
			continue
		}
		require.NoError(t, err, g.Sub)
		require.Equal(t, g.SubString == SubAll, got.All(), g.Sub)
		require.ElementsMatch(t, g.Tags, got.Tags(), g.Sub)
		require.ElementsMatch(t, g.Codes, got.Codes(), g.Sub)
	}
}

func TestGoldenHashes(t *testing.T) {
	type line struct {
		Hex  string
		Hash int32
	}
	for _, g := range readGolden[line](t, "hashes.jsonl") {
		text := unhex(t, g.Hex)
		require.Equal(t, g.Hash, TagHash(string(text)), g.Hex)
		require.Equal(t, g.Hash, TagHashBytes(text), g.Hex)
	}
}

func TestGoldenBloom(t *testing.T) {
	type line struct {
		F, N, K, M int
		Key        *string
		Pos        []int32
		Bits, Text string
	}
	for _, g := range readGolden[line](t, "bloom.jsonl") {
		f, err := NewBloomFilter(g.F, g.N)
		require.NoError(t, err)
		require.Equal(t, g.K, f.HashCount(), "%+v", g)
		require.Equal(t, g.M, f.BitCount(), "%+v", g)
		if g.Key == nil {
			continue
		}
		data := f.Generate(*g.Key)
		require.Equal(t, &BloomFilterData{BitNum: g.M, BitPos: g.Pos}, data, "%+v", g)
		bits := NewBits(f.BitCount())
		require.NoError(t, f.HashTo(data, bits))
		require.Equal(t, unhex(t, g.Bits), []byte(bits))
		require.Equal(t, g.Text, bits.String())
	}
}

// TestGoldenConsumerFilter reads a consumerFilter.json of Java's broker and writes each entry back.
func TestGoldenConsumerFilter(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(*goldenDir, "consumerFilter.json"))
	require.NoError(t, err)
	var file struct {
		FilterDataByTopic map[string]struct {
			GroupFilterData map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	bloom, err := NewBloomFilter(20, 64) // of Java's ConsumerFilterManager without a broker
	require.NoError(t, err)
	groups := file.FilterDataByTopic["TopicTest"].GroupFilterData
	require.Len(t, groups, 2)
	for group, entry := range groups {
		var d ConsumerFilterData
		require.NoError(t, json.Unmarshal(entry, &d))
		require.Equal(t, group, d.ConsumerGroup)
		require.Equal(t, group == "group_b", d.Dead())
		if group == "group_a" {
			require.Equal(t, bloom.Generate(BloomKey(group, "TopicTest")), d.BloomFilterData)
		} else {
			require.Nil(t, d.BloomFilterData)
		}
		again, err := json.Marshal(&d)
		require.NoError(t, err)
		// Java leaves "<" and "&" plain, encoding/json does not.
		plain := strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(again))
		compact := strings.NewReplacer("\n", "", "\t", "").Replace(string(entry))
		require.Equal(t, compact, plain)
	}
}
