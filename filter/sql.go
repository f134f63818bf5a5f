package filter

const (
	// MaxExpressionBytes bounds the text that Compile takes. The compiled form needs some 30 times as
	// much memory at worst, so 4 MiB. Java has no bound but the size of a request.
	MaxExpressionBytes = 128 << 10
	// MaxDepth bounds the nesting of parentheses, NOT and signs, and the length of a chain of "=" or IS.
	// Chains of AND and OR of any length count once. It costs up to 2 KiB of stack a level while compiling.
	// Java 17 with its 1 MiB of stack refuses between 1000 and 1500 parentheses, and some thousand NOTs.
	MaxDepth = 4000
)

// SQL is a compiled SQL92 condition. It never changes, so any number of goroutines may use it.
type SQL struct {
	source   string
	root     expr
	test     test // root, made ready
	trailing int  // byte offset in source where the ignored text starts
}

// Compile reads an expression of the dialect in the package comment. Every error is a *SyntaxError over
// ErrExpression that says where and what was found (Java: SelectorParser.parse, MQFilterException).
func Compile(expression string) (*SQL, error) {
	p := parser{lexer: lexer{src: expression}}
	if len(expression) > MaxExpressionBytes {
		return nil, p.fail(0, "%d bytes, the limit is %d", len(expression), MaxExpressionBytes)
	}
	if _, err := p.advance(); err != nil {
		return nil, err
	}
	x, err := p.parse(bindOr)
	if err != nil {
		return nil, err
	}
	root, err := p.asCondition(x)
	if err != nil {
		return nil, err
	}
	return &SQL{source: expression, root: root, test: testOf(root), trailing: p.tok.start}, nil
}

// Match says whether a message with these properties, which may be nil, fits the condition. It is false
// for null. An error, always an *EvalError over ErrEvaluate, means that a property is not the number it
// is compared with; then the message does not match either, whatever the rest of the condition says
// (Java: ExpressionMessageFilter.isMatchedByCommitLog, which logs it).
func (q *SQL) Match(props Properties) (matched bool, err error) {
	if props == nil {
		props = noProperties{}
	}
	v := q.test.judge(props)
	if v == failed {
		_, err = q.root.eval(props)
	}
	return v == yes, err
}

// String returns the expression as given to Compile.
func (q *SQL) String() string { return q.source }

// Trailing returns the text behind the condition that Compile ignored, as Java does, from the first token
// on; empty for a sound expression. It is most likely a mistake of the user, such as a missing AND.
func (q *SQL) Trailing() string { return q.source[q.trailing:] }
