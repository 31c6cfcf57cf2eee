// Package refs finds references to actors: in the types and values of arguments, and, the other way round, who names an actor. It is pure.
package refs

import (
	"errors"
	"reflect"
)

// Finder finds references of one type, which is a kind of uint64.
type Finder struct {
	Ref   reflect.Type
	Actor reflect.Type // what a reference names, which does not travel itself
}

var (
	errActor = errors.New("an Actor does not travel: use a Ref, which Actor.Ref returns and World.Actor takes")
	errInMap = errors.New("a Ref in a map can not be checked against what the other side has: use a slice")
)

// In reports whether values of t may hold a reference that [Finder.Each] visits. One in a map is an error: it could not be set to none
// there. What is behind an interface is not looked at, for it does not travel.
func (f Finder) In(t reflect.Type) (found bool, err error) { return f.in(t, map[reflect.Type]bool{}) }

func (f Finder) in(t reflect.Type, seen map[reflect.Type]bool) (found bool, err error) {
	switch {
	case t == f.Ref:
		return true, nil
	case t == f.Actor:
		return false, errActor
	case seen[t]:
		return false, nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		return f.inStruct(t, seen)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return f.in(t.Elem(), seen)
	case reflect.Map:
		return f.inMap(t, seen)
	}
	return false, nil
}

func (f Finder) inStruct(t reflect.Type, seen map[reflect.Type]bool) (found bool, err error) {
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() && !field.Anonymous || field.Tag.Get("msgpack") == "-" {
			continue
		}
		in, err := f.in(field.Type, seen)
		if err != nil {
			return false, err
		}
		found = found || in
	}
	return found, nil
}

func (f Finder) inMap(t reflect.Type, seen map[reflect.Type]bool) (found bool, err error) {
	for _, part := range []reflect.Type{t.Key(), t.Elem()} {
		if found, err = f.in(part, seen); err != nil {
			return false, err
		} else if found {
			return false, errInMap
		}
	}
	return false, nil
}

// Each visits the references in a value that can be set there.
func (f Finder) Each(v reflect.Value, visit func(reflect.Value)) {
	if v.Type() == f.Ref {
		if v.CanSet() {
			visit(v)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() || field.Anonymous { // whose own fields may be exported
				f.Each(v.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Array && v.Type().Elem() != f.Ref {
			return // numbers
		}
		for i := range v.Len() {
			f.Each(v.Index(i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			f.Each(v.Elem(), visit)
		}
	}
}
