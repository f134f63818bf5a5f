package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/magiconair/properties"
)

// Bounds of a configuration file and of the body of a change request.
const (
	maxFileBytes = 1 << 20
	maxEntries   = 4096
)

// File is a parsed .properties text that remembers its lines, so that problems can be located and single
// values changed without touching comments and order.
type File struct {
	Name    string // as given, for messages
	Entries []Entry
	lines   []string // natural lines with their ends
	latin1  bool     // not UTF-8: read as Java reads every file
	open    bool     // the last line ends in a backslash
}

// Entry is one key and value. The value is trimmed.
type Entry struct {
	Key   string
	Value string
	Line  int // of the key, from 1
	end   int // line behind its last continuation line
}

// LoadFile reads and parses path. Files over 1 MiB are refused.
func LoadFile(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if st.Size() > maxFileBytes {
		return nil, Problems{{File: path, Msg: fmt.Sprintf("file is larger than %d bytes", maxFileBytes)}}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(string(text), path)
}

// Parse reads a Java .properties text; name is used in messages alone. The error is a Problems with every
// line that cannot be read.
func Parse(text, name string) (*File, error) {
	if len(text) > maxFileBytes {
		return nil, Problems{{File: name, Msg: fmt.Sprintf("text is larger than %d bytes", maxFileBytes)}}
	}
	f := &File{Name: name, latin1: !utf8.ValidString(text)}
	f.lines = splitLines(strings.TrimPrefix(text, "\ufeff"))
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	var bad Problems
	for i := 0; i < len(f.lines); {
		logical, next := f.logicalLine(i)
		if logical == "" {
			i = next
			continue
		}
		p, err := loader.LoadBytes([]byte(joinSurrogates(f.decode(logical))))
		switch {
		case len(f.Entries) == maxEntries:
			msg := fmt.Sprintf("more than %d keys", maxEntries)
			return nil, append(bad, Problem{File: name, Line: i + 1, Msg: msg})
		case err != nil:
			bad = append(bad, Problem{File: name, Line: i + 1, Msg: "cannot be read: " + err.Error()})
		case len(p.Keys()) == 1:
			key := p.Keys()[0]
			value, _ := p.Get(key)
			f.Entries = append(f.Entries, Entry{Key: key, Value: strings.TrimSpace(value), Line: i + 1, end: next})
		default:
			bad = append(bad, Problem{File: name, Line: i + 1, Msg: "no key"})
		}
		i = next
	}
	if bad != nil {
		return nil, bad
	}
	return f, nil
}

// splitLines cuts at LF, CR and CRLF and keeps the ends.
func splitLines(text string) []string {
	var lines []string
	for text != "" {
		n := strings.IndexAny(text, "\r\n")
		switch {
		case n < 0:
			n = len(text)
		case strings.HasPrefix(text[n:], "\r\n"):
			n += 2
		default:
			n++
		}
		lines = append(lines, text[:n])
		text = text[n:]
	}
	return lines
}

// logicalLine joins line i with its continuation lines, as Java does: a line that ends in an odd number of
// backslashes goes on in the next, whose leading blanks do not count. Blank and comment lines give "".
func (f *File) logicalLine(i int) (text string, next int) {
	const blanks = " \t\f"
	line := strings.TrimLeft(strings.TrimRight(f.lines[i], "\r\n"), blanks)
	i++
	if line == "" || line[0] == '#' || line[0] == '!' {
		return "", i
	}
	for continues(line) {
		line = line[:len(line)-1]
		if i == len(f.lines) {
			f.open = true
			break
		}
		line += strings.TrimLeft(strings.TrimRight(f.lines[i], "\r\n"), blanks)
		i++
	}
	return line, i
}

// decode gives UTF-8.
func (f *File) decode(line string) string {
	if !f.latin1 {
		return line
	}
	runes := make([]rune, len(line))
	for i := range len(line) {
		runes[i] = rune(line[i])
	}
	return string(runes)
}

// surrogates finds a character beyond U+FFFF as Java escapes it.
var surrogates = regexp.MustCompile(`\\\\|\\u([dD][89abAB][[:xdigit:]]{2})\\u([dD][c-fC-F][[:xdigit:]]{2})`)

// joinSurrogates decodes what surrogates finds, since the properties library decodes each half by itself.
// Escaped backslashes are matched too, to be stepped over.
func joinSurrogates(line string) string {
	if !strings.Contains(line, `\u`) {
		return line
	}
	return surrogates.ReplaceAllStringFunc(line, func(m string) string {
		if len(m) < 12 {
			return m
		}
		hi, _ := strconv.ParseUint(m[2:6], 16, 16)
		lo, _ := strconv.ParseUint(m[8:12], 16, 16)
		return string(utf16.DecodeRune(rune(hi), rune(lo)))
	})
}

func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// Map gives the values by key; of a key that stands twice the last one. Use it on the body of a change
// request.
func (f *File) Map() map[string]string {
	m := make(map[string]string, len(f.Entries))
	for _, e := range f.Entries {
		m[e.Key] = e.Value
	}
	return m
}

// line finds where a key stands last; 0 if nowhere. f may be nil.
func (f *File) line(key string) int {
	if f == nil {
		return 0
	}
	for _, e := range slices.Backward(f.Entries) {
		if e.Key == key {
			return e.Line
		}
	}
	return 0
}

// Edited is the text of the file with some values replaced. A key that stands there keeps its place (an
// earlier double goes), others are added at the end in alphabetical order. Everything else stays byte for
// byte. New lines are pure ASCII with \u escapes, so that Java reads them too. f may be nil: then only the
// changes are there.
func (f *File) Edited(changes map[string]string) string {
	var b strings.Builder
	done := make(map[string]bool)
	if f != nil {
		f.editLines(&b, changes, done)
	}
	var added []string
	for key := range changes {
		if !done[key] {
			added = append(added, key)
		}
	}
	slices.Sort(added)
	if s := b.String(); len(added) > 0 && s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n') // behind a CR too, which then is a CRLF
	}
	if len(added) > 0 && f != nil && f.open {
		b.WriteByte('\n') // ends what the last backslash continues
	}
	for _, key := range added {
		b.WriteString(propertyLine(key, changes[key]))
	}
	return b.String()
}

func (f *File) editLines(b *strings.Builder, changes map[string]string, done map[string]bool) {
	next := 0
	for _, e := range f.Entries {
		value, changed := changes[e.Key]
		if !changed {
			continue
		}
		for ; next < e.Line-1; next++ {
			b.WriteString(f.lines[next])
		}
		next = e.end
		if e.Line == f.line(e.Key) {
			b.WriteString(propertyLine(e.Key, value))
			done[e.Key] = true
		}
	}
	for ; next < len(f.lines); next++ {
		b.WriteString(f.lines[next])
	}
}

func propertyLine(key, value string) string {
	return escape(key, " :=#!") + "=" + escape(value, "") + "\n"
}

// escape writes text so that Java's Properties.load gives it back. A backslash goes before the special
// bytes and before a leading blank.
func escape(text, special string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\\' || r == ' ' && i == 0 || strings.ContainsRune(special, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04X\u%04X`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return b.String()
}
