package house

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var codeBlock = regexp.MustCompile("(?s)```go\n// (\\S+)\n(.*?)```")

// pages are those whose code is there to be copied.
var pages = []string{"README.md", "PORTING.md"}

// TestPagesCompile builds every Go block of a page in a module of its own, as its reader
// would. The first line of a block names its file, the rest is as gofmt writes it.
func TestPagesCompile(t *testing.T) {
	for _, page := range pages {
		t.Run(page, func(t *testing.T) { compilePage(t, page) })
	}
}

var (
	pageLink = regexp.MustCompile(`\]\(([A-Z]+\.md)?#([^)]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestPageLinks holds that links into a page of the root find their heading.
func TestPageLinks(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	for _, page := range append(pages, "SECURITY.md") {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, link := range pageLink.FindAllSubmatch(text, -1) {
			target := string(link[1])
			if target == "" {
				target = page
			}
			require.Contains(t, anchors(t, filepath.Join(root, target)), string(link[2]), "%s links to %s", page, target)
		}
	}
}

// TestReadmeNamesPackages holds that README says of each package of the library
// and of each example what it is.
func TestReadmeNamesPackages(t *testing.T) {
	root, files := tree(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	for _, f := range files {
		parts := strings.Split(f.Package, "/")
		if pkg := strings.Join(parts[:min(len(parts), 2)], "/"); parts[0] != "bench" {
			require.Contains(t, string(text), "`"+pkg+"`", "README names no package %s", pkg)
		}
	}
}

// anchors returns what the headings of a page are called in links.
func anchors(t *testing.T, path string) (names []string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, h := range heading.FindAllSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, string(h[1])))
	}
	return names
}

func compilePage(t *testing.T, page string) {
	root, err := Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	blocks := codeBlock.FindAllSubmatch(text, -1)
	require.Len(t, blocks, strings.Count(string(text), "```go"), "every Go block begins with a comment that names its file")
	require.NotEmpty(t, blocks)

	dir := t.TempDir()
	for _, b := range blocks {
		path := filepath.Join(dir, filepath.FromSlash(string(b[1])))
		pretty, err := format.Source(b[2])
		require.NoError(t, err, "%s", b[1])
		require.Equal(t, string(pretty), string(b[2]), "%s is as gofmt writes it", b[1])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, b[2], 0o644))
	}
	writeModule(t, root, dir)
	cmd := exec.Command("go", "vet", "./...") // tests, too
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// writeModule makes dir a module that requires this one, with the same versions of everything else.
func writeModule(t *testing.T, root, dir string) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	text := strings.Replace(string(mod), "module "+Module, "module example", 1)
	text += "\nrequire " + Module + " v0.0.0\n\nreplace " + Module + " => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
}
