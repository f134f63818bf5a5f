package errorfs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxExpression is the longest text Parse takes, in bytes.
const maxExpression = 1 << 16

// MustParse is Parse for a text that is a constant of the test; it panics on an error.
func MustParse(text string, options ...Option) *Rules {
	rules, err := Parse(text, options...)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return rules
}

// Parse reads an expression; the package comment has the grammar. An error names the place by byte.
func Parse(text string, options ...Option) (*Rules, error) {
	rules := &Rules{hooks: make(map[string]Func), sleep: time.Sleep}
	for _, option := range options {
		option(rules)
	}
	if len(text) > maxExpression {
		return nil, fmt.Errorf("errorfs: expression of %d bytes, the limit is %d", len(text), maxExpression)
	}
	p := parser{text: text}
	for {
		tok, err := p.next()
		if err != nil {
			return nil, err
		}
		if tok.is("") {
			return rules, nil
		}
		if !tok.is("(") {
			return nil, tok.errorf("want ( at the start of a rule")
		}
		r, err := p.rule()
		if err != nil {
			return nil, err
		}
		if r.hook != "" && rules.hooks[r.hook] == nil {
			return nil, tok.errorf("rule calls the hook %q, which was not given", r.hook)
		}
		rules.rules = append(rules.rules, r)
	}
}

// token is a parenthesis, a word or a quoted string; the empty text without quotes is the end.
type token struct {
	text   string
	quoted bool
	at     int
}

func (t token) is(text string) bool { return !t.quoted && t.text == text }

func (t token) errorf(format string, args ...any) error {
	return fmt.Errorf("errorfs: byte %d, at %q: %s", t.at, t.text, fmt.Sprintf(format, args...))
}

type parser struct {
	text string
	pos  int
}

const wordEnds = "()\"; \t\r\n"

// next reads a token.
func (p *parser) next() (token, error) {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
			continue
		case ';':
			end := strings.IndexByte(p.text[p.pos:], '\n')
			if end < 0 {
				p.pos = len(p.text)
			} else {
				p.pos += end
			}
			continue
		}
		break
	}
	tok := token{at: p.pos}
	if p.pos == len(p.text) {
		return tok, nil
	}
	switch rest := p.text[p.pos:]; rest[0] {
	case '(', ')':
		tok.text = rest[:1]
		p.pos++
	case '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return tok, tok.errorf("string without an end")
		}
		tok.quoted = true
		if tok.text, err = strconv.Unquote(quoted); err != nil {
			return tok, tok.errorf("bad string: %v", err)
		}
		p.pos += len(quoted)
	default:
		end := strings.IndexAny(rest, wordEnds)
		if end < 0 {
			end = len(rest)
		}
		tok.text = rest[:end]
		p.pos += end
	}
	return tok, nil
}

// rule reads what follows an opening parenthesis.
func (p *parser) rule() (*rule, error) {
	head, err := p.next()
	if err != nil {
		return nil, err
	}
	r := &rule{times: -1, short: -1}
	if r.kinds, err = parseKinds(head); err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for first := true; ; first = false {
		tok, err := p.next()
		if err != nil {
			return nil, err
		}
		switch {
		case tok.is(")"):
			return r, r.check(head, seen)
		case tok.quoted && first:
			if tok.text == "" {
				return nil, tok.errorf("empty pattern")
			}
			r.pattern = tok.text
		case tok.quoted || tok.text == "":
			return nil, tok.errorf("want a clause or )")
		case seen[tok.text]:
			return nil, tok.errorf("clause given twice")
		default:
			seen[tok.text] = true
			if err := p.clause(r, tok); err != nil {
				return nil, err
			}
		}
	}
}

func parseKinds(tok token) (Kind, error) {
	if tok.quoted || tok.text == "" {
		return 0, tok.errorf("want the kinds of operation")
	}
	var kinds Kind
	for name := range strings.SplitSeq(tok.text, "|") {
		kind, ok := kindNames[name]
		if !ok {
			return 0, tok.errorf("no operation is called %q", name)
		}
		kinds |= kind
	}
	return kinds, nil
}

// clause reads the arguments of the clause that tok names.
func (p *parser) clause(r *rule, tok token) (err error) {
	switch tok.text {
	case "after":
		r.after, err = p.number(0)
	case "nth":
		r.after, err = p.number(1)
		r.after--
		r.times = 1
	case "every":
		r.every, err = p.number(1)
	case "once":
		r.times = 1
	case "times":
		r.times, err = p.number(1)
	case "prob":
		err = p.probability(r)
	case "err":
		err = p.errorName(r)
	case "late":
		r.late = true
	case "short":
		r.short, err = p.number(0)
	case "delay":
		err = p.duration(r)
	case "call":
		var name token
		if name, err = p.word(); err == nil {
			r.hook = name.text
		}
	default:
		err = tok.errorf("no such clause")
	}
	return err
}

// word reads a token that is neither quoted nor a parenthesis.
func (p *parser) word() (token, error) {
	tok, err := p.next()
	if err == nil && (tok.quoted || tok.text == "" || tok.text == "(" || tok.text == ")") {
		err = tok.errorf("want an argument")
	}
	return tok, err
}

func (p *parser) number(least int64) (int64, error) {
	tok, err := p.word()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(tok.text, 10, 64)
	if err != nil || n < least || n == math.MaxInt64 {
		return 0, tok.errorf("want a number from %d on", least)
	}
	return n, nil
}

func (p *parser) probability(r *rule) error {
	tok, err := p.word()
	if err != nil {
		return err
	}
	r.prob, err = strconv.ParseFloat(tok.text, 64)
	if err != nil || !(r.prob > 0 && r.prob <= 1) {
		return tok.errorf("want a probability above 0 and up to 1")
	}
	seedWord, err := p.word()
	if err != nil {
		return err
	}
	if !seedWord.is("seed") {
		return seedWord.errorf("want seed: a random fault must be repeatable")
	}
	seed, err := p.number(0)
	if err != nil {
		return err
	}
	r.rng = rand.New(rand.NewPCG(uint64(seed), 0x9E3779B97F4A7C15))
	return nil
}

func (p *parser) errorName(r *rule) error {
	tok, err := p.word()
	if err != nil {
		return err
	}
	if r.err = errorNames[tok.text]; r.err == nil {
		names := make([]string, 0, len(errorNames))
		for name := range errorNames {
			names = append(names, name)
		}
		slices.Sort(names)
		return tok.errorf("no such error; there are %s", strings.Join(names, " "))
	}
	return nil
}

func (p *parser) duration(r *rule) error {
	tok, err := p.word()
	if err != nil {
		return err
	}
	if r.delay, err = time.ParseDuration(tok.text); err != nil || r.delay <= 0 {
		return tok.errorf("want a duration above 0, as 10ms")
	}
	return nil
}

// check refuses clauses that do not go together.
func (r *rule) check(head token, seen map[string]bool) error {
	switch {
	case r.err == nil && r.delay == 0 && r.hook == "":
		return head.errorf("rule does nothing: give it err, delay or call")
	case r.err == nil && (r.late || r.short >= 0):
		return head.errorf("late and short need err")
	case r.late && r.short >= 0:
		return head.errorf("late and short exclude each other")
	case r.short >= 0 && r.kinds != OpWrite:
		return head.errorf("short is for write alone")
	case seen["nth"] && (seen["after"] || seen["once"] || seen["times"] || seen["every"]):
		return head.errorf("nth excludes after, every, once and times")
	case seen["once"] && seen["times"]:
		return head.errorf("once and times exclude each other")
	}
	return nil
}
