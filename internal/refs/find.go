// Package refs finds references to actors: in the types and values of arguments, and, the other way round, who names an actor. It is pure.
package refs

import (
	"errors"
	"reflect"
	"slices"
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

// In reports whether values of t may hold a reference that [Finder.Each] visits. One in a map is an error, for Each could not set it to
// none there. In does not look behind interfaces: what is there does not travel.
func (f Finder) In(t reflect.Type) (found bool, err error) {
	if err := f.check(t, make(map[reflect.Type]bool)); err != nil {
		return false, err
	}
	return f.reaches(t, make(map[reflect.Type]bool)), nil
}

// check returns why values of t can not travel. It leaves out the types in seen, or a type that holds itself would not end.
func (f Finder) check(t reflect.Type, seen map[reflect.Type]bool) error {
	switch {
	case t == f.Actor:
		return errActor
	case seen[t]:
		return nil
	}
	seen[t] = true
	for _, part := range parts(t) {
		if err := f.check(part, seen); err != nil {
			return err
		}
		if t.Kind() == reflect.Map && f.reaches(part, make(map[reflect.Type]bool)) { // with a seen of its own: a type that check has been through may hold one
			return errInMap
		}
	}
	return nil
}

// reaches reports whether values of t hold references at any depth. It leaves out the types in seen.
func (f Finder) reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == f.Ref || seen[t] {
		return t == f.Ref
	}
	seen[t] = true
	return slices.ContainsFunc(parts(t), func(part reflect.Type) bool { return f.reaches(part, seen) })
}

// parts returns the types of what travels of a value of t.
func parts(t reflect.Type) (all []reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); (field.IsExported() || field.Anonymous) && field.Tag.Get("msgpack") != "-" {
				all = append(all, field.Type)
			}
		}
	case reflect.Slice, reflect.Array, reflect.Pointer:
		all = []reflect.Type{t.Elem()}
	case reflect.Map:
		all = []reflect.Type{t.Key(), t.Elem()}
	}
	return all
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
