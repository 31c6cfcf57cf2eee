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

	open   []reflect.Type // structs that contain the type being compiled, to detect recursion
	leaves int            // parts of the field so far, each encoded as at least one byte
	refers bool           // the field is or contains a reference
}

// wants is what is left of a field's tag after the enclosing types have taken their share.
type wants struct {
	bounds []int
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
		return nil, t, fmt.Errorf("%s: it is not exported, so it cannot be replicated; "+
			"export it, or keep it outside of the state", path)
	}
	w := &wants{bounds: t.bounds, scale: cmp.Or(t.scale, outer), unit: t.unit}
	made, err := c.form(f.Type, path, w)
	if err != nil {
		return nil, t, err
	}
	if err := t.unused(w, f.Type); err != nil {
		return nil, t, fmt.Errorf("%s: tag %q has %w", path, t.text, err)
	}
	return made, t, nil
}

// form makes the form of t. path names it in errors.
func (c *compiler) form(t reflect.Type, path string, w *wants) (form, error) {
	if w.unit && t.Kind() != reflect.Slice {
		if made, ok := unitForm(t); ok {
			return made, nil
		}
		if t.Kind() != reflect.Array {
			return nil, fmt.Errorf("%s: a unit is three floats, in an array or a struct, not %v", path, t)
		}
	} // a slice or any other array may consist of units
	switch t.Kind() {
	case reflect.Array:
		return c.array(t, path, w)
	case reflect.Slice:
		return c.list(t, path, w)
	case reflect.Struct:
		return c.record(t, path, w)
	}
	c.leaves++
	if c.leaves > MaxField {
		return nil, fmt.Errorf("%s: its field has more than %d parts, so it may take more bytes than that; split it",
			path, MaxField)
	}
	made, err := c.scalar(t, w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return made, nil
}

// scalar makes the form of a type that contains no other types.
func (c *compiler) scalar(t reflect.Type, w *wants) (form, error) {
	switch k := t.Kind(); {
	case t == c.reference:
		c.refers = true
		return &reference{varint{integerOf(t)}}, nil
	case k == reflect.Bool:
		return boolean{}, nil
	case k >= reflect.Int && k <= reflect.Uint64:
		return intForm(t, w.scale)
	case isFloat(t):
		return floatForm(t, w.scale)
	case k == reflect.String:
		bound, err := w.bound(t)
		return text{bound: bound}, err
	default:
		return nil, errors.New(refusal(t))
	}
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
		return newQuantised(t, s)
	}
	return float{bits: t.Bits()}, nil
}

// unitForm makes the form of a direction. ok is false unless t consists of three floats of the
// same type. If they are the fields of a struct, their own tags are ignored.
func unitForm(t reflect.Type) (made form, ok bool) {
	var fields []int
	switch {
	case t.Kind() == reflect.Array && t.Len() == 3:
		return &unit{name: t.Elem().Kind().String()}, isFloat(t.Elem())
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	for f := range t.Fields() {
		if blank(f) {
			continue
		}
		fields = append(fields, f.Index[0])
		first := t.Field(fields[0]).Type
		if !f.IsExported() || !isFloat(f.Type) || f.Type.Kind() != first.Kind() {
			return nil, false
		}
	}
	if len(fields) != 3 {
		return nil, false
	}
	return &unit{fields: fields, name: t.Field(fields[0]).Type.Kind().String()}, true
}

// array makes the form of an array. Its length is part of the type and needs no bound.
func (c *compiler) array(t reflect.Type, path string, w *wants) (form, error) {
	if t.Len() == 0 {
		return nil, fmt.Errorf("%s: %v holds nothing; leave it out", path, t)
	}
	elements, err := c.sequence(t, path, w)
	return &array{elements, t.Len()}, err
}

// list makes the form of a slice, which needs a bound from the tag.
func (c *compiler) list(t reflect.Type, path string, w *wants) (form, error) {
	bound, err := w.bound(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	elements, err := c.sequence(t, path, w)
	return &list{elements, t, bound}, err
}

// sequence makes the form of the elements of an array or slice.
func (c *compiler) sequence(t reflect.Type, path string, w *wants) (sequence, error) {
	elem, err := c.form(t.Elem(), path+"[]", w)
	_, raw := elem.(*octet)
	return sequence{elem, raw && t.Elem().Kind() == reflect.Uint8}, err
}

// record makes the form of a struct inside a field.
func (c *compiler) record(t reflect.Type, path string, w *wants) (form, error) {
	switch {
	case t == timeType:
		return nil, fmt.Errorf("%s: a time.Time cannot be replicated; "+
			"keep its UnixMilli in an int64, or a time.Duration", path)
	case slices.Contains(c.open, t):
		return nil, fmt.Errorf("%s: %v contains itself, so it cannot be replicated; "+
			"refer to another actor, or use a list", path, t)
	}
	c.open = append(c.open, t)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	made := &record{}
	for f := range t.Fields() {
		if blank(f) {
			continue
		}
		inside, err := c.part(f, path+"."+f.Name, w.scale)
		if err != nil {
			return nil, err
		}
		made.fields = append(made.fields, inside)
	}
	if len(made.fields) == 0 {
		return nil, fmt.Errorf("%s: %v has no fields; leave it out", path, t)
	}
	return made, nil
}

// part makes a record's part for the field f. The scale of the record applies to it too, unless
// it has one of its own.
func (c *compiler) part(f reflect.StructField, path string, outer *scale) (part, error) {
	made, tag, err := c.field(f, path, outer)
	if err == nil && tag.condition != None {
		err = fmt.Errorf("%s: tag %q: only a field of the state itself has a condition", path, tag.text)
	}
	return part{name: f.Name, index: f.Index[0], form: made}, err
}

// bound takes the next bound from the tag, for a string or slice of type t.
func (w *wants) bound(t reflect.Type) (int, error) {
	if len(w.bounds) == 0 {
		return 0, fmt.Errorf("a %v needs a bound: quiver:\"max=…\" of %s, and each=… for what is inside of it",
			t.Kind(), counted(t))
	}
	n := w.bounds[0]
	w.bounds = w.bounds[1:]
	return n, nil
}

// counted returns the unit in which the bound of t counts.
func counted(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "bytes"
	}
	return "elements"
}

// refusal explains why values of t can't be replicated, and what to use instead.
func refusal(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map:
		return "maps cannot be replicated; use a list, or a slice of keys and values with a bound"
	case reflect.Pointer:
		return "pointers cannot be replicated; use the value itself, or a reference to an actor"
	case reflect.Interface:
		return "interfaces cannot be replicated; use a struct or a number that tells the cases apart"
	case reflect.Complex64, reflect.Complex128:
		return "complex numbers cannot be replicated; use two floats"
	}
	return fmt.Sprintf("a %v cannot be replicated; keep it outside of the state", t.Kind())
}

// blank reports whether a field is a blank struct{}, which isn't sent.
func blank(f reflect.StructField) bool { return f.Name == "_" && f.Type == emptyType }

func isFloat(t reflect.Type) bool { return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 }
