package errorfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// errorNames are the errors that expressions know.
var errorNames = map[string]error{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "ENOENT": syscall.ENOENT,
	"EEXIST": syscall.EEXIST, "EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "EROFS": syscall.EROFS,
	"EMFILE": syscall.EMFILE, "ENFILE": syscall.ENFILE, "EBUSY": syscall.EBUSY, "EINVAL": syscall.EINVAL,
	"EINTR": syscall.EINTR, "EAGAIN": syscall.EAGAIN, "ENOMEM": syscall.ENOMEM, "EFBIG": syscall.EFBIG,
	"ENOTSUP": syscall.ENOTSUP, "ETIMEDOUT": syscall.ETIMEDOUT,
	"EOF": io.EOF, "EUNEXPECTEDEOF": io.ErrUnexpectedEOF, "ECLOSED": fs.ErrClosed, "EINJECTED": ErrInjected,
}

// ErrInjected is the error of "err EINJECTED", for tests that must tell an injected fault from a real one.
var ErrInjected = errors.New("errorfs: injected fault")

// Rules is the Injector of an expression.
type Rules struct {
	rules []*rule
	hooks map[string]Func
	sleep func(time.Duration)
}

// Option changes how an expression is carried out.
type Option func(*Rules)

// WithHook registers a function under the name that "call NAME" uses. It may block for as long as the test
// likes; nil lets the operation pass.
func WithHook(name string, hook Func) Option {
	return func(r *Rules) { r.hooks[name] = hook }
}

// WithSleep replaces the wait of "delay"; the default takes real time (fake time under testing/synctest).
func WithSleep(sleep func(time.Duration)) Option {
	return func(r *Rules) { r.sleep = sleep }
}

// rule is one parenthesis. The text fields never change after parsing; the counters are guarded by mu.
type rule struct {
	kinds   Kind
	pattern string // "" matches everything
	after   int64
	every   int64 // 0 is 1
	times   int64 // -1 is no limit
	prob    float64
	err     error
	late    bool
	short   int64 // -1 is not given
	delay   time.Duration
	hook    string

	mu    sync.Mutex
	rng   *rand.Rand // nil without prob
	calls int64
	fired int64
}

// Inject implements Injector.
func (r *Rules) Inject(op Op) error {
	var first error
	for _, rule := range r.rules {
		if !rule.matches(op) || !rule.fires() {
			continue
		}
		if err := r.carryOut(rule, op); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Fired tells how often the rule with the given index (from 0, in the order of the text) has fired.
func (r *Rules) Fired(index int) int {
	rule := r.rules[index]
	rule.mu.Lock()
	defer rule.mu.Unlock()
	return int(rule.fired)
}

func (r *Rules) carryOut(rule *rule, op Op) error {
	if rule.delay > 0 {
		r.sleep(rule.delay)
	}
	if rule.hook != "" {
		if err := r.hooks[rule.hook](op); err != nil {
			return err
		}
	}
	switch {
	case rule.err == nil:
		return nil
	case rule.short >= 0:
		return &Partial{Bytes: rule.short, Err: rule.err}
	case rule.late:
		return &Partial{Bytes: wholeCall, Err: rule.err}
	}
	return rule.err
}

func (r *rule) matches(op Op) bool {
	if r.kinds&op.Kind == 0 {
		return false
	}
	return r.pattern == "" || matchGlob(r.pattern, op.Path) ||
		op.NewPath != "" && matchGlob(r.pattern, op.NewPath)
}

// fires counts a matching call and tells whether it is one that the clauses choose.
func (r *rule) fires() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	left := r.calls - r.after
	if left <= 0 || r.every > 1 && left%r.every != 0 || r.times >= 0 && r.fired >= r.times {
		return false
	}
	if r.rng != nil && r.rng.Float64() >= r.prob {
		return false
	}
	r.fired++
	return true
}

// matchGlob matches with "*" for any run of bytes and "?" for one. It goes back to the last star only, so
// it takes at most len(pattern)*len(text) steps.
func matchGlob(pattern, text string) bool {
	p, t := 0, 0
	star, resume := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			resume++
			p, t = star+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
