package versions

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const (
	// MaxName bounds the name of a save, a user or a machine in bytes: three times as many fit an element of a key.
	MaxName = 79
	// maxMachine bounds what the name of a kept conflict has of a machine's.
	maxMachine = 20
)

// ErrName means that a name cannot be a save's, a user's or a machine's.
var ErrName = errors.New("bad name")

var goodName = regexp.MustCompile(`^[\pL\pM\p{Nd}_()]([\pL\pM\p{Nd} ._()-]*[\pL\pM\p{Nd}_()-])?$`)

// CheckName reports why a name can not be a save's, a user's or a machine's: it has letters, digits, spaces and ._-() of
// which neither a dot, a dash nor a space begins it and neither a dot nor a space ends it. Large and small letters differ.
func CheckName(name string) error {
	if len(name) > MaxName || !goodName.MatchString(name) {
		return fmt.Errorf("%w %.80q: one has 1 to %d bytes of letters, digits, spaces and ._-(), begins with no dot, dash or space, and ends with no dot or space",
			ErrName, name, MaxName)
	}
	return nil
}

// escaped are the characters that escape writes as their bytes in hex.
var escaped = regexp.MustCompile(`[^a-z0-9._-]+`)

// escape writes a name as an element of a key, which no file system takes for another one or for a device.
func escape(name string) string {
	return "_" + escaped.ReplaceAllStringFunc(name, func(s string) string {
		return strings.ReplaceAll(fmt.Sprintf(" % x", s), " ", "=")
	})
}

// unescape returns the name that escape wrote so.
func unescape(element string) (name string, ok bool) {
	name, err := url.PathUnescape(strings.ReplaceAll(strings.TrimPrefix(element, "_"), "=", "%"))
	return name, err == nil && CheckName(name) == nil && escape(name) == element
}

// aside begins the names under which KeepBoth keeps what a machine puts beside name; the time ends it, see asideAt.
func aside(name, machine string) string {
	const rest = len(" (conflict  2006-01-02 15.04.05)")
	machine = cut(machine, maxMachine)
	return fmt.Sprintf("%s (conflict %s ", cut(name, MaxName-rest-len(machine)), machine)
}

func asideAt(name, machine string, now time.Time) string {
	return aside(name, machine) + now.UTC().Format("2006-01-02 15.04.05") + ")"
}

// cut returns the begin of a name, of at most so many bytes, and no half rune.
func cut(name string, most int) string {
	return strings.TrimRight(strings.ToValidUTF8(name[:min(len(name), most)], ""), " ")
}
