package tree

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// NamesError means that this system cannot hold some names of a save, or would change them. Nothing was written.
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

// system is what decides which names can be. One that is too long fails when it is staged.
type system struct {
	windows bool
	folds   bool // upper and lower case are the same
}

// notWindows fits what Windows refuses, drops the end of, or takes for a device, with any extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]|[. ]$|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// check returns a *NamesError when the system cannot hold every path of m.
func (s system) check(m *manifest.Manifest) error {
	var problems []Note
	seen := make(map[string]string)
	for i := range m.Entries[1:] {
		p, text := m.Entries[i+1].Path, ""
		if s.folds {
			key := strings.ToLower(strings.ToUpper(p)) // upper first: ſ and s, K and k are the same
			if other, twice := seen[key]; twice {
				text = fmt.Sprintf("the same as %q here, where case does not count", other)
			}
			seen[key] = p
		}
		if s.windows && notWindows.MatchString(path.Base(p)) {
			text = `Windows allows no device's name, no control characters, none of <>:"|?*\ and no dot or space at the end`
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
