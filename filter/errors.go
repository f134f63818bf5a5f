package filter

import (
	"errors"
	"fmt"
)

// Errors of this package; they come wrapped with the place and what was found there.
var (
	// ErrTagExpression answers ParseTags when the text has separators only, such as "||". Java's clients
	// and broker refuse it too ("subString split error").
	ErrTagExpression = errors.New("filter: invalid tag expression")
	// ErrExpression is under every error of Compile. The broker answers SUBSCRIPTION_PARSE_FAILED (23).
	ErrExpression = errors.New("filter: invalid SQL92 expression")
	// ErrEvaluate is under every error of SQL.Match: the operands of one message cannot be compared.
	ErrEvaluate = errors.New("filter: SQL92 evaluation failed")
	// ErrBloomMismatch answers BloomFilter.HashTo and IsHit when bits or positions belong to a filter of
	// another size.
	ErrBloomMismatch = errors.New("filter: bloom data of another filter")
)

// SyntaxError is why Compile refused an expression. errors.Is finds ErrExpression under it.
type SyntaxError struct {
	Pos int    // 1-based character in the expression; one past the last at its end
	Msg string // what was expected and what was found
}

// Error names the position and the reason, in a form fit for the remark of a response.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%v: position %d: %s", ErrExpression, e.Pos, e.Msg)
}

// Unwrap returns ErrExpression.
func (e *SyntaxError) Unwrap() error { return ErrExpression }

// EvalError is why SQL.Match could not decide. It is made once by Compile, so a flood of unfit messages
// allocates nothing; it therefore names the operator and not the values. errors.Is finds ErrEvaluate
// under it.
type EvalError struct {
	Pos int    // 1-based character of the operator in the expression
	Op  string // the operator, such as ">="
}

// Error names the operator and its position.
func (e *EvalError) Error() string {
	return fmt.Sprintf("%v: position %d: an operand of %s cannot be read as the number it is compared with",
		ErrEvaluate, e.Pos, e.Op)
}

// Unwrap returns ErrEvaluate.
func (e *EvalError) Unwrap() error { return ErrEvaluate }
