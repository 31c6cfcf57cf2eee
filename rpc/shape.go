package rpc

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"

	"github.com/quivernet/quiver/bunch"
)

// Limits of shapes.
const (
	// maxArgumentLines bounds the shape of one argument, which grows exponentially with types that nest one another
	// several times.
	maxArgumentLines = 1024
	// maxShapeBytes is how much of it a server sends to a client that differs, so that it fits one message.
	maxShapeBytes = 48 << 10
	// maxDifference bounds the sentence that names a difference, so that it fits a close reason.
	maxDifference = 200
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
type outline struct {
	lines []string
	open  []*schema // on the way from the argument to here; a recursive type meets itself in it
	paths []string  // of open

	bounded bool // stop soon after maxArgumentLines
}

// outlined reports an argument with too many fields for a shape.
func outlined(c *codec) error {
	s := outline{bounded: true}
	s.inside("", c.schema)
	if len(s.lines) > maxArgumentLines {
		return fmt.Errorf("it has more than %d fields, nested ones included", maxArgumentLines)
	}
	return nil
}

func (s *outline) line(path, what string) {
	s.lines = append(s.lines, path+": "+what)
}

func (s *outline) class(index int, c *Class) {
	s.line(c.name, fmt.Sprintf("class %d", index))
	for _, m := range c.methods {
		s.line(m.String(), fmt.Sprintf("%v, %s, %s", m.kind, deliveryName(m.delivery), m.codec.name))
		s.inside(m.String(), m.codec.schema)
	}
	for _, v := range c.carried {
		codec, _ := codecOf(v.arg) // Carries has tried it
		s.line(c.name+"."+v.name, "carried, "+codec.name)
		s.inside(c.name+"."+v.name, codec.schema)
	}
}

// inside adds what v consists of; the line of v itself is there already.
func (s *outline) inside(path string, v *schema) {
	if v == nil || len(s.lines) > maxArgumentLines && s.bounded {
		return
	}
	s.open, s.paths = append(s.open, v), append(s.paths, path)
	switch v.form {
	case formStruct:
		for _, f := range v.fields {
			s.part(path+"."+f.name, f.schema)
		}
	case formSlice, formArray:
		s.part(path+"[]", v.elem)
	case formPointer:
		s.part(path+"*", v.elem)
	case formMap:
		s.part(path+"[key]", v.key)
		s.part(path+"[value]", v.elem)
	}
	s.open, s.paths = s.open[:len(s.open)-1], s.paths[:len(s.paths)-1]
}

func (s *outline) part(path string, v *schema) {
	for i, outer := range s.open {
		if outer == v {
			s.line(path, "as "+s.paths[i])
			return
		}
	}
	s.line(path, v.name)
	s.inside(path, v)
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

// diffShape names the first difference between our lines and the peer's, which come from the wire; "" = none.
func diffShape(ours, theirs []string) string {
	for i, our := range ours {
		if i == len(theirs) {
			return clip(fmt.Sprintf("%q is missing there", our))
		}
		if our != theirs[i] {
			return clip(differ(our, theirs[i], ours[i:], theirs[i:]))
		}
	}
	if len(theirs) > len(ours) {
		return clip(fmt.Sprintf("%q is missing here", theirs[len(ours)]))
	}
	return ""
}

// differ compares two lines that stand at the same place, with all that follows them on both sides.
func differ(our, their string, ours, theirs []string) string {
	path, what, _ := strings.Cut(our, ": ")
	theirPath, theirWhat, _ := strings.Cut(their, ": ")
	switch {
	case path == theirPath:
		return fmt.Sprintf("%s is %q here and %q there", path, what, theirWhat)
	case !names(theirs, path):
		return fmt.Sprintf("%q is missing there", our)
	case !names(ours, theirPath):
		return fmt.Sprintf("%q is missing here", their)
	}
	return fmt.Sprintf("%q stands here where %q stands there", our, their)
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
