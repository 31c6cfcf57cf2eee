package house

import (
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	mustWord = regexp.MustCompile(`\bmust\b`)
	// wireName is how a WIRE.md names a function or a test: as its own folder
	// has it, or behind another folder and a dot.
	wireName = regexp.MustCompile("`([\\w/.]+)`")
)

// mustsHead is the head of the table in which a WIRE.md says what must hold.
const mustsHead = "| must | kept by | shown by |\n|---|---|---|\n"

// TestWireMusts holds that each line of a WIRE.md that says "must" is a row of its table,
// and names the functions that keep it and the tests that show it, and that these exist.
func TestWireMusts(t *testing.T) {
	root, files := tree(t)
	functions, tests := functionNames(files), testFunctions(files)
	for _, page := range wirePages(t, root) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		before, table, found := strings.Cut(string(text), mustsHead)
		require.True(t, found, "%s has a table of what must hold", page)
		table, after, _ := strings.Cut(table, "\n\n")
		assert.NotRegexp(t, mustWord, before+after, "%s: what must hold stands in the table", page)
		for row := range strings.Lines(table) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
			require.Len(t, cells, 3, "%s: rule, functions, tests: %s", page, row)
			assert.Regexp(t, mustWord, cells[0], page)
			requireNames(t, page, cells[1], functions)
			requireNames(t, page, cells[2], tests)
		}
	}
}

// requireNames asserts that a cell names something, and nothing that does not exist.
func requireNames(t *testing.T, page, cell string, exist map[string]bool) {
	names := wireName.FindAllStringSubmatch(cell, -1)
	assert.NotEmpty(t, names, "%s: %s", page, cell)
	for _, n := range names {
		assert.True(t, exist[path.Dir(page)+"."+n[1]] || exist[n[1]], "%s names %s, which does not exist", page, n[1])
	}
}

// wirePages returns the paths of all WIRE.md, relative to root.
func wirePages(t *testing.T, root string) (pages []string) {
	own := ownFolders(root)
	require.NoError(t, filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && !own(at) {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == "WIRE.md" {
			at, err = filepath.Rel(root, at)
			pages = append(pages, filepath.ToSlash(at))
		}
		return err
	}))
	require.NotEmpty(t, pages)
	return pages
}

// functionNames returns the functions of the tree, without its tests, as
// "folder.Name", and methods as "folder.Type.Name".
func functionNames(files []File) map[string]bool {
	names := make(map[string]bool)
	for _, f := range files {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !f.Test {
				names[f.Package+"."+receiver(fn)+fn.Name.Name] = true
			}
		}
	}
	return names
}

// receiver returns the type of a method and a dot, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch generic := t.(type) {
	case *ast.IndexExpr:
		t = generic.X
	case *ast.IndexListExpr:
		t = generic.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
