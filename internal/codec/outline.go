package codec

import "slices"

// maxLines is the maximum number of lines in a type's outline. The outline grows
// exponentially with types that contain each other several times.
const maxLines = 1024

// outline collects lines of the form "path: name".
type outline struct {
	lines []string
	open  []*schema // schemas from the type down to the current part, to detect recursion
	paths []string  // paths of the schemas in open
}

// outlineOf returns a line for each part of v, whose own path is path. It stops soon after
// maxLines.
func outlineOf(v *schema, path string) []string {
	var s outline
	s.inside(path, v)
	return s.lines
}

// inside adds a line for each part of v. The line of v itself is already there.
func (s *outline) inside(path string, v *schema) {
	if v == nil || len(s.lines) > maxLines {
		return
	}
	s.open = append(s.open, v)
	s.paths = append(s.paths, path)
	for suffix, part := range v.parts {
		at := path + suffix
		if i := slices.Index(s.open, part); i >= 0 {
			s.lines = append(s.lines, at+": as "+s.paths[i])
			continue
		}
		s.lines = append(s.lines, at+": "+part.name)
		s.inside(at, part)
	}
	s.open = s.open[:len(s.open)-1]
	s.paths = s.paths[:len(s.paths)-1]
}
