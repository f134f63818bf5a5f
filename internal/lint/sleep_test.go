package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testFunc is a function of a package's tests.
type testFunc struct {
	sleeps   []string        // where it does nothing but wait for a time
	synctest bool            // it runs something in a bubble of virtual time
	mentions map[string]bool // names in it that may be functions
}

// sleepers tells which functions sleep in real time, given those of one package's tests by name. A function may sleep if
// it makes a bubble itself, or if it is a helper that only such functions use.
func sleepers(funcs map[string]*testFunc) (bad []string) {
	fine := map[string]bool{}
	for name, f := range funcs {
		if f.synctest {
			fine[name] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for name := range funcs {
			if fine[name] || strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Benchmark") {
				continue
			}
			users, all := 0, true
			for user, f := range funcs {
				if user != name && f.mentions[name] {
					users++
					all = all && fine[user]
				}
			}
			if users > 0 && all {
				fine[name], grown = true, true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		if !fine[name] {
			bad = append(bad, funcs[name].sleeps...)
		}
	}
	return bad
}

// addFuncs adds the functions of a file; a method goes by its name alone.
func addFuncs(funcs map[string]*testFunc, file string, tree *ast.File, fset *token.FileSet) {
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		f := funcs[fn.Name.Name]
		if f == nil {
			f = &testFunc{mentions: map[string]bool{}}
			funcs[fn.Name.Name] = f
		}
		var waits []ast.Node
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch pkg, name := selector(n); {
			case pkg == "time" && name == "Sleep":
				f.sleeps = append(f.sleeps, fmt.Sprintf("%s:%d", file, fset.Position(n.Pos()).Line))
			case pkg == "synctest":
				f.synctest = true
			}
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt: // it looks for something
				waits = append(waits, n)
			case *ast.CommClause: // of a select, one of several things to wait for
				if n.Comm != nil {
					waits = append(waits, n.Comm)
				}
			case *ast.ExprStmt:
				inside := slices.ContainsFunc(waits, func(w ast.Node) bool { return w.Pos() <= n.Pos() && n.End() <= w.End() })
				if !inside && sleepsByTimer(n) {
					f.sleeps = append(f.sleeps, fmt.Sprintf("%s:%d", file, fset.Position(n.Pos()).Line))
				}
			}
			if id, ok := n.(*ast.Ident); ok {
				f.mentions[id.Name] = true
			}
			return true
		})
	}
}

// sleepsByTimer tells that a statement does nothing but wait for <-time.After(d), or for the channel of a timer.
func sleepsByTimer(stmt *ast.ExprStmt) bool {
	receive, ok := stmt.X.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	if isTimeCall(receive.X, "After") {
		return true
	}
	sel, ok := receive.X.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "C" {
		return false
	}
	if id, ok := sel.X.(*ast.Ident); ok && id.Obj != nil {
		made, ok := id.Obj.Decl.(*ast.AssignStmt)
		return ok && isTimeCall(made.Rhs[0], "NewTimer")
	}
	return isTimeCall(sel.X, "NewTimer")
}

func isTimeCall(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	pkg, f := selector(call.Fun)
	return pkg == "time" && f == name
}

// Tests wait for a condition, not for a time, unless the time is virtual.
func TestNoSleepingTests(t *testing.T) {
	fset := token.NewFileSet()
	packages := map[string]map[string]*testFunc{}
	for _, file := range sources(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(fset, file, nil, 0)
		require.NoError(t, err)
		key := filepath.Dir(file) + " " + tree.Name.Name
		if packages[key] == nil {
			packages[key] = map[string]*testFunc{}
		}
		addFuncs(packages[key], rel(t, file), tree, fset)
	}
	for _, funcs := range packages {
		for _, at := range sleepers(funcs) {
			t.Errorf("%s: a test sleeps: wait for a condition, or use synctest", at)
		}
	}
}

func TestSleepers(t *testing.T) {
	f := func(want int, src string) {
		t.Helper()
		fset, funcs := token.NewFileSet(), map[string]*testFunc{}
		tree, err := parser.ParseFile(fset, "x_test.go", "package x\n"+src, 0)
		require.NoError(t, err)
		addFuncs(funcs, "x_test.go", tree, fset)
		require.Len(t, sleepers(funcs), want, src)
	}
	f(0, `func TestA(t T) { synctest.Test(t, func(t T) { time.Sleep(1) }) }`)
	f(1, `func TestA(t T) { time.Sleep(1) }`)
	f(1, `func TestA(t T) { synctest.Test(t, nil) }; func TestB(t T) { time.Sleep(1) }`)
	f(0, `func TestA(t T) { synctest.Test(t, help) }; func help(t T) { time.Sleep(1) }`)
	f(0, `func TestA(t T) { synctest.Test(t, help) }; func help(t T) { x.deeper() }; func (x X) deeper() { time.Sleep(1) }`)
	f(1, `func TestA(t T) { synctest.Test(t, help) }; func TestB(t T) { help(t) }; func help(t T) { time.Sleep(1) }`)
	f(1, `func unused() { time.Sleep(1) }`)
	f(0, `func TestA(t T) { time := clock{}; time.Sleep(1) }`)
	f(1, `func TestA(t T) { <-time.After(1) }`)
	f(1, `func TestA(t T) { timer := time.NewTimer(1); <-timer.C }`)
	f(1, `func TestA(t T) { <-time.NewTimer(1).C }`)
	f(0, `func TestA(t T) { tick := time.NewTicker(1); for !done() { <-tick.C } }`)
	f(1, `func TestA(t T) { select { case <-done: <-time.After(1) } }`)
	f(0, `func TestA(t T) { for !done() { <-time.After(1) } }`)
	f(0, `func TestA(t T) { select { case <-time.After(1): case <-done: } }`)
	f(0, `func TestA(t T) { synctest.Test(t, func(t T) { <-time.After(1) }) }`)
}

// A skipped test says why, so that nobody takes it for one that passed.
func TestSkipsHaveReasons(t *testing.T) {
	fset := token.NewFileSet()
	for _, file := range sources(t) {
		tree, err := parser.ParseFile(fset, file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := sel.Sel.Name
			if name == "SkipNow" || (name == "Skip" || name == "Skipf") && len(call.Args) == 0 {
				t.Errorf("%s:%d: %s without a reason", rel(t, file), fset.Position(n.Pos()).Line, name)
			}
			return true
		})
	}
}
