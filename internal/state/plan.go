package state

import (
	"cmp"
	"fmt"
	"reflect"
)

// MaxFields is the maximum number of fields of a state, since a [Mask] has one bit for each.
const MaxFields = 64

// MaxFieldBytes is the maximum size of an encoded field, so that a message with any one field fits
// into the smallest datagram.
const MaxFieldBytes = 1000

// A Plan encodes and decodes the values of one struct type, field by field. It is immutable
// and safe for concurrent use.
type Plan struct {
	typ        reflect.Type
	fields     []compiledField
	canCompare bool // returned by Comparable

	// What a new Shadow starts from.
	zero []byte   // encoding of the zero value
	ends []uint16 // offset of the end of each field in zero
}

// Field describes one field of a plan.
type Field struct {
	Name      string
	Condition Condition
	Custom    string // name of a Custom condition
	Reference bool   // the field is or contains a reference to an actor
}

// A compiledField is what a plan knows about one field of its struct.
type compiledField struct {
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
		return nil, fmt.Errorf("%v: state must be a struct type", t)
	}
	if reference != nil && reference.Kind() != reflect.Uint64 {
		return nil, fmt.Errorf("%v: reference type must be a uint64", reference)
	}
	p := &Plan{typ: t, canCompare: t.Comparable()}
	for f := range t.Fields() {
		if isBlank(f) {
			continue
		}
		if err := p.add(f, reference); err != nil {
			return nil, err
		}
	}
	if n := len(p.fields); n == 0 || n > MaxFields {
		return nil, fmt.Errorf("%s: state has %d fields; it must have 1 to %d, where a nested struct counts as one",
			typeName(t), n, MaxFields)
	}
	if err := p.encodeZero(); err != nil {
		return nil, err
	}
	return p, nil
}

// add compiles one field and appends it to the plan.
func (p *Plan) add(f reflect.StructField, reference reflect.Type) error {
	c := compiler{reference: reference, enclosing: []reflect.Type{p.typ}}
	path := typeName(p.typ) + "." + f.Name
	compiled, t, err := c.field(f, path, nil)
	if err != nil {
		return err
	}
	if n := compiled.maxSize(); n > MaxFieldBytes {
		return fmt.Errorf("%s may need %s bytes; the limit for a field is %d: set a lower bound, split it, or use a list",
			path, formatSize(n), MaxFieldBytes)
	}
	p.fields = append(p.fields, compiledField{
		Field: Field{Name: f.Name, Condition: t.condition, Custom: t.custom, Reference: c.hasReference},
		path:  path,
		index: f.Index[0],
		form:  compiled,
	})
	return nil
}

// SetPath sets what names a field in errors. By default, it is the type of the struct and the name
// of the field.
func (p *Plan) SetPath(field int, path string) { p.fields[field].path = path }

// encodeZero encodes the zero value, which is a Shadow's first content.
func (p *Plan) encodeZero() (err error) {
	zero := reflect.Zero(p.typ)
	for i := range p.fields {
		if p.zero, err = p.Append(p.zero, zero, i); err != nil {
			return err
		}
		p.ends = append(p.ends, uint16(len(p.zero))) // can't overflow, even for MaxFields of MaxFieldBytes
	}
	return nil
}

// Type returns the type of the struct.
func (p *Plan) Type() reflect.Type { return p.typ }

// NumFields returns the number of fields, from 1 to MaxFields.
func (p *Plan) NumFields() int { return len(p.fields) }

// Field returns the description of field i.
func (p *Plan) Field(i int) Field { return p.fields[i].Field }

// MaxSize returns the maximum size in bytes of all fields together.
func (p *Plan) MaxSize() (n int) {
	for _, f := range p.fields {
		n += f.form.maxSize()
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
			// Only the form matters.
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
func (p *Plan) Comparable() bool { return p.canCompare }

// Append appends field i of the struct v.
//
// If a string or slice exceeds its bound or a string is not UTF-8, it returns b unchanged and an
// error that names the field. Numbers can always be encoded, because those outside a range or
// quant are clamped.
func (p *Plan) Append(b []byte, v reflect.Value, i int) ([]byte, error) {
	f := &p.fields[i]
	longer, err := f.form.append(b, v.Field(f.index))
	if err != nil {
		return b, f.wrap(err)
	}
	return longer, nil
}

// Read decodes field i from the start of b into the settable struct v and returns the rest of b.
//
// It accepts only what Append produces, and allocates no memory for data that b doesn't contain.
// Strings and slices don't alias b. After an error, the field may be partly filled in.
func (p *Plan) Read(b []byte, v reflect.Value, i int) (rest []byte, err error) {
	f := &p.fields[i]
	return f.read(b, v.Field(f.index))
}

// Skip skips field i at the start of b. It accepts what Read accepts.
func (p *Plan) Skip(b []byte, i int) (rest []byte, err error) {
	return p.fields[i].read(b, reflect.Value{}) // given no value, a form only checks the encoding
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
func (f *compiledField) read(b []byte, v reflect.Value) (rest []byte, err error) {
	if rest, err = f.form.read(b, v); err != nil {
		return nil, f.wrap(err)
	}
	return rest, nil
}

// wrap adds the field's path to err.
func (f *compiledField) wrap(err error) error { return fmt.Errorf("%s: %w", f.path, err) }

// typeName returns the name of t in errors.
func typeName(t reflect.Type) string { return cmp.Or(t.Name(), "struct") }

// formatSize formats the size of a form for errors.
func formatSize(n int) string {
	if n >= maxFormSize {
		return fmt.Sprintf("%d or more", maxFormSize)
	}
	return fmt.Sprint(n)
}
