package state

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// A compiler turns the type of one field of a struct into a form, which knows how to encode and
// decode its values.
type compiler struct {
	reference reflect.Type // type of references to actors; nil if there is none

	enclosing    []reflect.Type // structs that contain the type being compiled, to detect recursion
	scalars      int            // scalars in the field so far, each encoded as at least one byte
	hasReference bool           // the field is or contains a reference; becomes Field.Reference
}

// A tagRest holds the items of a field's tag that the enclosing types haven't used.
type tagRest struct {
	bounds []int  // outermost first; bound removes each as it's used, and checkUsed refuses the rest
	scale  *scale // from the field's own tag, or else from that of an enclosing field
	unit   bool
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	emptyType = reflect.TypeFor[struct{}]()
)

// field makes the form of f. path names the field in errors, and outer is the scale of the
// enclosing field.
func (c *compiler) field(f reflect.StructField, path string, outer *scale) (form, tag, error) {
	t, err := parseTag(f)
	if err != nil {
		return nil, t, fmt.Errorf("%s: tag %q: %w", path, t.text, err)
	}
	if !f.IsExported() {
		return nil, t, fmt.Errorf("%s: field is unexported: export it, or move it out of the state", path)
	}
	rest := &tagRest{bounds: t.bounds, scale: cmp.Or(t.scale, outer), unit: t.unit}
	compiled, err := c.form(f.Type, path, rest)
	if err != nil {
		return nil, t, err
	}
	if err := t.checkUsed(rest, f.Type); err != nil {
		return nil, t, fmt.Errorf("%s: tag %q: %w", path, t.text, err)
	}
	return compiled, t, nil
}

// form makes the form of t. path names it in errors. If rest asks for a unit, t may itself be the
// unit, or it may be a slice or an array of units.
func (c *compiler) form(t reflect.Type, path string, rest *tagRest) (form, error) {
	if rest.unit && t.Kind() != reflect.Slice {
		if f, ok := unitForm(t); ok {
			return f, nil
		}
		if t.Kind() != reflect.Array {
			return nil, fmt.Errorf("%s: unit requires three floats in an array or struct, not %v", path, t)
		}
	}
	switch t.Kind() {
	case reflect.Array:
		return c.array(t, path, rest)
	case reflect.Slice:
		return c.list(t, path, rest)
	case reflect.Struct:
		return c.record(t, path, rest)
	}
	c.scalars++
	if c.scalars > MaxFieldBytes {
		return nil, fmt.Errorf("%s: field has more than %d scalars of at least a byte each; the limit for a field is %d bytes: split it",
			path, MaxFieldBytes, MaxFieldBytes)
	}
	f, err := c.scalar(t, rest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// scalar makes the form of a type that contains no other types. Only a string uses a bound, and
// only numbers use a scale.
func (c *compiler) scalar(t reflect.Type, rest *tagRest) (form, error) {
	switch k := t.Kind(); {
	case t == c.reference:
		c.hasReference = true
		return &reference{varint{integerOf(t)}}, nil
	case k == reflect.Bool:
		return boolean{}, nil
	case k >= reflect.Int && k <= reflect.Uint64:
		return intForm(t, rest.scale)
	case isFloat(t):
		return floatForm(t, rest.scale)
	case k == reflect.String:
		bound, err := rest.bound(t)
		return text{bound: bound}, err
	}
	return nil, refuse(t)
}

// intForm makes the form of an int or uint. The range of s applies unless s also has a quantum,
// which makes it a range for floats.
func intForm(t reflect.Type, s *scale) (form, error) {
	switch {
	case s != nil && s.ranged && s.quantum == 0:
		s.used = true
		return newRanged(t, s.low, s.high)
	case t.Bits() == 8:
		return &octet{integerOf(t)}, nil
	}
	return &varint{integerOf(t)}, nil
}

// floatForm makes the form of a float. Without a quantum in s, the float is sent as it is.
func floatForm(t reflect.Type, s *scale) (form, error) {
	if s != nil && s.quantum != 0 {
		s.used = true
		return newQuantized(t, s)
	}
	return float{bits: t.Bits()}, nil
}

// unitForm makes the form of a direction. ok is false unless t consists of three floats of the
// same type. If they are the fields of a struct, their own tags are ignored, because a direction is
// encoded as a whole.
func unitForm(t reflect.Type) (f form, ok bool) {
	var fields []int
	switch {
	case t.Kind() == reflect.Array && t.Len() == 3:
		return &unit{name: t.Elem().Kind().String()}, isFloat(t.Elem())
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	for field := range t.Fields() {
		if isBlank(field) {
			continue
		}
		fields = append(fields, field.Index[0])
		first := t.Field(fields[0]).Type
		if !field.IsExported() || !isFloat(field.Type) || field.Type.Kind() != first.Kind() {
			return nil, false
		}
	}
	if len(fields) != 3 {
		return nil, false
	}
	return &unit{fields: fields, name: t.Field(fields[0]).Type.Kind().String()}, true
}

// array makes the form of an array. Its length is part of the type and needs no bound.
func (c *compiler) array(t reflect.Type, path string, rest *tagRest) (form, error) {
	if t.Len() == 0 {
		return nil, fmt.Errorf("%s: %v has no elements: leave it out", path, t)
	}
	elements, err := c.sequence(t, path, rest)
	if err != nil {
		return nil, err
	}
	return &array{elements, t.Len()}, nil
}

// list makes the form of a slice, which needs a bound from the tag.
func (c *compiler) list(t reflect.Type, path string, rest *tagRest) (form, error) {
	bound, err := rest.bound(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	elements, err := c.sequence(t, path, rest)
	if err != nil {
		return nil, err
	}
	return &list{elements, t, bound}, nil
}

// sequence makes the form of the elements of an array or slice.
func (c *compiler) sequence(t reflect.Type, path string, rest *tagRest) (sequence, error) {
	elem, err := c.form(t.Elem(), path+"[]", rest)
	// Bytes are copied in one piece. An int8 is an octet as well, but reflect doesn't count it as a
	// byte. A byte with a range is encoded in another form.
	_, isOctet := elem.(*octet)
	return sequence{elem, isOctet && t.Elem().Kind() == reflect.Uint8}, err
}

// record makes the form of a struct inside a field. A struct that contains itself, which is
// possible through a slice, is refused because compiling it would never end.
func (c *compiler) record(t reflect.Type, path string, rest *tagRest) (form, error) {
	switch {
	case t == timeType:
		return nil, fmt.Errorf("%s: time.Time cannot be replicated: "+
			"use an int64 with its UnixMilli, or a time.Duration", path)
	case slices.Contains(c.enclosing, t):
		return nil, fmt.Errorf("%s: %v contains itself, so it cannot be replicated: "+
			"refer to another actor, or use a list", path, t)
	}
	c.enclosing = append(c.enclosing, t)
	defer func() { c.enclosing = c.enclosing[:len(c.enclosing)-1] }()
	r := &record{}
	for f := range t.Fields() {
		if isBlank(f) {
			continue
		}
		p, err := c.part(f, path+"."+f.Name, rest.scale)
		if err != nil {
			return nil, err
		}
		r.fields = append(r.fields, p)
	}
	if len(r.fields) == 0 {
		return nil, fmt.Errorf("%s: %v has no fields: leave it out", path, t)
	}
	return r, nil
}

// part makes a record's part for the field f. The scale of the record applies to it too, unless
// it has its own.
func (c *compiler) part(f reflect.StructField, path string, outer *scale) (part, error) {
	compiled, t, err := c.field(f, path, outer)
	if err != nil {
		return part{}, err
	}
	if t.condition != None {
		return part{}, fmt.Errorf("%s: tag %q: conditions are allowed only on fields of the state itself", path, t.text)
	}
	return part{name: f.Name, index: f.Index[0], form: compiled}, nil
}

// bound removes the next bound from the tag and returns it, for a string or slice of type t.
func (r *tagRest) bound(t reflect.Type) (int, error) {
	if len(r.bounds) == 0 {
		return 0, fmt.Errorf("%v needs a bound: add quiver:\"max=…\" with its maximum number of %s, and each=… for each level inside the field",
			t.Kind(), boundUnit(t))
	}
	n := r.bounds[0]
	r.bounds = r.bounds[1:]
	return n, nil
}

// boundUnit returns what the bound of t counts.
func boundUnit(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "bytes"
	}
	return "elements"
}

// refuse returns an error that says why values of t cannot be replicated, and what to use instead.
func refuse(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Map:
		return errors.New("maps cannot be replicated: use a list, or a slice of keys and values with a bound")
	case reflect.Pointer:
		return errors.New("pointers cannot be replicated: use the value itself, or a reference to an actor")
	case reflect.Interface:
		return errors.New("interfaces cannot be replicated: use a struct with a number that selects the case")
	case reflect.Complex64, reflect.Complex128:
		return errors.New("complex numbers cannot be replicated: use two floats")
	}
	return fmt.Errorf("%v cannot be replicated: move it out of the state", t.Kind())
}

// isBlank reports whether a field is a blank struct{}, which isn't sent.
func isBlank(f reflect.StructField) bool { return f.Name == "_" && f.Type == emptyType }

func isFloat(t reflect.Type) bool { return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 }
