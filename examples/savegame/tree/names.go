package tree

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf16"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// maxName is how long a name may be on Linux in bytes, and on Windows and macOS in UTF-16 units.
const maxName = 255

// NamesError means that this system cannot hold some names of a save. Nothing was written.
type NamesError struct {
	Problems []Note
}

func (e *NamesError) Error() string {
	text := fmt.Sprintf("this system cannot hold %d of the names", len(e.Problems))
	for i, p := range e.Problems {
		if i == 3 {
			return text + "; …"
		}
		text += fmt.Sprintf("; %q: %s", p.Path, p.Text)
	}
	return text
}

// system is what decides which names can be.
type system struct {
	windows bool
	utf16   bool // names are counted in UTF-16 units
	folds   bool // upper and lower case are the same
}

// check returns a *NamesError when the system cannot hold every path of m.
func (s system) check(m *manifest.Manifest) error {
	var problems []Note
	seen := make(map[string]string)
	for i := range m.Entries {
		p := m.Entries[i].Path
		text := s.wrong(path.Base(p))
		if s.folds {
			key := strings.ToLower(strings.ToUpper(p)) // upper first: ſ and s, K and k are the same
			if other, twice := seen[key]; twice && text == "" {
				text = fmt.Sprintf("the same as %q here, where case does not count", other)
			}
			seen[key] = p
		}
		if text != "" {
			problems = append(problems, Note{Path: p, Text: text})
		}
	}
	if problems != nil {
		return &NamesError{problems}
	}
	return nil
}

// wrong says what is wrong with a name, empty when nothing is.
func (s system) wrong(name string) string {
	size := len(name)
	if s.utf16 {
		size = len(utf16.Encode([]rune(name)))
	}
	switch {
	case name == manifest.Root:
		return ""
	case size > maxName:
		return fmt.Sprintf("a name of %d, the limit is %d", size, maxName)
	case !s.windows:
		return ""
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*\`, r) }):
		return `Windows allows no control characters and none of <>:"|?*\ in a name`
	case strings.ContainsAny(name[len(name)-1:], ". "):
		return "Windows drops a dot or space at the end"
	case isDevice(name):
		return "it is a device on Windows"
	}
	return ""
}

// isDevice reports whether Windows takes the name for a device, with any extension.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem = strings.TrimRight(stem, " "); stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, isCom := strings.CutPrefix(stem, "COM")
	port, isLpt := strings.CutPrefix(port, "LPT")
	return isCom != isLpt && len([]rune(port)) == 1 && strings.Contains("0123456789¹²³", port)
}
