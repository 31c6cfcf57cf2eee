package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is the path of the main module.
const Module = "github.com/quivernet/quiver"

// File is one Go file of the tree.
type File struct {
	Path    string // relative to the root, with slashes
	Package string // folder relative to the root, with slashes
	Test    bool
	Fset    *token.FileSet
	Syntax  *ast.File
}

// Root returns the repository's root: the nearest folder above the working directory with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", fs.ErrNotExist
	}
}

// Files parses every Go file of the repository at root, testdata and hidden folders left out.
func Files(root string) ([]File, error) {
	var files []File
	fset := token.NewFileSet()
	own := ownFolders(root)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || !own(at)):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(at) != ".go":
			return nil
		}
		f, err := parse(fset, root, at)
		files = append(files, f)
		return err
	})
	return files, err
}

// ownFolders returns a function that reports whether a folder below root belongs to the
// repository: git tracks a file in it. Any other is its user's, who may write as he likes.
// A copy without git has no record of whose a folder is, so there all are the repository's.
func ownFolders(root string) func(dir string) bool {
	tracked, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil || len(tracked) == 0 {
		return func(string) bool { return true }
	}
	own := make(map[string]bool)
	for _, file := range strings.Split(string(tracked), "\x00") {
		for dir := path.Dir(file); !own[dir]; dir = path.Dir(dir) {
			own[dir] = true
		}
	}
	return func(dir string) bool {
		rel, err := filepath.Rel(root, dir)
		return err == nil && own[filepath.ToSlash(rel)]
	}
}

func parse(fset *token.FileSet, root, at string) (File, error) {
	syntax, err := parser.ParseFile(fset, at, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, err
	}
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return File{}, err
	}
	rel = filepath.ToSlash(rel)
	return File{
		Path:    rel,
		Package: filepath.ToSlash(filepath.Dir(filepath.FromSlash(rel))),
		Test:    strings.HasSuffix(rel, "_test.go"),
		Fset:    fset,
		Syntax:  syntax,
	}, nil
}

// Imports returns the import paths of f.
func (f File) Imports() []string {
	var paths []string
	for _, spec := range f.Syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// ImportNames returns the names by which f speaks of the packages that it imports; without one of
// its own, a package has that of its folder, without -go, or of the folder above that of a version.
func (f File) ImportNames() map[string]bool {
	names := make(map[string]bool)
	for i, at := range f.Imports() {
		name := strings.TrimSuffix(path.Base(version.ReplaceAllString(at, "")), "-go")
		if own := f.Syntax.Imports[i].Name; own != nil {
			name = own.Name
		}
		names[name] = true
	}
	delete(names, "_")
	return names
}

// version ends the path of a module from its second major version on.
var version = regexp.MustCompile(`/v[0-9]+$`)

// Functions returns the name and length in lines of every function with a body,
// literals left to their function.
func (f File) Functions() map[string]int {
	lengths := make(map[string]int)
	for _, d := range f.Syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			lengths[fn.Name.Name] = max(lengths[fn.Name.Name], f.line(fn.End())-f.line(fn.Pos())+1)
		}
	}
	return lengths
}

func (f File) line(p token.Pos) int { return f.Fset.Position(p).Line }

// Declared returns all names that f declares but those of methods, fields and
// labels, which hide nothing.
func (f File) Declared() (names []*ast.Ident) {
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				names = append(names, n.Name)
			} else {
				names = append(names, namesOf(n.Recv)...)
			}
		case *ast.FuncType:
			names = slices.Concat(names, namesOf(n.TypeParams), namesOf(n.Params), namesOf(n.Results))
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names = append(names, identifiers(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names = append(names, identifiers(n.Key, n.Value)...)
			}
		}
		return true
	})
	return names
}

// namesOf returns the names in a list of parameters, which may be nil.
func namesOf(list *ast.FieldList) (names []*ast.Ident) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		names = append(names, field.Names...)
	}
	return names
}

// identifiers returns those of the expressions that are names.
func identifiers(all ...ast.Expr) (names []*ast.Ident) {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
}

// Exported returns the exported package-level names that f declares.
func (f File) Exported() []string {
	var names []string
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, exportedIn(spec)...)
			}
		}
	}
	return names
}

func exportedIn(spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}
