package codec

import "slices"

// maxLines is the maximum number of lines in a type's outline. The outline grows
// exponentially with types that contain each other several times.
const maxLines = 1024

// An outline collects lines of the form "path: name".
type outline struct {
	lines     []string
	enclosing []*schema // schemas from the type down to the current part, to detect recursion
	paths     []string  // paths of the schemas in enclosing
}

// outlineOf returns a line for each part of v, whose own path is path. It stops soon after
// maxLines.
func outlineOf(v *schema, path string) []string {
	var s outline
	s.addParts(path, v)
	return s.lines
}

// addParts adds a line for each part of v, but not for v itself.
func (s *outline) addParts(path string, v *schema) {
	if v == nil || len(s.lines) > maxLines {
		return
	}
	s.enclosing = append(s.enclosing, v)
	s.paths = append(s.paths, path)
	for suffix, part := range v.parts {
		at := path + suffix
		if i := slices.Index(s.enclosing, part); i >= 0 {
			s.lines = append(s.lines, at+": as "+s.paths[i])
			continue
		}
		s.lines = append(s.lines, at+": "+part.name)
		s.addParts(at, part)
	}
	s.enclosing = s.enclosing[:len(s.enclosing)-1]
	s.paths = s.paths[:len(s.paths)-1]
}
