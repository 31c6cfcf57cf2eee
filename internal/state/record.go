package state

import (
	"fmt"
	"reflect"
	"strings"
)

// A record is the form of a struct inside a field. It has at least one field.
type record struct {
	fields []part
}

// A part is one field of a record.
type part struct {
	name  string
	index int // in the struct
	form  form
}

func (f *record) append(b []byte, v reflect.Value) (_ []byte, err error) {
	for _, p := range f.fields {
		if b, err = p.form.append(b, v.Field(p.index)); err != nil {
			return b, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return b, nil
}

func (f *record) read(b []byte, v reflect.Value) (_ []byte, err error) {
	for _, p := range f.fields {
		inside := v
		if v.IsValid() {
			inside = v.Field(p.index)
		}
		if b, err = p.form.read(b, inside); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return b, nil
}

func (f *record) references(v reflect.Value, visit func(uint64)) {
	for _, p := range f.fields {
		p.form.references(v.Field(p.index), visit)
	}
}

func (f *record) minSize() int { return f.sum(form.minSize) }
func (f *record) maxSize() int { return f.sum(form.maxSize) }

// sum returns the sum of size over all fields.
func (f *record) sum(size func(form) int) (n int) {
	for _, p := range f.fields {
		n = min(n+size(p.form), maxFormSize)
	}
	return n
}

func (f *record) String() string {
	var parts []string
	for _, p := range f.fields {
		parts = append(parts, fmt.Sprintf("%s: %v", p.name, p.form))
	}
	return "struct{" + strings.Join(parts, "; ") + "}"
}
