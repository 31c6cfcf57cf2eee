package tree

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// ErrNames means that this system cannot hold some names of a save, or takes two for one.
var ErrNames = errors.New("this system cannot hold some names")

// notWindows fits what Windows refuses, drops the end of, or takes for a device, with any extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]|[. ]$|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// checkNames fails with [ErrNames] when Windows cannot hold every path of m. Names that are too long, or that the file
// system takes for others of the save, fail when they are staged.
func checkNames(m *manifest.Manifest) error {
	var problems []string
	for i := range m.Entries[1:] {
		if p := m.Entries[i+1].Path; notWindows.MatchString(path.Base(p)) {
			problems = append(problems, fmt.Sprintf("%q", p))
		}
	}
	if n := len(problems); n > 0 {
		return fmt.Errorf("%w, %d of them: %s", ErrNames, n, strings.Join(problems[:min(n, 3)], ", "))
	}
	return nil
}
