package codec

import "slices"

// maxLines is the most lines of a type's outline, which grows exponentially
// with types that contain each other several times.
const maxLines = 1024

// outline collects lines of the form "path: name".
type outline struct {
	lines []string
	open  []*schema // from the type down to the current part, to detect a recursive type
	paths []string  // the path of each of open
}

// outlineOf returns a line for each part of v, whose own path is path. It stops
// soon after maxLines.
func outlineOf(v *schema, path string) []string {
	var s outline
	s.inside(path, v)
	return s.lines
}

// inside adds lines for the parts of v, after that of v itself.
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
