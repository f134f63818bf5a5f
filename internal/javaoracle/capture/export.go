package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// maxGolden is the largest frame export keeps, with exceptions made by sizeLimit.
const maxGolden = 6 << 10

// hostPath matches what only the recording machine has; a frame with it is dropped.
var hostPath = regexp.MustCompile(`/(tmp|work|root|home|usr|opt|var)/`)

// sample is one frame that is a candidate for a golden file.
type sample struct {
	frame   Frame
	cmd     *command
	reqCode int
	request *command // of a response
	push    bool     // request from server to client, or the answer to one
}

// read calls yield for each decodable frame of the recordings, in the order given.
func read(in []string, yield func(sample) error) error {
	for _, file := range in {
		if err := readFile(file, yield); err != nil {
			return err
		}
	}
	return nil
}

// readFile finds the request of each response, since a response does not carry the code it answers.
func readFile(in string, yield func(sample) error) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	type key struct {
		conn   int
		server bool
		opaque int32
	}
	open := map[key]*command{}
	brokers := map[int]string{}
	lines := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var fr Frame
		if err := json.Unmarshal(line, &fr); err != nil {
			return fmt.Errorf("%s:%d: %w", in, n, err)
		}
		if fr.Bytes == nil {
			continue
		}
		cmd, err := decode(fr.Bytes)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", in, n, err)
		}
		s := sample{frame: fr, cmd: cmd, reqCode: cmd.code, push: fr.FromServer}
		if cmd.isResponse() {
			s.push = !fr.FromServer
			k := key{fr.Conn, !fr.FromServer, cmd.opaque}
			if s.request = open[k]; s.request == nil {
				continue // its request was too large to keep
			}
			s.reqCode = s.request.code
			delete(open, k)
		} else if !cmd.isOneway() {
			open[key{fr.Conn, fr.FromServer, cmd.opaque}] = cmd
		}
		if cmd.code == 103 && !cmd.isResponse() {
			brokers[fr.Conn] = brokerLabel(cmd)
		}
		if b := brokers[fr.Conn]; b != "" {
			s.frame.Label = b
		}
		if err := yield(s); err != nil {
			return err
		}
	}
}

func brokerLabel(cmd *command) string {
	if cmd.binary {
		return "broker-5.3-binary"
	}
	return "broker-5.3"
}

// name is the file name of a sample without its extension; equal names are the same kind of frame.
func (s sample) name() string {
	n := requestNames[s.reqCode]
	if n == "" {
		n = "unknown"
	}
	side := "req"
	if s.cmd.isResponse() {
		side = "resp"
	}
	parts := []string{fmt.Sprint(s.reqCode), n, side}
	if s.push {
		parts = append(parts, "push")
	}
	if s.cmd.isResponse() && s.cmd.code != 0 {
		parts = append(parts, fmt.Sprint(s.cmd.code), responseNames[s.cmd.code])
	}
	if v := variant(s); v != "" {
		parts = append(parts, v)
	}
	return strings.Join(parts, "-")
}

func (s sample) title() string {
	from, to := s.frame.Label, s.frame.Route
	if s.frame.FromServer {
		from, to = to, from
	}
	kind := "request"
	if s.cmd.isResponse() {
		kind = "response"
	} else if s.cmd.isOneway() {
		kind = "oneway request"
	}
	name := strings.ToUpper(strings.ReplaceAll(requestNames[s.reqCode], "-", "_"))
	return fmt.Sprintf("%d %s %s, %s to %s", s.reqCode, name, kind, from, to)
}

func list(in []string, label string) error {
	re, err := regexp.Compile(label)
	if err != nil {
		return err
	}
	type stat struct{ count, smallest int }
	stats := map[string]*stat{}
	err = read(in, func(s sample) error {
		if !re.MatchString(s.frame.Label) {
			return nil
		}
		k := fmt.Sprintf("%-18s %s", s.frame.Label, s.name())
		if stats[k] == nil {
			stats[k] = &stat{0, s.frame.Size}
		}
		stats[k].count++
		stats[k].smallest = min(stats[k].smallest, s.frame.Size)
		return nil
	})
	if err != nil {
		return err
	}
	keys := make([]string, 0, len(stats))
	for k := range stats {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Printf("%6d %7d %s\n", stats[k].count, stats[k].smallest, k)
	}
	return nil
}

// export writes the golden files. A request and its response are chosen separately; the first that fits wins.
func export(in []string, wire, records string) error {
	done := map[string]bool{}
	return read(in, func(s sample) error {
		if records != "" && s.cmd.isResponse() {
			if err := exportRecords(s, records, done); err != nil {
				return err
			}
		}
		if wire == "" || s.frame.Size > sizeLimit(s) || hostPath.Match(s.frame.Bytes) || hidesPath(s.cmd) {
			return nil
		}
		base := filepath.Join(wire, s.frame.Label, s.name())
		if done[base] {
			return nil
		}
		done[base] = true
		return writePair(base, s.frame.Bytes, commandText(s.title(), s.frame.Bytes, s.cmd, s.reqCode))
	})
}

// hidesPath looks into compressed bodies.
func hidesPath(cmd *command) bool {
	plain, err := inflate(cmd.body)
	return err == nil && hostPath.Match(plain)
}

// exportRecords keeps the stored messages of answers that carry them, one file for each interesting topic.
func exportRecords(s sample, dir string, done map[string]bool) error {
	switch s.reqCode {
	case 11, 361, 12, 33:
	default:
		return nil
	}
	all := splitRecords(s.cmd.body)
	if len(all) == 0 || s.frame.Size > 16<<10 || hostPath.Match(s.cmd.body) {
		return nil
	}
	name := recordName(all[0])
	if name == "" {
		return nil
	}
	base := filepath.Join(dir, s.frame.Label+"-"+name)
	if done[base] {
		return nil
	}
	done[base] = true
	var text strings.Builder
	fmt.Fprintf(&text, "# %d stored message(s), body of an answer to request %d\n", len(all), s.reqCode)
	var raw bytes.Buffer
	for _, r := range all {
		raw.Write(r.raw)
		text.WriteString(recordText(r))
	}
	return writePair(base, raw.Bytes(), text.String())
}

func writePair(base string, frame []byte, text string) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(base+".bin", frame, 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".txt", []byte(text), 0o644)
}
