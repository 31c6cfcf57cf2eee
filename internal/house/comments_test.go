package house

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCommentsStandAboveTheirs holds that no comment begins with the name of another declaration of its file: what is inserted between a
// comment and its function takes the comment away, and nothing else says so.
func TestCommentsStandAboveTheirs(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		docs := docsOf(f)
		for name, doc := range docs {
			first, _, _ := strings.Cut(doc.Text(), " ")
			first = strings.TrimRight(first, ":,\n")
			_, declared := docs[first]
			assert.False(t, declared && first != name, "%s: the comment above %s begins with %s", f.Path, name, first)
		}
	}
}

// docsOf returns the comments above the functions, methods and types of f, nil where there is none. Of methods that have one name it has the last.
func docsOf(f File) map[string]*ast.CommentGroup {
	docs := make(map[string]*ast.CommentGroup)
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			docs[d.Name.Name] = d.Doc
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if of, ok := spec.(*ast.TypeSpec); ok && !d.Lparen.IsValid() {
					docs[of.Name.Name] = d.Doc
				}
			}
		}
	}
	return docs
}
