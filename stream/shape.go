package stream

import (
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"slices"
)

// shapeOf is a hash over the names and kinds of everything in t, so that a receiver refuses elements of other fields
// instead of decoding them into the wrong ones.
func shapeOf(t reflect.Type) uint64 {
	h := fnv.New64a()
	writeShape(h, t, nil)
	return h.Sum64()
}

// writeShape describes t; within are the structs that it is part of.
func writeShape(w io.Writer, t reflect.Type, within []reflect.Type) {
	fmt.Fprintf(w, "%v ", t.Kind())
	switch t.Kind() {
	case reflect.Array:
		fmt.Fprintf(w, "%d ", t.Len())
		writeShape(w, t.Elem(), within)
	case reflect.Slice, reflect.Pointer:
		writeShape(w, t.Elem(), within)
	case reflect.Map:
		writeShape(w, t.Key(), within)
		writeShape(w, t.Elem(), within)
	case reflect.Struct:
		writeFields(w, t, within)
	}
}

func writeFields(w io.Writer, t reflect.Type, within []reflect.Type) {
	if i := slices.Index(within, t); i >= 0 {
		fmt.Fprintf(w, "^%d ", i)
		return
	}
	within = append(within, t)
	for i := range t.NumField() {
		if f := t.Field(i); !skipped(f) {
			fmt.Fprintf(w, "%q ", f.Name)
			writeShape(w, f.Type, within)
		}
	}
	fmt.Fprint(w, "; ")
}
