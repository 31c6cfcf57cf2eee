package house

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// pageName is an exported name as prose has it: its package and itself.
	pageName = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w+)`)
	// pageField is a field of a Config.
	pageField = regexp.MustCompile(`\bConfig\.(?:Bunch\.)?([A-Z]\w+)`)
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
)

// TestPageNames holds that what a page names in its prose exists: a renamed
// option would stand there for ever.
func TestPageNames(t *testing.T) {
	root, files := tree(t)
	names, fields := exportedNames(files), configFields(files)
	for _, page := range append(pages, "SECURITY.md") {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, span := range codeSpan.FindAllString(string(codeBlock.ReplaceAll(text, nil)), -1) {
			for _, n := range pageName.FindAllStringSubmatch(span, -1) {
				if public := names[n[1]]; public != nil {
					assert.True(t, public[n[2]], "%s names %s.%s, which does not exist", page, n[1], n[2])
				}
			}
			for _, n := range pageField.FindAllStringSubmatch(span, -1) {
				assert.True(t, fields[n[1]], "%s names Config.%s, which does not exist", page, n[1])
			}
		}
	}
}

// exportedNames returns what packages export, by the last part of their path; tests are names, too.
func exportedNames(files []File) map[string]map[string]bool {
	names := make(map[string]map[string]bool)
	for _, f := range files {
		name := path.Base(f.Package)
		if names[name] == nil {
			names[name] = make(map[string]bool)
		}
		for _, n := range f.Exported() {
			names[name][n] = true
		}
	}
	return names
}

// configFields returns the fields of all structs that are called Config.
func configFields(files []File) map[string]bool {
	fields := make(map[string]bool)
	for _, f := range files {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Config" {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						fields[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return fields
}
