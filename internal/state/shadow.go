package state

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
)

// Shadow is what a value's fields looked like when they were last encoded. It belongs to one plan, that of its first
// Update, before which it is empty; its zero value is ready to use.
type Shadow struct {
	encoded []byte   // the fields in a row; behind them is room to encode one more
	ends    []uint16 // of each field in encoded
}

// Update encodes the struct v, keeps what is new and returns the fields that are: all at first. A field that can not be
// encoded is named by the error, and stays what it was: its zero value at first. In steady state Update takes no memory.
func (s *Shadow) Update(p *Plan, v reflect.Value) (changed Mask, err error) {
	if s.ends == nil {
		s.encoded, s.ends, changed = slices.Clone(p.zero), slices.Clone(p.ends), p.all
	}
	for i := range p.fields {
		f, whole := &p.fields[i], len(s.encoded)
		longer, failed := f.form.append(s.encoded, v.Field(f.index))
		if failed != nil {
			err = errors.Join(err, f.failed(failed))
			continue
		}
		if s.encoded = longer; s.keep(i, whole) {
			changed |= 1 << i
		}
	}
	return changed, err
}

// Differs reports whether Update would return fields.
func (s *Shadow) Differs(p *Plan, v reflect.Value) bool {
	if s.ends == nil {
		return true
	}
	for i := range p.fields {
		f, whole := &p.fields[i], len(s.encoded)
		longer, failed := f.form.append(s.encoded, v.Field(f.index))
		if failed != nil {
			continue
		}
		s.encoded = longer[:whole]
		if start, end := s.span(i); !bytes.Equal(longer[start:end], longer[whole:]) {
			return true
		}
	}
	return false
}

// keep makes what stands behind the first whole bytes the encoding of field i, and reports whether that is another one.
func (s *Shadow) keep(i, whole int) (changed bool) {
	start, end := s.span(i)
	fresh := s.encoded[whole:]
	s.encoded = s.encoded[:whole]
	old := s.encoded[start:end]
	if bytes.Equal(old, fresh) {
		return false
	}
	if len(old) == len(fresh) {
		copy(old, fresh)
		return true
	}
	s.encoded = slices.Replace(s.encoded, start, end, fresh...)
	for grown := len(fresh) - len(old); i < len(s.ends); i++ {
		s.ends[i] = uint16(int(s.ends[i]) + grown)
	}
	return true
}

// span returns where in encoded field i is.
func (s *Shadow) span(i int) (start, end int) {
	if i > 0 {
		start = int(s.ends[i-1])
	}
	return start, int(s.ends[i])
}

// Append appends these fields, as they were last encoded, in the order of their index. An Update comes before.
func (s *Shadow) Append(b []byte, fields Mask) []byte {
	for i := range fields.Each {
		start, end := s.span(i)
		b = append(b, s.encoded[start:end]...)
	}
	return b
}

// Size returns how many bytes Append would append.
func (s *Shadow) Size(fields Mask) (n int) {
	for i := range fields.Each {
		start, end := s.span(i)
		n += end - start
	}
	return n
}
