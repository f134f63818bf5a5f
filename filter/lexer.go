package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind is a terminal of the grammar.
type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokString
	tokInteger
	tokFloat
	tokIdent

	tokNot
	tokAnd
	tokOr
	tokBetween
	tokIn
	tokTrue
	tokFalse
	tokNull
	tokIs
	tokContains
	tokStartsWith
	tokEndsWith

	tokEqual
	tokNotEqual
	tokGreater
	tokGreaterEqual
	tokLess
	tokLessEqual
	tokOpen
	tokComma
	tokClose
	tokPlus
	tokMinus
)

// tokenNames are the terminals as error messages show them.
var tokenNames = [...]string{
	tokEOF: "the end", tokString: "a string", tokInteger: "an integer", tokFloat: "a float",
	tokIdent: "a property",
	tokNot:   "NOT", tokAnd: "AND", tokOr: "OR", tokBetween: "BETWEEN", tokIn: "IN", tokTrue: "TRUE",
	tokFalse: "FALSE", tokNull: "NULL", tokIs: "IS", tokContains: "CONTAINS", tokStartsWith: "STARTSWITH",
	tokEndsWith: "ENDSWITH", tokEqual: "=", tokNotEqual: "<>", tokGreater: ">", tokGreaterEqual: ">=",
	tokLess: "<", tokLessEqual: "<=", tokOpen: "(", tokComma: ",", tokClose: ")", tokPlus: "+", tokMinus: "-",
}

func (k tokenKind) String() string { return tokenNames[k] }

// longestKeyword is the length of STARTSWITH.
const longestKeyword = 10

// keywords are in upper case; the lexer takes any case.
var keywords = map[string]tokenKind{
	"NOT": tokNot, "AND": tokAnd, "OR": tokOr, "BETWEEN": tokBetween, "IN": tokIn, "TRUE": tokTrue,
	"FALSE": tokFalse, "NULL": tokNull, "IS": tokIs, "CONTAINS": tokContains, "STARTSWITH": tokStartsWith,
	"ENDSWITH": tokEndsWith,
}

// token is a terminal at src[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// lexer splits an expression into tokens, always taking the longest (JavaCC's rule). Blanks and comments
// only part tokens. Offsets are bytes.
type lexer struct {
	src string
	off int
	// noLineEnd is set once no line ends behind off, so that a row of "--" does not search the rest again
	// and again.
	noLineEnd bool
	// The last answer of position, so that asking for every operator of a long expression stays linear.
	countedOff, countedChars int
}

// next returns the token at or behind the current offset and moves past it; tokEOF repeats.
func (lx *lexer) next() (token, error) {
	lx.skipBlanks()
	start := lx.off
	if start == len(lx.src) {
		return token{tokEOF, start, start}, nil
	}
	kind := tokEOF
	switch c := lx.src[start]; {
	case isIdentStart(c):
		return lx.ident(), nil
	case isDecimal(c) || c == '.' && start+1 < len(lx.src) && isDecimal(lx.src[start+1]):
		return lx.number(), nil
	case c == '\'':
		return lx.quoted()
	default:
		kind = lx.symbol(c)
	}
	if kind == tokEOF {
		r, _ := utf8.DecodeRuneInString(lx.src[start:])
		return token{}, lx.fail(start, "unexpected %q", r)
	}
	return token{kind, start, lx.off}, nil
}

// symbol takes an operator, or returns tokEOF if c does not start one.
func (lx *lexer) symbol(c byte) tokenKind {
	var second byte
	if lx.off+1 < len(lx.src) {
		second = lx.src[lx.off+1]
	}
	double := tokEOF
	switch {
	case c == '<' && second == '>':
		double = tokNotEqual
	case c == '<' && second == '=':
		double = tokLessEqual
	case c == '>' && second == '=':
		double = tokGreaterEqual
	}
	if double != tokEOF {
		lx.off += 2
		return double
	}
	lx.off++
	switch c {
	case '=':
		return tokEqual
	case '<':
		return tokLess
	case '>':
		return tokGreater
	case '(':
		return tokOpen
	case ',':
		return tokComma
	case ')':
		return tokClose
	case '+':
		return tokPlus
	case '-':
		return tokMinus
	}
	return tokEOF
}

// skipBlanks moves over white space and comments. A "--" without a line end behind it is two minus signs,
// and a "/*" without "*/" is an error that the caller meets as an unexpected '/'.
func (lx *lexer) skipBlanks() {
	for lx.off < len(lx.src) {
		rest := lx.src[lx.off:]
		switch {
		case strings.IndexByte(" \t\n\r\f", rest[0]) >= 0:
			lx.off++
		case strings.HasPrefix(rest, "--"):
			if lx.noLineEnd {
				return
			}
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				lx.noLineEnd = true
				return
			}
			lx.off += end + 1
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return
			}
			lx.off += 2 + end + 2
		default:
			return
		}
	}
}

func (lx *lexer) ident() token {
	start := lx.off
	for lx.off < len(lx.src) && (isIdentStart(lx.src[lx.off]) || isDecimal(lx.src[lx.off])) {
		lx.off++
	}
	text := lx.src[start:lx.off]
	kind := tokIdent
	if len(text) <= longestKeyword {
		if k, ok := keywords[strings.ToUpper(text)]; ok {
			kind = k
		}
	}
	return token{kind, start, lx.off}
}

// number takes the longest of a float and an integer. An integer with a leading zero ends after the zero,
// so "007" is three integers, as in Java.
func (lx *lexer) number() token {
	start, src := lx.off, lx.src
	i := start
	for i < len(src) && isDecimal(src[i]) {
		i++
	}
	digitsEnd, isFloat := i, false
	if i < len(src) && src[i] == '.' {
		isFloat = true
		for i++; i < len(src) && isDecimal(src[i]); i++ {
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		j := i + 1
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		if j < len(src) && isDecimal(src[j]) {
			isFloat = true
			for i = j; i < len(src) && isDecimal(src[i]); i++ {
			}
		}
	}
	switch {
	case isFloat:
		lx.off = i
		return token{tokFloat, start, i}
	case src[start] == '0':
		digitsEnd = start + 1
	case digitsEnd < len(src) && src[digitsEnd]|0x20 == 'l':
		digitsEnd++
	}
	lx.off = digitsEnd
	return token{tokInteger, start, digitsEnd}
}

// quoted takes a string with its quotes; the longest, so that two quotes in a row never end it.
func (lx *lexer) quoted() (token, error) {
	start := lx.off
	end := 0 // of the longest string so far
	for i := start + 1; ; {
		n := strings.IndexByte(lx.src[i:], '\'')
		if n < 0 {
			break
		}
		i += n + 1
		end = i
		if i == len(lx.src) || lx.src[i] != '\'' {
			break
		}
		i++
	}
	if end == 0 {
		return token{}, lx.fail(start, "string %s is not closed", shorten(lx.src[start:]))
	}
	lx.off = end
	return token{tokString, start, end}, nil
}

// text returns the source of a token.
func (lx *lexer) text(t token) string { return lx.src[t.start:t.end] }

// unquote returns the content of a string token.
func (lx *lexer) unquote(t token) string {
	return strings.ReplaceAll(lx.src[t.start+1:t.end-1], "''", "'")
}

// found describes a token for an error message: what it is and its text.
func (lx *lexer) found(t token) string {
	switch t.kind {
	case tokEOF:
		return "the end of the expression"
	case tokString, tokInteger, tokFloat:
		return shorten(lx.text(t))
	}
	return fmt.Sprintf("%q", shorten(lx.text(t)))
}

// fail makes a SyntaxError at a byte offset.
func (lx *lexer) fail(off int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Pos: lx.position(off), Msg: fmt.Sprintf(format, args...)}
}

// position turns a byte offset into a 1-based character position.
func (lx *lexer) position(off int) int {
	if off >= lx.countedOff {
		lx.countedChars += utf8.RuneCountInString(lx.src[lx.countedOff:off])
	} else {
		lx.countedChars -= utf8.RuneCountInString(lx.src[off:lx.countedOff])
	}
	lx.countedOff = off
	return lx.countedChars + 1
}

func isIdentStart(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
}

// shownBytes bounds how much of an expression goes into an error message.
const shownBytes = 40

// shorten cuts text for an error message, at a character.
func shorten(text string) string {
	if len(text) <= shownBytes {
		return text
	}
	cut := shownBytes
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
