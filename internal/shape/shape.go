// Package shape describes what both ends of a connection must declare alike, with one line
// for every class, method and field. It finds the first line in which two ends differ. It
// uses no clock, goroutine or lock.
package shape

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/quivernet/quiver/internal/words"
)

const (
	// maxDifference is the maximum length in bytes of the sentence that names a difference.
	// On the wire, a close reason has at most 256 bytes (internal/link).
	maxDifference = 200
	// declaredBy precedes the function that adds a class in the line of the class (see
	// extend.DeclaredBy).
	declaredBy = ", by "
)

// A Shape holds lines of the form "path: what" in declaration order. Two ends with the same
// lines can decode each other's messages.
//
// The order of classes and methods matters, because it determines their numbers on the wire.
// The name of a Go type matters only if the type encodes itself.
type Shape struct{ Lines []string }

// Add adds a line.
func (s *Shape) Add(path, what string) { s.Lines = append(s.Lines, path+": "+what) }

// Class adds the line of a class. declarer is the function that adds the class to a world. It
// is empty if the game itself binds the class.
func (s *Shape) Class(index int, name, declarer string) {
	what := fmt.Sprintf("class %d", index)
	if declarer != "" {
		what += declaredBy + declarer
	}
	s.Add(name, what)
}

// Hash returns a digest of all lines, which the ends compare in their Hellos.
func (s *Shape) Hash() [32]byte { return sha256.Sum256([]byte(strings.Join(s.Lines, "\n"))) }

// Mismatch returns the number of classes at a client and at its server, and their first
// difference. Its arguments are those of Difference.
func Mismatch(client, server []string, cut bool) string {
	more := ""
	if cut {
		more = " or more"
	}
	return fmt.Sprintf("%s at the client, %d%s at the server: %s",
		words.Plural(classes(client), "class", "classes"), classes(server), more, Difference(client, server, cut))
}

// classes counts the classes of a shape.
func classes(lines []string) (n int) {
	for _, line := range lines {
		if isClass(line) {
			n++
		}
	}
	return n
}

// Difference returns the first difference between a client's lines and the lines received
// from its server. cut says whether the server has more lines than these.
func Difference(client, server []string, cut bool) string {
	if cut && len(client) > len(server) {
		client = client[:len(server)]
	}
	if d := diff(client, server); d != "" {
		return d
	}
	return fmt.Sprintf("they differ after the first %d methods and fields", len(server))
}

// diff returns the first difference, or "" if there is none.
func diff(client, server []string) string {
	for i, line := range client {
		if i == len(server) {
			return Clip(missing(line, "client", "server"))
		}
		if line != server[i] {
			return Clip(differ(client[i:], server[i:]))
		}
	}
	if len(server) > len(client) {
		return Clip(missing(server[len(client)], "server", "client"))
	}
	return ""
}

// differ returns the difference between two lists of lines whose first lines differ.
func differ(client, server []string) string {
	path, what, _ := strings.Cut(client[0], ": ")
	serverPath, serverWhat, _ := strings.Cut(server[0], ": ")
	switch {
	case path == serverPath && isState(what) && isState(serverWhat): // the fields say more than their number
		if d := diff(below(client), below(server)); d != "" {
			return d
		}
		fallthrough
	case path == serverPath:
		return fmt.Sprintf("%s is %q at the client and %q at the server", path, what, serverWhat)
	case !names(server, path):
		return missing(client[0], "client", "server")
	case !names(client, serverPath):
		return missing(server[0], "server", "client")
	}
	return fmt.Sprintf("%q stands at the client where %q stands at the server", client[0], server[0])
}

// missing says that one end has a line and the other end lacks it.
func missing(line, has, lacks string) string {
	class, _, _ := strings.Cut(line, ": ")
	switch _, call, declared := strings.Cut(line, declaredBy); {
	case isClass(line) && declared:
		return fmt.Sprintf("%s was called at the %s and not at the %s (%q)", call, has, lacks, line)
	case isClass(line):
		return fmt.Sprintf("the world of the %s has class %q and that of the %s has not: "+
			"Bind it there, or name it in Config.Classes", has, class, lacks)
	}
	return fmt.Sprintf("%q is missing at the %s", line, lacks)
}

// isClass reports whether a line describes a class, rather than a method or a field. Names
// contain no colon.
func isClass(line string) bool {
	_, what, _ := strings.Cut(line, ": ")
	return strings.HasPrefix(what, "class ")
}

// isState reports whether what comes from the line of a state. It contains the number of the
// state's fields, whose lines follow.
func isState(what string) bool { return strings.HasPrefix(what, "state of ") }

// below returns the lines of everything inside the first line's path.
func below(lines []string) []string {
	path, _, _ := strings.Cut(lines[0], ": ")
	n := 1
	for n < len(lines) && strings.HasPrefix(lines[n], path+".") {
		n++
	}
	return lines[1:n]
}

// names reports whether one of the lines has this path.
func names(lines []string, path string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, path+": ")
	})
}

// Clip shortens a sentence to fit into a log record and a close reason. The sentence may
// contain the peer's text.
func Clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	return words.Cut(s, maxDifference)
}
