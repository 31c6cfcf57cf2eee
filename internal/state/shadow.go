package state

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
)

// A Shadow holds the last encoding of each field of a value, to find out which fields have
// changed.
//
// Update appends the new encoding of a field after those of all fields and compares it with the
// last one, which it replaces only if they differ. In most ticks, the value hasn't changed, so
// nothing is copied or allocated.
//
// The zero Shadow is empty and ready to use. All calls must use the plan of the first Update. A
// Shadow is not safe for concurrent use.
type Shadow struct {
	encoded []byte   // the encoded fields, back to back, with spare capacity for one more
	ends    []uint16 // offset of the end of each field in encoded
}

// Update encodes the struct v and returns the fields whose encoding has changed since the
// last Update. The first Update returns all fields.
//
// The error names fields that cannot be encoded. These keep their last encoding, or that of the
// zero value if they never had one. In steady state, Update does not allocate.
func (s *Shadow) Update(p *Plan, v reflect.Value) (changed Mask, err error) {
	if s.ends == nil {
		s.encoded = slices.Clone(p.zero)
		s.ends = slices.Clone(p.ends)
		changed = p.All()
	}
	for i := range p.fields {
		length := len(s.encoded)
		longer, failure := p.Append(s.encoded, v, i)
		if failure != nil {
			err = errors.Join(err, failure)
			continue
		}
		s.encoded = longer
		if s.store(i, length) {
			changed |= 1 << i
		}
	}
	return changed, err
}

// Differs reports whether Update would return any field, without storing the new encoding.
func (s *Shadow) Differs(p *Plan, v reflect.Value) bool {
	if s.ends == nil {
		return true
	}
	for i := range p.fields {
		f := &p.fields[i]
		length := len(s.encoded)
		longer, failure := f.form.append(s.encoded, v.Field(f.index))
		if failure != nil {
			continue
		}
		s.encoded = longer[:length]
		if start, end := s.span(i); !bytes.Equal(longer[start:end], longer[length:]) {
			return true
		}
	}
	return false
}

// store replaces the encoding of field i with the new one, which Update has appended to the first
// length bytes of encoded. changed says whether the two differ.
func (s *Shadow) store(i, length int) (changed bool) {
	start, end := s.span(i)
	fresh := s.encoded[length:]
	s.encoded = s.encoded[:length]
	old := s.encoded[start:end]
	if bytes.Equal(old, fresh) {
		return false
	}
	if len(old) == len(fresh) {
		copy(old, fresh)
		return true
	}

	// All later fields move.
	s.encoded = slices.Replace(s.encoded, start, end, fresh...)
	for grown := len(fresh) - len(old); i < len(s.ends); i++ {
		s.ends[i] = uint16(int(s.ends[i]) + grown)
	}
	return true
}

// span returns the offsets of the start and end of field i in encoded.
func (s *Shadow) span(i int) (start, end int) {
	if i > 0 {
		start = int(s.ends[i-1])
	}
	return start, int(s.ends[i])
}

// Append appends the last encodings of fields in index order. It must not be called before the
// first Update.
func (s *Shadow) Append(b []byte, fields Mask) []byte {
	for i := range fields.Each {
		start, end := s.span(i)
		b = append(b, s.encoded[start:end]...)
	}
	return b
}

// Size returns the number of bytes that Append appends.
func (s *Shadow) Size(fields Mask) (n int) {
	for i := range fields.Each {
		start, end := s.span(i)
		n += end - start
	}
	return n
}
