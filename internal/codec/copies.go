package codec

import "fmt"

// copies finds parts that could never be encoded: msgpack encodes some types
// only through their address, but keys and values of a map are copies without
// one. It holds the places that were checked.
type copies map[place]bool

// place is a schema, and whether it is inside of a map.
type place struct {
	schema *schema
	copied bool // in a map, so the value has no address
}

// check returns an error that names a part of s without the address that it
// needs. path is where s is, for the error; copied is whether it is in a map.
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
