package house

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machines are the packages without clock, goroutine, lock, channel or map-ordered decision.
var machines = []string{"bunch", "chunk", "chunk/fragment", "chunk/vital", "internal/ask", "internal/clock", "internal/control", "internal/keyed", "internal/outbox", "internal/pace", "internal/parity", "internal/recovery", "internal/refs", "internal/relevancy", "internal/roster", "internal/shape", "internal/slices", "internal/state", "internal/tasks", "internal/wire", "internal/words", "rpc/dos"}

// shared are the packages of this module that every machine may import, below those that one may.
var (
	shared = []string{"internal/bits", "internal/parity", "internal/recovery", "internal/wire", "internal/words"}
	below  = map[string][]string{
		"bunch":            {"internal/pages"},           // memory, with a lock behind it; what the machine does is the same whichever it gets
		"internal/control": {"bunch", "internal/sealed"}, // the parameters of a Hello, and the ids of sealed carriers
		"internal/keyed":   {"internal/state"},
		"internal/slices":  {"chunk", "internal/pages"},
	}
)

// impure are packages of the standard library that bring in the outside world.
var impure = []string{"sync", "sync/atomic", "os", "net", "runtime", "log", "log/slog", "context", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "unsafe"}

// clocks are functions of package time that know what time it is.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

func TestMachinesArePure(t *testing.T) {
	_, files := tree(t)
	packages := make(map[string][]File)
	for _, f := range files {
		if slices.Contains(machines, f.Package) && !f.Test {
			packages[f.Package] = append(packages[f.Package], f)
		}
	}
	require.Contains(t, packages, "bunch")
	build.Default.CgoEnabled = false                                  // types need no C, nor a compiler for it
	source := importer.ForCompiler(token.NewFileSet(), "source", nil) // it keeps what it has read
	for pkg, files := range packages {
		for _, f := range files {
			checkImports(t, f)
			ast.Inspect(f.Syntax, func(n ast.Node) bool { return checkNode(t, f, n) })
		}
		checkMapRanges(t, source, pkg, files)
	}
}

func checkImports(t *testing.T, f File) {
	for _, path := range f.Imports() {
		host, _, _ := strings.Cut(path, "/")
		standard := !strings.Contains(host, ".")
		pkg := strings.TrimPrefix(path, Module+"/")
		assert.True(t, standard || slices.Contains(shared, pkg) || slices.Contains(below[f.Package], pkg) || allowedOutside(path, f.Package), "%s imports %s", f.Path, path)
		assert.NotContains(t, impure, path, "%s", f.Path)
	}
}

func checkNode(t *testing.T, f File, n ast.Node) bool {
	at := func() string { return f.Fset.Position(n.Pos()).String() }
	switch n := n.(type) {
	case *ast.GoStmt:
		t.Errorf("%s: a goroutine in a machine", at())
	case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
		t.Errorf("%s: a channel in a machine", at())
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
			t.Errorf("%s: time.%s in a machine", at(), n.Sel.Name)
		}
	}
	return true
}

// checkMapRanges refuses loops over maps: their order is not a function of the input.
func checkMapRanges(t *testing.T, source types.Importer, pkg string, files []File) {
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	fset := files[0].Fset
	var syntax []*ast.File
	for _, f := range files {
		syntax = append(syntax, f.Syntax)
	}
	config := types.Config{Importer: source}
	_, err := config.Check(pkg, fset, syntax, info)
	require.NoError(t, err, pkg)
	for _, f := range files {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if r, ok := n.(*ast.RangeStmt); ok {
				_, isMap := info.TypeOf(r.X).Underlying().(*types.Map)
				assert.False(t, isMap, "%s: a loop over a map", fset.Position(r.Pos()))
			}
			return true
		})
	}
}
