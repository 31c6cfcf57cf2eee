package codec

import (
	"fmt"
	"slices"
)

// maxLines bounds the outline of one type, which grows exponentially with types that nest one another several times.
const maxLines = 1024

// outline collects lines of the form "path: what".
type outline struct {
	lines []string
	open  []*schema // from the type down to here; a recursive type is among them already
	paths []string  // where each of open stands

	bounded bool // stop soon after maxLines
}

// outlined refuses a type with too many fields for a shape.
func outlined(c *Codec) error {
	s := outline{bounded: true}
	s.inside("", c.schema)
	if len(s.lines) > maxLines {
		return fmt.Errorf("it has more than %d fields, nested ones included", maxLines)
	}
	return nil
}

func (s *outline) line(path, what string) {
	s.lines = append(s.lines, path+": "+what)
}

// inside adds lines for the parts of v; that of v itself is there already.
func (s *outline) inside(path string, v *schema) {
	if v == nil || len(s.lines) > maxLines && s.bounded {
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
	if i := slices.Index(s.open, v); i >= 0 {
		s.line(path, "as "+s.paths[i])
		return
	}
	s.line(path, v.name)
	s.inside(path, v)
}
