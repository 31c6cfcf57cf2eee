package codec

import "fmt"

// An addressCheck finds parts that could never be encoded. msgpack encodes some types only through
// their address, but the keys and values of a map are copies without one. The map holds what has
// been checked already.
type addressCheck map[occurrence]bool

// An occurrence is a schema, together with whether it is inside a map.
type occurrence struct {
	schema *schema
	copied bool // in a map, so the value has no address
}

// check returns an error that names a part of s that lacks the address it needs. path is the
// place of s in the outermost type, for the error. copied is true if s is in a map.
func (c addressCheck) check(s *schema, path string, copied bool) error {
	if c[occurrence{s, copied}] {
		return nil
	}
	c[occurrence{s, copied}] = true
	if s.needsAddress && copied {
		return fmt.Errorf("%s: %v cannot be encoded in a map, where it has no address: use pointers to it", path, s.typ)
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
