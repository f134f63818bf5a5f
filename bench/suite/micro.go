package suite

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Micro is one line of `go test -bench -benchmem`: what a stage costs alone.
type Micro struct {
	Package string             `json:"package"`
	Name    string             `json:"name"`
	Runs    int64              `json:"runs"`
	Figures map[string]float64 `json:"figures"` // by unit: ns/op, B/op, allocs/op, MB/s and those of its own
}

func readMicro(path string) ([]Micro, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("micro", "%v", err)
	}
	defer f.Close()
	list, err := parseMicro(f)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s has no line of a benchmark", path)
	}
	if err != nil {
		return nil, usage("micro", "%v", err)
	}
	return list, nil
}

// parseMicro reads what `go test -bench` prints; other lines are passed over.
func parseMicro(r io.Reader) (list []Micro, err error) {
	pkg := ""
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		line := s.Text()
		if name, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = strings.TrimPrefix(name, "skylark/")
			continue
		}
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") || len(f)%2 != 0 {
			continue
		}
		m := Micro{Package: pkg, Name: withoutProcs(strings.TrimPrefix(f[0], "Benchmark")), Figures: map[string]float64{}}
		if m.Runs, err = strconv.ParseInt(f[1], 10, 64); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		for i := 2; i < len(f); i += 2 {
			if m.Figures[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		list = append(list, m)
	}
	return list, s.Err()
}

// withoutProcs cuts the -GOMAXPROCS that `go test` appends.
func withoutProcs(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[i+1:]); err != nil {
		return name
	}
	return name[:i]
}
