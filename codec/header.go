package codec

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// HeaderError tells which field of a request's header is missing or unreadable. The broker answers it with
// INVALID_PARAMETER and this text (case B03), where Java logs and then usually fails on a null.
type HeaderError struct {
	Field  string
	Letter string // the short name of a V2 send header under which the field travels, else ""
	Value  string // "" when the field is missing
	Want   string // "required", "int32", "int64", "bool", …
}

// Error names the field.
func (e *HeaderError) Error() string {
	letter := ""
	if e.Letter != "" {
		letter = " (" + e.Letter + ")"
	}
	if e.Want == "required" {
		return fmt.Sprintf("the header field %q%s is missing", e.Field, letter)
	}
	return fmt.Sprintf("the header field %q%s has the value %q, which is no %s", e.Field, letter, e.Value,
		e.Want)
}

// headerField is one bound field of a header struct.
type headerField struct {
	index    []int
	name     string
	required bool
	pointer  bool
	def      string
	kind     reflect.Kind
}

var headerPlans sync.Map // reflect.Type → []headerField

// headerPlan reads the tags of a header struct once. The tag is `ext:"name"`, `ext:"name,required"` or
// `ext:"name,default=8"`. Kinds: string, bool, int32, int64, int (32 bits on the wire), their named types,
// and pointers to them for Java's boxed optional fields. Embedded structs are walked into.
func headerPlan(t reflect.Type) []headerField {
	if p, ok := headerPlans.Load(t); ok {
		return p.([]headerField)
	}
	var plan []headerField
	var walk func(t reflect.Type, index []int)
	walk = func(t reflect.Type, index []int) {
		for i := range t.NumField() {
			sf := t.Field(i)
			at := append(append([]int(nil), index...), i)
			tag, ok := sf.Tag.Lookup("ext")
			if !ok {
				if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
					walk(sf.Type, at)
				}
				continue
			}
			name, opts, _ := strings.Cut(tag, ",")
			f := headerField{index: at, name: name, required: opts == "required", kind: sf.Type.Kind()}
			f.def, _ = strings.CutPrefix(opts, "default=")
			if f.def == opts {
				f.def = ""
			}
			if f.kind == reflect.Pointer {
				f.pointer, f.kind = true, sf.Type.Elem().Kind()
			}
			plan = append(plan, f)
		}
	}
	walk(t, nil)
	p, _ := headerPlans.LoadOrStore(t, plan)
	return p.([]headerField)
}

// DecodeHeader reads c's fields into the struct that header points to; see the header_*.go files for the
// structs. The error is a *HeaderError. Hot codes have decoders of their own (SendMessageHeader,
// PullMessageHeader).
func DecodeHeader(c *Command, header any) error {
	v := reflect.ValueOf(header).Elem()
	for _, f := range headerPlan(v.Type()) {
		var text string
		if field := c.Lookup(f.name); field != nil {
			text = field.Text()
		} else if f.required {
			return &HeaderError{Field: f.name, Want: "required"}
		} else if f.def != "" {
			text = f.def
		} else {
			continue
		}
		dst := v.FieldByIndex(f.index)
		if f.pointer {
			dst.Set(reflect.New(dst.Type().Elem()))
			dst = dst.Elem()
		}
		if err := setHeaderField(dst, f, text); err != nil {
			return err
		}
	}
	return nil
}

func setHeaderField(dst reflect.Value, f headerField, text string) error {
	switch f.kind {
	case reflect.String:
		dst.SetString(text)
	case reflect.Bool:
		dst.SetBool(strings.EqualFold(text, "true"))
	case reflect.Int, reflect.Int32:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return &HeaderError{Field: f.name, Value: text, Want: "int32"}
		}
		dst.SetInt(n)
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return &HeaderError{Field: f.name, Value: text, Want: "int64"}
		}
		dst.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return &HeaderError{Field: f.name, Value: text, Want: "double"}
		}
		dst.SetFloat(n)
	default:
		panic("BUG: codec: header field " + f.name + " has kind " + f.kind.String())
	}
	return nil
}

// EncodeHeader adds the fields of a header struct to c: primitives and required fields always, nil pointers
// and empty optional strings left out (Java: boxed fields only if not null).
func EncodeHeader(c *Command, header any) {
	v := reflect.Indirect(reflect.ValueOf(header))
	for _, f := range headerPlan(v.Type()) {
		src := v.FieldByIndex(f.index)
		if f.pointer {
			if src.IsNil() {
				continue
			}
			src = src.Elem()
		}
		switch f.kind {
		case reflect.String:
			if src.Len() > 0 || f.required {
				c.Set(f.name, src.String())
			}
		case reflect.Bool:
			c.SetBool(f.name, src.Bool())
		case reflect.Float64:
			c.Set(f.name, strconv.FormatFloat(src.Float(), 'f', -1, 64))
		default:
			c.SetInt(f.name, src.Int())
		}
	}
}
