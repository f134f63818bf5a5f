package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// schema is what the tags of a struct say.
type schema struct {
	fields []field        // in Java's order
	byKey  map[string]int // key or old key
}

type field struct {
	key    string
	index  int
	kind   reflect.Kind
	def    string
	one    []string
	lo, hi float64 // bounds of numbers
	live   bool
	fixed  bool
	secret bool
}

var schemas sync.Map // reflect.Type to *schema, one per configuration class

// schemaOf reads the tags of the struct that ptr points to. Bad tags are a bug of ours and panic.
func schemaOf(ptr any) *schema {
	t := reflect.TypeOf(ptr).Elem()
	if sc, ok := schemas.Load(t); ok {
		return sc.(*schema)
	}
	sc := &schema{byKey: make(map[string]int)}
	for i := range t.NumField() {
		sf := t.Field(i)
		f, err := newField(sf, i)
		if err != nil {
			panic(fmt.Sprintf("BUG: config: %v.%s: %v", t, sf.Name, err))
		}
		keys := []string{f.key}
		if old := sf.Tag.Get("old"); old != "" {
			keys = append(keys, old)
		}
		for _, k := range keys {
			if _, dup := sc.byKey[k]; dup {
				panic(fmt.Sprintf("BUG: config: %v has the key %q twice", t, k))
			}
			sc.byKey[k] = len(sc.fields)
		}
		sc.fields = append(sc.fields, f)
	}
	got, _ := schemas.LoadOrStore(t, sc)
	return got.(*schema)
}

func newField(sf reflect.StructField, index int) (field, error) {
	f := field{key: sf.Tag.Get("prop"), index: index, kind: sf.Type.Kind(), def: sf.Tag.Get("def")}
	switch f.kind {
	case reflect.Int:
		f.hi = math.MaxInt32
	case reflect.Int64:
		f.hi = math.MaxInt64
	case reflect.Float64:
		f.hi = math.MaxFloat64
	case reflect.Bool, reflect.String:
	default:
		return f, fmt.Errorf("type %v is not handled", sf.Type)
	}
	if f.key == "" {
		return f, fmt.Errorf("no prop tag")
	}
	if one := sf.Tag.Get("one"); one != "" {
		f.one = strings.Split(one, "|")
	} else if c, ok := reflect.Zero(sf.Type).Interface().(choices); ok {
		f.one = c.choices()
	}
	for word := range strings.FieldsSeq(sf.Tag.Get("is")) {
		if err := f.flag(word); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *field) flag(word string) error {
	switch word {
	case "live":
		f.live = true
	case "fixed":
		f.fixed = true
	case "secret":
		f.secret = true
	default:
		lo, hi, ok := strings.Cut(word, "..")
		if !ok {
			return fmt.Errorf("unknown word %q", word)
		}
		for _, end := range []struct {
			text string
			to   *float64
		}{{lo, &f.lo}, {hi, &f.hi}} {
			if end.text == "" {
				continue
			}
			x, err := strconv.ParseFloat(end.text, 64)
			if err != nil {
				return err
			}
			*end.to = x
		}
	}
	return nil
}

// find gives the field of a key or an old key.
func (sc *schema) find(key string) (*field, bool) {
	i, ok := sc.byKey[key]
	if !ok {
		return nil, false
	}
	return &sc.fields[i], true
}

// set parses text into the field of the struct that ptr points to. The returned text, empty if all is well,
// says what was expected.
func (f *field) set(ptr any, text string) (want string) {
	fv := reflect.ValueOf(ptr).Elem().Field(f.index)
	switch f.kind {
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true":
			fv.SetBool(true)
		case "false":
			fv.SetBool(false)
		default:
			return "want true or false"
		}
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || float64(n) < f.lo || float64(n) > f.hi {
			return fmt.Sprintf("want a whole number from %.0f to %s", f.lo, f.upper())
		}
		fv.SetInt(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= f.lo && x <= f.hi) {
			return fmt.Sprintf("want a number from %g to %g", f.lo, f.hi)
		}
		fv.SetFloat(x)
	case reflect.String:
		if by, ok := fv.Interface().(interface {
			byOrdinal(string) (string, bool)
		}); ok {
			if name, ok := by.byOrdinal(text); ok {
				text = name
			}
		}
		if f.one != nil && !slices.Contains(f.one, text) {
			return "want one of " + strings.Join(f.one, ", ")
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "want text without control characters"
		}
		fv.SetString(text)
	}
	return ""
}

func (f *field) upper() string {
	if f.hi == math.MaxInt64 {
		return strconv.FormatInt(math.MaxInt64, 10)
	}
	return strconv.FormatFloat(f.hi, 'f', 0, 64)
}

// get is the value as it would stand in a file.
func (f *field) get(ptr any) string {
	fv := reflect.ValueOf(ptr).Elem().Field(f.index)
	switch f.kind {
	case reflect.Bool:
		return strconv.FormatBool(fv.Bool())
	case reflect.Float64:
		return strconv.FormatFloat(fv.Float(), 'f', -1, 64)
	case reflect.String:
		return fv.String()
	}
	return strconv.FormatInt(fv.Int(), 10)
}

// shown is get with secrets hidden.
func (f *field) shown(ptr any) string { return f.mask(f.get(ptr)) }

func (f *field) mask(text string) string {
	if f.secret && text != "" {
		return "******"
	}
	return text
}

// fill sets every field that has a default.
func fill(ptr any) {
	for _, f := range schemaOf(ptr).fields {
		if f.def == "" {
			continue
		}
		if want := f.set(ptr, f.def); want != "" {
			panic(fmt.Sprintf("BUG: config: default of %s: %s", f.key, want))
		}
	}
}

// clone copies the struct that ptr points to. All fields are plain values.
func clone(ptr any) any {
	c := reflect.New(reflect.TypeOf(ptr).Elem())
	c.Elem().Set(reflect.ValueOf(ptr).Elem())
	return c.Interface()
}
