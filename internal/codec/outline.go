package codec

import "slices"

// maxLines bounds the outline of one type, which grows exponentially with types that nest one another several times.
const maxLines = 1024

// outline collects lines of the form "path: what".
type outline struct {
	lines []string
	open  []*schema // from the type down to here; a recursive type is among them already
	paths []string  // where each of open stands
}

// outlineOf returns a line for each part of v, which stands at path itself. It stops soon after maxLines.
func outlineOf(v *schema, path string) []string {
	var s outline
	s.inside(path, v)
	return s.lines
}

// inside adds lines for the parts of v; that of v itself is there already.
func (s *outline) inside(path string, v *schema) {
	if v == nil || len(s.lines) > maxLines {
		return
	}
	s.open, s.paths = append(s.open, v), append(s.paths, path)
	for suffix, part := range v.parts {
		at := path + suffix
		if i := slices.Index(s.open, part); i >= 0 {
			s.lines = append(s.lines, at+": as "+s.paths[i])
			continue
		}
		s.lines = append(s.lines, at+": "+part.name)
		s.inside(at, part)
	}
	s.open, s.paths = s.open[:len(s.open)-1], s.paths[:len(s.paths)-1]
}
