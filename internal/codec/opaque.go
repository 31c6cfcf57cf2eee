package codec

import (
	"fmt"
	"reflect"
	"slices"
)

// opaqueOf returns how t encodes itself: "binary" or "text", or "" if it leaves that to msgpack.
// The error says why t can't be used although it has some of the methods.
func opaqueOf(t reflect.Type) (string, error) {
	// If t is itself a pointer, p has no methods, and we'll decide when we come to its element.
	p := reflect.PointerTo(t)
	for _, hook := range msgpackHooks {
		if p.Implements(hook) {
			return "", fmt.Errorf("%v is a msgpack.%s, whose input cannot be bounded; "+
				"implement AppendBinary, MarshalBinary and UnmarshalBinary", t, hook.Name())
		}
	}
	write := firstOf(p, binaryMarshaler, textMarshaler)
	read := firstOf(p, binaryUnmarshaler, textUnmarshaler)
	switch {
	case write == 0 && firstOf(t, binaryMarshaler, textMarshaler) == 1:
		return "", fmt.Errorf("%v must marshal itself as binary with a value receiver, as it does as text", t)
	case write < 0 && read == 0 && p.Implements(binaryAppender):
		return "", fmt.Errorf("%v appends itself; inside another value it needs MarshalBinary too", t)
	case write != read:
		return "", fmt.Errorf("%v must both marshal and unmarshal itself, as binary or as text", t)
	case write < 0:
		return "", nil
	}
	return [...]string{"binary", "text"}[write], selfReading(t)
}

// selfReading returns an error if t decodes itself in a way that would lose the value: into a
// copy of the receiver, or into an embedded struct alone.
func selfReading(t reflect.Type) error {
	if t.Implements(binaryUnmarshaler) || t.Implements(textUnmarshaler) {
		return fmt.Errorf("%v must unmarshal itself with a pointer receiver", t)
	}
	return promoted(t)
}

// promoted returns an error for a struct that embeds a type which decodes itself. Go promotes the
// embedded type's methods, which know nothing of the struct's other fields and would lose them. A
// struct with a single field has nothing to lose.
func promoted(t reflect.Type) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	if t.NumField() == 1 {
		if f := t.Field(0); f.Anonymous {
			return promoted(f.Type) // its methods may in turn come from a type it embeds
		}
		return nil
	}
	for f := range t.Fields() {
		if f.Anonymous && firstOf(reflect.PointerTo(f.Type), binaryUnmarshaler, textUnmarshaler) >= 0 {
			return fmt.Errorf("%v embeds %v, whose methods would write it alone; give the field a name", t, f.Type)
		}
	}
	return nil
}

// nilable reports whether msgpack writes nil for a nil value of kind k rather than calling its
// methods.
func nilable(k reflect.Kind) bool {
	return k == reflect.Slice || k == reflect.Map || k == reflect.Func || k == reflect.Chan
}

// firstOf returns the index of the first interface that t implements, or -1.
func firstOf(t reflect.Type, interfaces ...reflect.Type) int {
	return slices.IndexFunc(interfaces, t.Implements)
}
