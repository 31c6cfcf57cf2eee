package vault

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes bounds a save's name; with it the name fits every file system.
const MaxNameBytes = 100

// ErrName means that a name can not be a save's.
var ErrName = errors.New("bad name")

// CheckName reports why name can not be a save's name, which is a file's name on every system: letters, digits, spaces
// and ._- of which neither a dot, a dash nor a space begins it and neither a dot nor a space ends it.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w %.20q…: %d bytes, the limit is %d", ErrName, name, len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrName, name)
	case strings.ContainsFunc(name, func(r rune) bool { return !allowed(r) }):
		return fmt.Errorf("%w %q: only letters, digits, spaces and ._- are allowed", ErrName, name)
	case strings.ContainsAny(name[:1], ".- "), strings.ContainsAny(name[len(name)-1:], ". "):
		return fmt.Errorf("%w %q: it begins with a dot, dash or space, or ends with a dot or space", ErrName, name)
	case isDevice(name):
		return fmt.Errorf("%w %q: it is a device on Windows", ErrName, name)
	}
	return nil
}

func allowed(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune(" ._-", r)
}

// isDevice reports whether Windows takes the name for a device, with any extension.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	port, isCom := strings.CutPrefix(stem, "COM")
	if !isCom {
		var isLpt bool
		if port, isLpt = strings.CutPrefix(stem, "LPT"); !isLpt {
			return false
		}
	}
	return len(port) == 1 && port >= "0" && port <= "9"
}
