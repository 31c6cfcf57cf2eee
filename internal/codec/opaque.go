package codec

import (
	"fmt"
	"reflect"
	"slices"
)

// selfEncoding returns how t encodes itself: "binary" or "text", or "" if it leaves that to
// msgpack. The error says why t can't be used although it has some of the methods.
func selfEncoding(t reflect.Type) (string, error) {
	// If t is itself a pointer, p has no methods, and we'll decide when we come to its element.
	p := reflect.PointerTo(t)
	for _, hook := range msgpackHooks {
		if p.Implements(hook) {
			return "", fmt.Errorf("%v implements msgpack.%s, whose input cannot be bounded: "+
				"implement AppendBinary, MarshalBinary and UnmarshalBinary instead", t, hook.Name())
		}
	}
	write := firstOf(p, binaryMarshaler, textMarshaler)
	read := firstOf(p, binaryUnmarshaler, textUnmarshaler)
	switch {
	case write == 0 && firstOf(t, binaryMarshaler, textMarshaler) == 1:
		return "", fmt.Errorf("MarshalBinary of %v must have a value receiver, because its MarshalText has one", t)
	case write < 0 && read == 0 && p.Implements(binaryAppender):
		return "", fmt.Errorf("%v has AppendBinary, but inside another value it also needs MarshalBinary", t)
	case write != read:
		return "", fmt.Errorf("%v must implement both marshaling and unmarshaling, as binary or as text", t)
	case write < 0:
		return "", nil
	}
	return [...]string{"binary", "text"}[write], checkSelfDecoding(t)
}

// checkSelfDecoding returns an error if t decodes itself in a way that would lose the value: into a
// copy of the receiver, or into an embedded struct alone.
func checkSelfDecoding(t reflect.Type) error {
	if t.Implements(binaryUnmarshaler) || t.Implements(textUnmarshaler) {
		return fmt.Errorf("the unmarshaling method of %v must have a pointer receiver", t)
	}
	return checkEmbedded(t)
}

// checkEmbedded returns an error for a struct that embeds a type that decodes itself. Go promotes
// the embedded type's methods, which don't know the struct's other fields and would lose them. A
// struct with a single field has nothing to lose.
func checkEmbedded(t reflect.Type) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	if t.NumField() == 1 {
		if f := t.Field(0); f.Anonymous {
			return checkEmbedded(f.Type) // its methods may in turn come from a type it embeds
		}
		return nil
	}
	for f := range t.Fields() {
		if f.Anonymous && firstOf(reflect.PointerTo(f.Type), binaryUnmarshaler, textUnmarshaler) >= 0 {
			return fmt.Errorf("%v embeds %v, whose methods would encode only the embedded value: give the field a name", t, f.Type)
		}
	}
	return nil
}

// canBeNil reports whether msgpack writes nil for a nil value of kind k rather than calling its
// methods.
func canBeNil(k reflect.Kind) bool {
	return k == reflect.Slice || k == reflect.Map || k == reflect.Func || k == reflect.Chan
}

// firstOf returns the index of the first interface that t implements, or -1.
func firstOf(t reflect.Type, interfaces ...reflect.Type) int {
	return slices.IndexFunc(interfaces, t.Implements)
}
