package house

import (
	"bytes"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tree(t *testing.T) (root string, files []File) {
	root, err := Root()
	require.NoError(t, err)
	files, err = Files(root)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return root, files
}

// topLevel is all that stands at the top of the repository.
var topLevel = []string{"go.mod", "go.sum", "README.md", "LICENSE", "SECURITY.md", "PORTING.md", ".ci", ".git", ".gitignore",
	"bench", "bunch", "chunk", "examples", "internal", "rpc", "stream"}

func TestTopLevel(t *testing.T) {
	root, _ := tree(t)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		assert.Contains(t, topLevel, e.Name(), "the top level holds only what DESIGN.md, section 1, names")
	}
}

// floor returns the storey of a package: an import goes to a lower one, never up and never across.
func floor(pkg string) int {
	switch pkg { // where their imports put them
	case "internal/badnet", "internal/control", "internal/guest", "internal/quicconn", "internal/trace":
		return 2 // above link, bunch and rpc/emulation, below rpc
	case "internal/drops", "internal/keyed":
		return 1 // above logs and state
	case "internal/slices":
		return 2 // above chunk, below stream
	case "rpc/cert", "rpc/dos", "rpc/emulation":
		return 1 // rooms of the face that rpc and rpctest stand on
	case "stream/disk":
		return 5
	}
	switch first, _, _ := strings.Cut(pkg, "/"); first {
	case "internal":
		return 0
	case "bunch", "chunk":
		return 1
	case "rpc":
		return 3
	case "stream":
		return 4
	}
	return outer
}

// outer is the storey of examples and bench.
const outer = 6

func TestImportsGoDown(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		if f.Test {
			continue
		}
		for _, path := range f.Imports() {
			pkg, ours := strings.CutPrefix(path, Module+"/")
			if !ours {
				continue
			}
			within := strings.HasPrefix(pkg+"/", f.Package+"/") || strings.HasPrefix(f.Package, pkg+"/") || strings.HasPrefix(f.Package, "examples/") || strings.HasPrefix(f.Package, "bench/")
			down := floor(pkg) < floor(f.Package)
			beside := pkg == "internal/bits" || f.Package == "internal/scenes" || f.Package == "internal/link" && pkg == "internal/recovery" || f.Package == "internal/sealed" && (pkg == "internal/pace" || pkg == "internal/recovery" || pkg == "internal/udp")
			assert.True(t, down || within || beside, "%s imports %s, which does not stand below it", f.Path, pkg)
		}
	}
}

// outside says which packages may import a module from outside; examples and bench may use what serves their users.
var outside = map[string][]string{
	"github.com/quic-go/quic-go":        {"rpc", "internal/netsim", "internal/quicconn"},
	"github.com/vmihailenco/msgpack/v5": {"internal/codec"},
	"github.com/klauspost/reedsolomon":  {"internal/slices"},                            // the codes of repair slices; pure arithmetic
	"github.com/zeebo/blake3":           {"stream"},                                     // digests
	"golang.org/x/net":                  {"internal/sealed", "internal/udp"},            // batches of datagrams
	"golang.org/x/sys":                  {"internal/udp", "internal/testkit", "stream"}, // UDP segmentation offload; what the CPU has
}

func TestDependencies(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		if f.Test || floor(f.Package) == outer {
			continue
		}
		for _, path := range f.Imports() {
			host, _, _ := strings.Cut(path, "/")
			if !strings.Contains(host, ".") || strings.HasPrefix(path, Module) {
				continue
			}
			assert.True(t, allowedOutside(path, f.Package), "%s imports %s", f.Path, path)
		}
	}
}

func allowedOutside(path, pkg string) bool {
	for module, packages := range outside {
		if path == module || strings.HasPrefix(path, module+"/") {
			return slices.Contains(packages, pkg)
		}
	}
	return false
}

func TestFunctionsFitAScreen(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		for name, lines := range f.Functions() {
			if !f.Test {
				assert.LessOrEqual(t, lines, 70, "%s: lines of %s", f.Path, name)
			}
		}
	}
}

// widest is how many files a package may have; one with more wants to be two.
const widest = 36

func TestPackagesAreRooms(t *testing.T) {
	_, files := tree(t)
	count := make(map[string]int)
	for _, f := range files {
		if !f.Test {
			count[f.Package]++
		}
	}
	for pkg, n := range count {
		assert.LessOrEqual(t, n, widest, "files of %s", pkg)
	}
}

// roomy are the packages in which a method stands in the file of its type.
var roomy = []string{"stream"}

func TestMethodsStandWithTheirType(t *testing.T) {
	_, files := tree(t)
	home := make(map[string]string) // of a type
	for _, f := range files {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && !f.Test {
				home[f.Package+"."+spec.Name.Name+"."] = f.Path
			}
			return true
		})
	}
	for _, f := range files {
		if f.Test || !slices.Contains(roomy, f.Package) {
			continue
		}
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				assert.Equal(t, home[f.Package+"."+receiver(fn)], f.Path, "where %s%s stands", receiver(fn), fn.Name.Name)
			}
		}
	}
}

// budgets of exported package-level names: an interface is small or it is not learnt.
var budgets = map[string]int{"bunch": 46, "chunk": 25, "rpc": 120, "rpc/dos": 12, "rpc/input": 15, "stream": 60, "rpc/rpctest": 25, "stream/disk": 5}

func TestExportedNames(t *testing.T) {
	_, files := tree(t)
	names := make(map[string][]string)
	for _, f := range files {
		if !f.Test {
			names[f.Package] = append(names[f.Package], f.Exported()...)
		}
	}
	for pkg, budget := range budgets {
		t.Logf("%s: %d exported names of %d", pkg, len(names[pkg]), budget)
		assert.LessOrEqual(t, len(names[pkg]), budget, "%s exports %v", pkg, names[pkg])
	}
}

func TestNothingLeftOpen(t *testing.T) {
	root, files := tree(t)
	marks := [][]byte{[]byte("TO" + "DO"), []byte("FIX" + "ME"), []byte("t.Sk" + "ip("), []byte("X" + "XX")}
	for _, f := range files {
		text, err := os.ReadFile(root + "/" + f.Path)
		require.NoError(t, err)
		for _, m := range marks {
			assert.False(t, bytes.Contains(text, m), "%s holds %q", f.Path, m)
		}
	}
}
