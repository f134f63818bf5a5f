package lint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Sizes of style: a file that outgrows them wants to be two.
const (
	maxFileLines     = 800
	maxTestFileLines = 1200
	maxFunctionLines = 70
	maxLineColumns   = 125 // style says 110; comments are wrapped at 120 bytes in places
)

// root is the module's directory.
func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// sources are the Go files of the module, generated and foreign ones left out.
func sources(t *testing.T) (files []string) {
	r := root(t)
	require.NoError(t, filepath.WalkDir(r, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || path != r && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() && path != r {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".pb.go") {
			files = append(files, path)
		}
		return nil
	}))
	return files
}

// layers tell which packages of the module a package may import. A name stands for its sub-packages too. Tests may
// import anything.
var layers = []struct {
	pkg     string
	imports []string
}{
	{"internal/vfs", []string{"internal/vfs"}},
	{"internal/clock", nil},
	{"internal/cowtable", nil},
	{"internal/latest", nil},
	{"internal/freeport", nil},
	{"internal/latency", []string{"internal/clock"}},
	{"internal/bufpool", nil},
	{"internal/invariants", nil},
	{"codec", []string{"codec", "internal/bufpool", "internal/invariants"}},
	{"zerocopy", []string{"internal/vfs"}},
	{"reactor/rpc", []string{"reactor", "codec", "zerocopy", "internal/clock", "internal/latency"}},
	{"reactor", []string{"reactor", "codec", "zerocopy", "internal/clock", "internal/bufpool"}},
	{"filter", []string{"codec"}},
	{"auth", []string{"codec"}},
	{"config/update", []string{"config", "codec", "reactor", "internal/vfs"}},
	{"config", []string{"codec"}},
	{"metrics", []string{"codec"}},
	{"store", []string{"store", "codec", "zerocopy", "internal/vfs", "internal/clock", "internal/bufpool"}},
	{"client", []string{"codec", "reactor", "internal/clock"}},
	{"ha", []string{"ha", "store", "client", "reactor", "codec", "zerocopy", "internal/clock", "internal/vfs"}},
	{"namesrv", []string{"codec", "reactor", "client", "config", "internal/vfs", "internal/clock", "internal/persist",
		"internal/latest"}},
	{"controller/replicas", []string{"codec"}},
	{"controller/wal", []string{"internal/vfs"}},
	{"controller/node", []string{"controller/replicas", "controller/wal", "internal/vfs"}},
	{"controller", []string{"controller", "codec", "reactor", "client", "config", "internal/vfs", "internal/clock",
		"internal/latest"}},
	{"admin", []string{"client", "codec"}},
	{"bench", []string{"bench", "client", "codec", "broker", "config", "internal/freeport"}},
}

// forbidden imports that no layer says already.
var forbidden = []struct{ pkg, imported, why string }{
	{"broker", "namesrv", "they meet over the wire only"},
	{"broker", "controller", "they meet over the wire only"},
	{"store", "reactor", "they meet in broker through zerocopy.Segments"},
	{"reactor", "store", "they meet in broker through zerocopy.Segments"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Doc        string
	Name       string
	GoFiles    []string
}

func packages(t *testing.T) (out []listed) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Doc,Name,GoFiles", "./...")
	cmd.Dir = root(t)
	data, err := cmd.Output()
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var p listed
		require.NoError(t, dec.Decode(&p))
		out = append(out, p)
	}
	require.NotEmpty(t, out)
	return out
}

func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, "skylark"), "/")
		for _, imp := range p.Imports {
			if strings.Contains(imp, "giouring") && !within(pkg, "reactor/uring") {
				t.Errorf("%s imports giouring: only reactor/uring may, everything else links without its flag", pkg)
			}
			own, ok := strings.CutPrefix(imp, "skylark/")
			if !ok {
				continue
			}
			if within(own, "cmd") {
				t.Errorf("%s imports %s: nothing imports cmd", pkg, own)
			}
			for _, f := range forbidden {
				if within(pkg, f.pkg) && within(own, f.imported) {
					t.Errorf("%s imports %s: %s", pkg, own, f.why)
				}
			}
			for _, l := range layers {
				if !within(pkg, l.pkg) {
					continue
				}
				if !slices.ContainsFunc(l.imports, func(a string) bool { return within(own, a) }) {
					t.Errorf("%s imports %s; it may import %v", pkg, own, l.imports)
				}
				break
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestFileAndLineLengths(t *testing.T) {
	for _, file := range sources(t) {
		f, err := os.Open(file)
		require.NoError(t, err)
		limit := maxFileLines
		if strings.HasSuffix(file, "_test.go") {
			limit = maxTestFileLines
		}
		n := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			n++
			if w := utf8.RuneCountInString(s.Text()); w > maxLineColumns && !strings.Contains(s.Text(), "`") {
				t.Errorf("%s:%d: %d columns, at most %d", rel(t, file), n, w, maxLineColumns)
			}
		}
		require.NoError(t, f.Close())
		if n > limit {
			t.Errorf("%s: %d lines, at most %d", rel(t, file), n, limit)
		}
	}
}

func rel(t *testing.T, file string) string {
	r, err := filepath.Rel(root(t), file)
	require.NoError(t, err)
	return r
}

// machinePaths are words that belong to somebody's machine, not to the project.
var machinePaths = regexp.MustCompile(`/` + `work/|\.` + `library|\.` + `mirror/`)

func TestFunctionsAndCalls(t *testing.T) {
	fset := token.NewFileSet()
	for _, file := range sources(t) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if m := machinePaths.Find(data); m != nil {
			t.Errorf("%s names %q, a path of one machine", rel(t, file), m)
		}
		tree, err := parser.ParseFile(fset, file, data, 0)
		require.NoError(t, err)
		test := strings.HasSuffix(file, "_test.go")
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || test {
				continue
			}
			lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			if lines > maxFunctionLines {
				t.Errorf("%s: func %s has %d lines, at most %d", rel(t, file), fn.Name.Name, lines, maxFunctionLines)
			}
		}
		for _, problem := range bannedCalls(rel(t, file), tree, fset) {
			t.Error(problem)
		}
	}
}

// bannedCalls finds file access of the store past the seam.
func bannedCalls(file string, tree *ast.File, fset *token.FileSet) (problems []string) {
	if strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(file, "store/") {
		return nil
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if pkg, name := selector(n); pkg == "os" && name != "Getpid" {
			problems = append(problems, fmt.Sprintf("%s:%d: os.%s in store: files go through internal/vfs", file,
				fset.Position(n.Pos()).Line, name))
		}
		return true
	})
	return problems
}

// selector is the package and the name of pkg.Name; empty for anything else.
func selector(n ast.Node) (pkg, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok || id.Obj != nil { // a variable of that name
		return "", ""
	}
	return id.Name, sel.Sel.Name
}
