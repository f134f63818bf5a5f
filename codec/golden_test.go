package codec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenTwin reads a golden file and the text beside it. The text was written by decoders that share no code with this
// package, so it is a second opinion.
func goldenTwin(t *testing.T, bin string) (data []byte, lines map[string]bool) {
	t.Helper()
	data, err := os.ReadFile(bin)
	require.NoError(t, err)
	text, err := os.ReadFile(strings.TrimSuffix(bin, ".bin") + ".txt")
	require.NoError(t, err)
	lines = map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		lines[strings.TrimSpace(line)] = true
	}
	return data, lines
}

// TestGoldenTwins compares what we read from every captured frame with what its text says.
func TestGoldenTwins(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, lines := goldenTwin(t, file)
		c := decodeFrame(t, data)
		want := []string{fmt.Sprintf("language %s", c.Language), fmt.Sprintf("version %d", c.Version),
			fmt.Sprintf("opaque %d", c.Opaque), fmt.Sprintf("flag %d", c.Flag)}
		if c.Remark != "" {
			want = append(want, fmt.Sprintf("remark %q", c.Remark))
		}
		for _, line := range want {
			require.True(t, lines[line], "%s: %s", file, line)
		}
		fields := 0
		for line := range lines {
			name, value, ok := strings.Cut(strings.TrimPrefix(line, "ext "), " =")
			if !strings.HasPrefix(line, "ext ") || !ok {
				continue
			}
			value = strings.TrimPrefix(value, " ")
			if text, err := strconv.Unquote(value); err == nil && strings.HasPrefix(value, `"`) {
				value = text
			}
			if cut, _, isCut := strings.Cut(value, "… ("); isCut {
				require.True(t, strings.HasPrefix(c.Get(name), cut), "%s: %s", file, name)
			} else {
				require.Equal(t, value, c.Get(name), "%s: %s", file, name)
			}
			fields++
		}
		require.LessOrEqual(t, len(c.Fields), fields, file)
		requireTwinRecords(t, file, c.Body, lines)
	}
}

// TestGoldenRecordTwins does the same with stored messages.
func TestGoldenRecordTwins(t *testing.T) {
	files, err := filepath.Glob("testdata/records/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, lines := goldenTwin(t, file)
		require.NotZero(t, requireTwinRecords(t, file, data, lines), file)
	}
}

// requireTwinRecords checks the records at the start of b, if there are any, and counts them.
func requireTwinRecords(t *testing.T, file string, b []byte, lines map[string]bool) (n int) {
	for len(b) >= MinRecordBytes {
		if _, magic := RecordSize(b); magic != MagicV1 && magic != MagicV2 {
			break
		}
		r, err := ParseRecord(b, false)
		require.NoError(t, err, file)
		want := []string{
			fmt.Sprintf("message size %d magic %#X bodyCRC %d queueId %d flag %d", r.TotalSize, r.Magic, r.BodyCRC,
				r.QueueID, r.Flag),
			fmt.Sprintf("queueOffset %d phyOffset %d sysFlag %#x reconsumeTimes %d preparedOffset %d", r.QueueOffset,
				r.PhyOffset, r.SysFlag, r.ReconsumeTimes, r.PreparedTransactionOffset),
			fmt.Sprintf("bornTimestamp %d bornHost %s storeTimestamp %d storeHost %s", r.BornTimestamp, r.BornHost,
				r.StoreTimestamp, r.StoreHost),
			fmt.Sprintf("topic %s", r.Topic),
		}
		for name, value := range EachProperty(r.Properties) {
			if isASCII(value) && !strings.ContainsAny(string(value), "\"\\\x01\x02\n") {
				want = append(want, fmt.Sprintf("%s = %s", name, value))
			}
		}
		for _, line := range want {
			require.True(t, lines[strings.TrimSpace(line)], "%s: %s", file, line)
		}
		b = b[r.TotalSize:]
		n++
	}
	return n
}
