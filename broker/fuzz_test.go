package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// FuzzRequests: no request makes a processor panic, and the broker goes on. fields are names and values, each
// ended by a line.
func FuzzRequests(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*", "*-req*.bin"))
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		frame, _, _, err := codec.SplitFrame(data, codec.MaxFrameBytes)
		require.NoError(f, err)
		var c codec.Command
		require.NoError(f, c.Decode(frame))
		var fields strings.Builder
		for i := range c.Fields {
			fields.WriteString(string(c.Fields[i].Key) + "\n" + c.Fields[i].Text() + "\n")
		}
		f.Add(uint16(c.Code), uint16(c.Version), fields.String(), c.Body)
	}
	fsys := vfs.NewMem()
	fsys.SetLimit(512 << 20)
	b := start(f, setup{fs: fsys, conf: "enablePropertyFilter=true\n"})
	b.createTopic("T", 4, 6)
	b.createGroup("g", nil)
	for range 10 {
		b.mustSend("T", 0, "KEYS\x01k", "m")
	}
	p := newLoop(f, b)
	f.Fuzz(func(t *testing.T, code, version uint16, fields string, data []byte) {
		req := codec.NewRequest(int(code))
		req.Version = int(version)
		lines := strings.Split(fields, "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			req.Set(lines[i], lines[i+1])
		}
		req.Body = data
		frame, n, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
		if err != nil || n == 0 {
			return
		}
		p.frames = append(p.frames[:0], frame)
		p.turn()
		if b.log.panicked.Load() {
			t.Fatal("a processor panicked")
		}
	})
}
