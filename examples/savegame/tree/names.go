package tree

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// ErrNames means that this system cannot hold some names of a save, or would change them. Nothing was written.
var ErrNames = errors.New("this system cannot hold some names")

// notWindows fits what Windows refuses, drops the end of, or takes for a device, with any extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]|[. ]$|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// checkNames fails with [ErrNames] on Windows, or where upper and lower case are the same, when these cannot hold every
// path of m. A name that is too long fails when it is staged.
func checkNames(m *manifest.Manifest, windows, folds bool) error {
	var problems []string
	seen := make(map[string]string)
	for i := range m.Entries[1:] {
		p := m.Entries[i+1].Path
		key := strings.ToLower(strings.ToUpper(p)) // upper first: ſ and s, K and k are the same
		other, twice := seen[key]
		seen[key] = p
		switch {
		case windows && notWindows.MatchString(path.Base(p)):
			problems = append(problems, fmt.Sprintf("%q: Windows has no such name", p))
		case folds && twice:
			problems = append(problems, fmt.Sprintf("%q: it is the same as %q here", p, other))
		}
	}
	if n := len(problems); n > 0 {
		return fmt.Errorf("%w, %d of them: %s", ErrNames, n, strings.Join(problems[:min(n, 3)], "; "))
	}
	return nil
}
