// Package refs finds references to actors in the types and values of arguments. It also keeps
// an index of what refers to an actor. It uses no clock, goroutine or lock.
package refs

import (
	"errors"
	"reflect"
	"slices"
)

// A Finder finds references of one type. The type's kind is uint64.
type Finder struct {
	Ref   reflect.Type
	Actor reflect.Type // the type that a reference names, which can't be sent itself
}

var (
	errActor = errors.New("an Actor cannot be sent: " +
		"use a Ref, which Actor.Ref returns and World.Actor accepts")
	errInMap = errors.New("a Ref in a map cannot be checked against the peer's actors: " +
		"use a slice")
)

// In reports whether values of t may contain a reference that [Finder.Each] visits. A reference in
// a map is an error, because Each couldn't change it there. In ignores interfaces, because their
// values aren't sent.
func (f Finder) In(t reflect.Type) (found bool, err error) {
	if err := f.check(t, make(map[reflect.Type]bool)); err != nil {
		return false, err
	}
	return f.reaches(t, make(map[reflect.Type]bool)), nil
}

// check returns an error if values of t can't be sent. It skips the types in seen, so that it
// returns for a type that contains itself.
func (f Finder) check(t reflect.Type, seen map[reflect.Type]bool) error {
	if t == f.Actor {
		return errActor
	}
	if seen[t] {
		return nil
	}
	seen[t] = true
	for _, part := range parts(t) {
		if err := f.check(part, seen); err != nil {
			return err
		}
		// reaches gets a new seen, because a type that check has seen may contain a reference.
		if t.Kind() == reflect.Map && f.reaches(part, make(map[reflect.Type]bool)) {
			return errInMap
		}
	}
	return nil
}

// reaches reports whether values of t contain references at any depth. It skips the types in seen.
func (f Finder) reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == f.Ref {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	return slices.ContainsFunc(parts(t), func(part reflect.Type) bool { return f.reaches(part, seen) })
}

// parts returns the types of those parts of a t that are sent.
func parts(t reflect.Type) (all []reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		for field := range t.Fields() {
			if (field.IsExported() || field.Anonymous) && field.Tag.Get("msgpack") != "-" {
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

// Each calls visit for each reference in v that can be set.
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
			field := v.Type().Field(i)
			if field.IsExported() || field.Anonymous { // an embedded struct may have exported fields
				f.Each(v.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Array && v.Type().Elem() != f.Ref {
			return // plain values contain no references
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
