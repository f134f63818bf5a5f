package goruntime

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Pressure is Linux's pressure stall information as one log attribute, "cpu=96% io=11% memory=0%": the share of the last
// 10 s in which something on the machine waited for the resource. None where the kernel does not tell.
func Pressure() []slog.Attr { return pressure("/proc/pressure") }

func pressure(dir string) []slog.Attr {
	var out []string
	for _, resource := range []string{"cpu", "io", "memory"} {
		text, err := os.ReadFile(filepath.Join(dir, resource))
		if err != nil {
			continue
		}
		// some avg10=95.55 avg60=95.81 avg300=96.29 total=9699974391
		_, after, ok := bytes.Cut(text, []byte("some avg10="))
		if end := bytes.IndexAny(after, ". "); ok && end > 0 {
			out = append(out, resource+"="+string(after[:end])+"%")
		}
	}
	if out == nil {
		return nil
	}
	return []slog.Attr{slog.String("pressure", strings.Join(out, " "))}
}
