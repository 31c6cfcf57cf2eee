package codec

import "fmt"

// copies finds parts that could never be encoded. msgpack encodes some types only through
// their address, but the keys and values of a map are copies without one. The map holds the
// places already checked.
type copies map[place]bool

// place is a schema, together with whether it is inside a map.
type place struct {
	schema *schema
	copied bool // in a map, so the value has no address
}

// check returns an error that names a part of s that lacks the address it needs. path is the
// place of s in the outermost type, for the error. copied is true if s is in a map.
func (c copies) check(s *schema, path string, copied bool) error {
	if c[place{s, copied}] {
		return nil
	}
	c[place{s, copied}] = true
	if s.addressed && copied {
		return fmt.Errorf("%s: in a map %v cannot be written, for it has no address there: use pointers to it", path, s.typ)
	}
	inMap := s.form == formMap || copied && (s.form == formStruct || s.form == formArray)
	for suffix, part := range s.parts {
		if s.form == formPointer {
			suffix = "" // Go needs no star to reach the fields of the element
		}
		if err := c.check(part, path+suffix, inMap); err != nil {
			return err
		}
	}
	return nil
}
