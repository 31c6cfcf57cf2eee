package rpc

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
)

// Limits of shapes.
const (
	// maxDifference bounds the sentence that names a difference, so that it fits a close reason.
	maxDifference = 200
	// declaredBy stands in the line of a class before the function that adds it; see guest.DeclaredBy.
	declaredBy = ", by "
)

// shapeOf returns what both ends must agree on, a line for every class, method and field, and the hash over it. The
// order of classes and of their methods counts, names of Go types do not unless they write themselves.
func shapeOf(classes []*Class) (hash [32]byte, lines []string) {
	var s outline
	for i, c := range classes {
		s.class(i, c)
	}
	return sha256.Sum256([]byte(strings.Join(s.lines, "\n"))), s.lines
}

// outline collects lines of the form "path: what".
type outline struct{ lines []string }

func (s *outline) line(path, what string) {
	s.lines = append(s.lines, path+": "+what)
}

func (s *outline) class(index int, c *Class) {
	what := fmt.Sprintf("class %d", index)
	if c.declarer != "" {
		what += declaredBy + c.declarer
	}
	s.line(c.name, what)
	for _, m := range c.methods {
		s.line(m.String(), fmt.Sprintf("%s, %s, %s", m.sort(), deliveryName(m.delivery), m.codec.Name()))
		s.lines = m.codec.AppendOutline(s.lines, m.String())
	}
	for _, d := range c.states {
		s.line(d.String(), fmt.Sprintf("state of %d fields, %s", d.count, kindOf(d)))
		for _, field := range d.plan.Lines() {
			s.lines = append(s.lines, d.String()+"."+field)
		}
	}
}

func kindOf(d *declaredState) string {
	if d.isList() {
		return "a list"
	}
	return "a struct"
}

func deliveryName(d bunch.Delivery) string {
	switch d {
	case Reliable:
		return "Reliable"
	case ReliableUnordered:
		return "ReliableUnordered"
	case Unreliable:
		return "Unreliable"
	}
	return "UnreliableSequenced"
}

// difference names the first difference between our classes and the server's.
func difference(ours []string, theirs control.Shape) string {
	if theirs.Cut && len(ours) > len(theirs.Lines) {
		ours = ours[:len(theirs.Lines)]
	}
	if d := diffShape(ours, theirs.Lines); d != "" {
		return d
	}
	return fmt.Sprintf("they differ after the first %d methods and fields", len(theirs.Lines))
}

// diffShape names the first difference between a client's lines and its server's, which come from the wire; "" = none.
func diffShape(client, server []string) string {
	for i, line := range client {
		if i == len(server) {
			return clip(missing(line, "client", "server"))
		}
		if line != server[i] {
			return clip(differ(client[i:], server[i:]))
		}
	}
	if len(server) > len(client) {
		return clip(missing(server[len(client)], "server", "client"))
	}
	return ""
}

// differ compares the lines from the first that differs on.
func differ(client, server []string) string {
	path, what, _ := strings.Cut(client[0], ": ")
	serverPath, serverWhat, _ := strings.Cut(server[0], ": ")
	switch {
	case path == serverPath:
		return fmt.Sprintf("%s is %q at the client and %q at the server", path, what, serverWhat)
	case !names(server, path):
		return missing(client[0], "client", "server")
	case !names(client, serverPath):
		return missing(server[0], "server", "client")
	}
	return fmt.Sprintf("%q stands at the client where %q stands at the server", client[0], server[0])
}

// missing says that one end has a line and the other has not.
func missing(line, has, lacks string) string {
	class, _, _ := strings.Cut(line, ": ")
	switch _, call, declared := strings.Cut(line, declaredBy); {
	case isClass(line) && declared:
		return fmt.Sprintf("%s was called at the %s and not at the %s (%q)", call, has, lacks, line)
	case isClass(line):
		return fmt.Sprintf("the world of the %s has class %q and that of the %s has not: Bind it there, or name it in Config.Classes", has, class, lacks)
	}
	return fmt.Sprintf("%q is missing at the %s", line, lacks)
}

// isClass reports whether a line is that of a class, not of a method or a field: names have no colon.
func isClass(line string) bool {
	_, what, _ := strings.Cut(line, ": ")
	return strings.HasPrefix(what, "class ")
}

// names reports whether a line has this path.
func names(lines []string, path string) bool {
	for _, line := range lines {
		if p, _, _ := strings.Cut(line, ": "); p == path {
			return true
		}
	}
	return false
}

// clip makes a sentence fit for a log and a close reason, whatever the peer sent.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxDifference {
		return s
	}
	return strings.ToValidUTF8(s[:maxDifference], "") + "…"
}
