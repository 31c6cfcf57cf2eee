package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCommentsStandAboveTheirs holds that no comment begins with the name of
// another declaration of its file: what is inserted between a comment and its
// function takes the comment away, and nothing else says so.
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

// docsOf returns the comments above the functions, methods and types of f, nil
// where there is none. Of methods that have one name it has the last.
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

// TestCommentsEndTheirSentence holds that the comment above a declaration ends as a sentence does,
// or with an indented block: a last line that an edit has lost leaves half a promise behind.
func TestCommentsEndTheirSentence(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		for _, doc := range declared(f) {
			lines := strings.Split(strings.TrimSpace(doc.Text()), "\n")
			last := lines[len(lines)-1]
			ended := strings.HasPrefix(last, "\t") || strings.ContainsAny(last[max(0, len(last)-1):], ".:?!)")
			assert.True(t, ended || last == "", "%s: a comment ends with %q", f.Path, last)
		}
	}
}

// declared returns the comments above the package clause and the top-level declarations of f.
func declared(f File) []*ast.CommentGroup {
	docs := []*ast.CommentGroup{f.Syntax.Doc}
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			docs = append(docs, d.Doc)
		case *ast.GenDecl:
			if d.Tok != token.IMPORT { // of "C" it is C
				docs = append(docs, d.Doc)
			}
		}
	}
	return docs
}

// A line with nothing but a comment has at most proseColumns. A line of a list, a table
// or code in a comment, which cannot be wrapped, has at most indentedColumns. A tab
// counts as 4.
const (
	proseColumns    = 100
	indentedColumns = 150
)

func TestCommentLinesFit(t *testing.T) {
	root, files := tree(t)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				assert.LessOrEqual(t, columns(line), mostColumns(comment), "%s:%d", f.Path, i+1)
			}
		}
	}
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func mostColumns(comment string) int {
	if strings.HasPrefix(comment, "\t") || strings.HasPrefix(comment, "  ") {
		return indentedColumns
	}
	return proseColumns
}
