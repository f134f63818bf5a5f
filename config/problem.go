package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrInvalid is wrapped by every error about a file or a change that cannot be taken.
	ErrInvalid = errors.New("config: invalid")
	// ErrForbidden is wrapped by the error for a change of a key that no command may change.
	ErrForbidden = errors.New("config: key must not be changed by command")
)

// Problem is one thing wrong with a file or a change: an error when it stands in Problems, else a warning.
type Problem struct {
	File  string // as given to Parse; "" for a change and for defaults
	Line  int    // from 1; 0 if the key does not stand in the file
	Key   string
	Value string // as it stands there; "" for secrets
	Msg   string // what was expected, or why it is wrong
}

// String is "broker.conf:12: maxMessageSize=4m: want a whole number from 1 to 2147483647".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		fmt.Fprintf(&b, "%s=%s: ", printable(p.Key), printable(p.Value))
	}
	b.WriteString(p.Msg)
	return b.String()
}

// printable quotes text that would break a log line and cuts what is too long for one.
func printable(text string) string {
	const maxShown = 200
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Problems is an error made of everything found wrong, one line each. It unwraps to ErrInvalid.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (ps Problems) Unwrap() error { return ErrInvalid }

// ForbiddenError names the keys of a change that no command may change. It unwraps to ErrForbidden.
type ForbiddenError struct {
	Keys []string // sorted
}

func (e *ForbiddenError) Error() string {
	return "config: no command may change " + strings.Join(e.Keys, ", ")
}

// Unwrap makes errors.Is(err, ErrForbidden) true.
func (e *ForbiddenError) Unwrap() error { return ErrForbidden }
