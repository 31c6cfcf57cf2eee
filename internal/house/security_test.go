package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// namedTest is how SECURITY.md names a test: the folder of its package, a dot, and the function.
var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`")

// TestSecurityClaims holds that each row of SECURITY.md's table of attacks
// names tests that show it, and that they exist.
func TestSecurityClaims(t *testing.T) {
	root, files := tree(t)
	tests := testFunctions(files)
	rows := attackRows(t, root)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		require.Len(t, cells, 3, "attack, answer, shown by: %s", row)
		named := namedTest.FindAllStringSubmatch(cells[2], -1)
		assert.NotEmpty(t, named, "no test shows that %s", row)
		for _, n := range named {
			assert.True(t, tests[n[1]+"."+n[2]], "SECURITY.md names %s.%s, which does not exist", n[1], n[2])
		}
	}
}

// testFunctions returns the tests and fuzz targets of the tree as "folder.Name".
func testFunctions(files []File) map[string]bool {
	names := make(map[string]bool)
	for _, f := range files {
		if !f.Test {
			continue
		}
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[f.Package+"."+fn.Name.Name] = true
			}
		}
	}
	return names
}

// attackRows returns the rows of the first table, without its head.
func attackRows(t *testing.T, root string) []string {
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "|---|---|---|\n")
	require.True(t, found, "SECURITY.md has a table of attack, answer and tests")
	table, _, _ = strings.Cut(table, "\n\n")
	return strings.Split(strings.TrimSpace(table), "\n")
}
