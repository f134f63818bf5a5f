package fastjson

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrSyntax is wrapped by every error about text that is not JSON even in fastjson's loose sense.
	ErrSyntax = errors.New("fastjson: syntax error")
	// ErrLimit is wrapped by every error about text that passes one of the Limits.
	ErrLimit = errors.New("fastjson: limit exceeded")
	// ErrType is wrapped by every error about a value that does not fit the Go type it is bound to.
	ErrType = errors.New("fastjson: type mismatch")
)

// SyntaxError tells where text stops being JSON. It unwraps to ErrSyntax.
type SyntaxError struct {
	Offset int    // byte offset into the input, from 0
	Msg    string // what is wrong there
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("fastjson: syntax error at byte %d: %s", e.Offset, e.Msg)
}

// Unwrap makes errors.Is(err, ErrSyntax) true.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// TypeError tells which value does not fit. It unwraps to ErrType and to the cause, if there is one.
type TypeError struct {
	Path string // where, as "$.topicConfigTable.T.perm", "$.acks[3].b"; map keys are marked "<key>"
	Want string // what the Go side takes, as "int32"
	Got  string // what stood there, shortened, as `string "abc"`
	Err  error  // cause, may be nil: range, base64, the error of UnmarshalFastjson
}

func (e *TypeError) Error() string {
	s := fmt.Sprintf("fastjson: %s: want %s, got %s", e.Path, e.Want, e.Got)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap makes errors.Is work for ErrType and for the cause.
func (e *TypeError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrType}
	}
	return []error{ErrType, e.Err}
}

// at prepends one path step to a TypeError on its way up; other errors pass unchanged.
func at(err error, step string) error {
	var te *TypeError
	if errors.As(err, &te) {
		te.Path = "$" + step + strings.TrimPrefix(te.Path, "$")
	}
	return err
}

func mismatch(v *Value, want string, cause error) error {
	return &TypeError{Path: "$", Want: want, Got: v.describe(), Err: cause}
}

func limitError(what string, limit int) error {
	return fmt.Errorf("%w: more than %d %s", ErrLimit, limit, what)
}
