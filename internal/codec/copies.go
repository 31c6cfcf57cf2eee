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
func (c copies) check(s *schema, path string, copied bool) (err error) {
	if s == nil || c[place{s, copied}] {
		return nil
	}
	c[place{s, copied}] = true
	if s.addressed && copied {
		return fmt.Errorf("%s: in a map %v cannot be written, for it has no address there: use pointers to it", path, s.typ)
	}
	switch s.form {
	case formMap:
		if err = c.check(s.key, path+"[key]", true); err == nil {
			err = c.check(s.elem, path+"[value]", true)
		}
	case formPointer:
		err = c.check(s.elem, path, false)
	case formSlice:
		err = c.check(s.elem, path+"[]", false)
	case formArray:
		err = c.check(s.elem, path+"[]", copied)
	case formStruct:
		for _, f := range s.fields {
			if err = c.check(f.schema, path+"."+f.name, copied); err != nil {
				break
			}
		}
	}
	return err
}
