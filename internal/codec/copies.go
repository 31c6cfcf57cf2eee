package codec

import "fmt"

// copies finds parts that could never be written: msgpack writes some types only by their address, but keys and values of a map are
// copies without an address. It holds the places that were checked.
type copies map[place]bool

// place is a schema inside of a map, or outside.
type place struct {
	schema *schema
	copied bool // inside: the value has no address
}

// check returns an error that names a part of s without the address that it needs; s stands at path, and copied says that it is in a map.
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
			suffix = "" // Go needs no star to reach the fields behind it
		}
		if err := c.check(part, path+suffix, inMap); err != nil {
			return err
		}
	}
	return nil
}
