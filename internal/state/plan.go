package state

import (
	"cmp"
	"fmt"
	"reflect"
)

// MaxFields limits the fields of a state, since a [Mask] has one bit for each.
const MaxFields = 64

// MaxField limits the size of an encoded field in bytes, so that a message with any one field fits
// into the smallest datagram.
const MaxField = 1000

// A Plan encodes and decodes the values of one struct type, field by field. It is immutable
// and safe for concurrent use.
type Plan struct {
	typ        reflect.Type
	fields     []field
	comparable bool // see Comparable

	// What a new Shadow starts from.
	zero []byte   // encoding of the zero value
	ends []uint16 // offset of the end of each field in zero
}

// Field describes one field of a plan.
type Field struct {
	Name      string
	Condition Condition
	Custom    string // name of a Custom condition
	Reference bool   // the field is or holds a reference to an actor
}

// A field is what a plan knows about one field of its struct.
type field struct {
	Field
	path  string // names the field in errors
	index int    // index in the struct, which may also have blank fields
	form  form
}

// Compile makes the plan of the struct type t. If a field cannot be replicated, the error names it
// and says what to do instead. reference is the type of references to actors, a uint64, or nil if
// there are none.
func Compile(t, reference reflect.Type) (*Plan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v: a state is a struct, by value", t)
	}
	if reference != nil && reference.Kind() != reflect.Uint64 {
		return nil, fmt.Errorf("%v: a reference is a uint64", reference)
	}
	p := &Plan{typ: t, comparable: t.Comparable()}
	for f := range t.Fields() {
		if blank(f) {
			continue
		}
		if err := p.add(f, reference); err != nil {
			return nil, err
		}
	}
	if n := len(p.fields); n == 0 || n > MaxFields {
		return nil, fmt.Errorf("%s: it has %d fields, a state has 1 to %d; structs inside of it count as one",
			nameOf(t), n, MaxFields)
	}
	return p, p.encodeZero()
}

// add compiles one field and appends it to the plan.
func (p *Plan) add(f reflect.StructField, reference reflect.Type) error {
	c := compiler{reference: reference, open: []reflect.Type{p.typ}}
	path := nameOf(p.typ) + "." + f.Name
	made, tag, err := c.field(f, path, nil)
	if err != nil {
		return err
	}
	if n := made.most(); n > MaxField {
		return fmt.Errorf("%s: it may take %s bytes, a field at most %d; bound it lower, split it, or use a list",
			path, sizeOf(n), MaxField)
	}
	p.fields = append(p.fields, field{
		Field: Field{Name: f.Name, Condition: tag.condition, Custom: tag.custom, Reference: c.refers},
		path:  path,
		index: f.Index[0],
		form:  made,
	})
	return nil
}

// encodeZero encodes the zero value, which is a Shadow's first content.
func (p *Plan) encodeZero() (err error) {
	zero := reflect.Zero(p.typ)
	for i := range p.fields {
		if p.zero, err = p.Append(p.zero, zero, i); err != nil {
			return err
		}
		p.ends = append(p.ends, uint16(len(p.zero))) // MaxFields of MaxField bytes fit
	}
	return nil
}

// Type returns the type of the struct.
func (p *Plan) Type() reflect.Type { return p.typ }

// Fields returns the number of fields, from 1 to MaxFields.
func (p *Plan) Fields() int { return len(p.fields) }

// Field returns the description of field i.
func (p *Plan) Field(i int) Field { return p.fields[i].Field }

// Most returns the maximum size in bytes of all fields together.
func (p *Plan) Most() (n int) {
	for _, f := range p.fields {
		n += f.form.most()
	}
	return n
}

// All returns the set of all fields.
func (p *Plan) All() Mask { return 1<<len(p.fields) - 1 }

// Lines returns one line for each field, with everything on which both ends must agree. Two ends
// can decode each other's values if their lines are equal.
func (p *Plan) Lines() []string {
	lines := make([]string, len(p.fields))
	for i, f := range p.fields {
		lines[i] = fmt.Sprintf("%s: %v", f.Name, f.form)
		switch f.Condition {
		case None:
			// The form says it all.
		case Custom:
			lines[i] += fmt.Sprintf(", if %q", f.Custom)
		default:
			lines[i] += fmt.Sprintf(", %v", f.Condition)
		}
	}
	return lines
}

// Comparable reports whether the owner may compare two values, with == or byte by byte in memory,
// instead of their encodings. It is false if the type contains slices. By ==, a float that changes
// between 0 and -0 remains the same, although its encoding differs if it has no quant.
func (p *Plan) Comparable() bool { return p.comparable }

// Append appends field i of the struct v.
//
// If a string or slice exceeds its bound or a string is not UTF-8, it returns b unchanged and an
// error that names the field. Numbers can always be encoded, because those outside a range or
// quant are clamped.
func (p *Plan) Append(b []byte, v reflect.Value, i int) ([]byte, error) {
	f := &p.fields[i]
	longer, err := f.form.append(b, v.Field(f.index))
	if err != nil {
		return b, f.failed(err)
	}
	return longer, nil
}

// Read decodes field i from the start of b into the settable struct v and returns the rest of
// b.
//
// It accepts only what Append produces, and allocates no memory for data that b does not contain.
// Strings and slices don't alias b. After an error, the field may be partly filled in.
func (p *Plan) Read(b []byte, v reflect.Value, i int) (rest []byte, err error) {
	f := &p.fields[i]
	return f.read(b, v.Field(f.index))
}

// Skip skips field i at the start of b. It accepts what Read accepts.
func (p *Plan) Skip(b []byte, i int) (rest []byte, err error) {
	return p.fields[i].read(b, reflect.Value{}) // forms check the field but set nothing
}

// References calls visit for every reference in the struct v that is not 0.
func (p *Plan) References(v reflect.Value, visit func(id uint64)) {
	for i := range p.fields {
		if f := &p.fields[i]; f.Reference {
			f.form.references(v.Field(f.index), visit)
		}
	}
}

// read decodes the field into v.
func (f *field) read(b []byte, v reflect.Value) (rest []byte, err error) {
	if rest, err = f.form.read(b, v); err != nil {
		return nil, f.failed(err)
	}
	return rest, nil
}

// failed adds the field's path to err.
func (f *field) failed(err error) error { return fmt.Errorf("%s: %w", f.path, err) }

// nameOf returns the name of t in errors.
func nameOf(t reflect.Type) string { return cmp.Or(t.Name(), "struct") }

// sizeOf returns a size in bytes for errors.
func sizeOf(n int) string {
	if n >= endless {
		return "any number of"
	}
	return fmt.Sprint(n)
}
