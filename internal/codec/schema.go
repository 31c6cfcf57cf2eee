package codec

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// form is how msgpack writes a type.
type form uint8

const (
	formBool form = iota
	formInt
	formUint
	formFloat
	formString
	formBytes     // a slice of bytes; nil is allowed
	formByteArray // exactly length bytes
	formSlice
	formArray // exactly length elements
	formMap
	formStruct  // an array of exactly its fields
	formPointer // the element, or nil
	formTime
	formOpaque // bytes that the type writes and reads itself
)

// schema describes a Go type as msgpack writes it. Both ends must have the same one; a payload is checked against it before it is
// decoded.
type schema struct {
	form     form
	name     string // in the shape
	bits     int    // of a number
	length   int    // of an array
	text     bool   // an opaque value writes text
	nullable bool   // an opaque value may be nil; for others nil on the wire means that they wrote no bytes
	key      *schema
	elem     *schema
	fields   []schemaField
	size     int // bytes in memory, without what it points to

	addressed bool // msgpack writes it by its address only
	typ       reflect.Type

	// Bounds; unbounded = none.
	max   int // from the field's tag: bytes of a string, of bytes or of an opaque value; elements of a slice or map
	whole int // from the type's MaxEncodedSize: encoded bytes; see counted
}

type schemaField struct {
	name   string
	index  []int // in the struct, through embedded ones
	schema *schema
}

// parts yields what a value of s consists of, and what the path of each part has behind that of s.
func (s *schema) parts(yield func(suffix string, part *schema) bool) {
	switch s.form {
	case formPointer:
		yield("*", s.elem)
	case formSlice, formArray:
		yield("[]", s.elem)
	case formMap:
		_ = yield("[key]", s.key) && yield("[value]", s.elem)
	case formStruct:
		for _, f := range s.fields {
			if !yield("."+f.name, f.schema) {
				return
			}
		}
	}
}

// mayBeNil reports whether a nil may stand for a value of s; msgpack writes one for no bytes, too.
func (s *schema) mayBeNil() bool {
	switch s.form {
	case formBytes, formSlice, formMap, formPointer, formOpaque:
		return true
	}
	return false
}

// counted reports whether the bounds of s count bytes without their header.
func (s *schema) counted() bool {
	return s.form == formString || s.form == formBytes || s.form == formByteArray || s.form == formOpaque
}

// holds checks n bytes against both bounds.
func (s *schema) holds(n int) error {
	if err := within(n, s.max, "bytes"); err != nil {
		return err
	}
	return within(n, s.whole, "bytes")
}

// tightest returns the smaller of the two bounds.
func (s *schema) tightest() int {
	if s.max == unbounded || s.whole == unbounded {
		return max(s.max, s.whole)
	}
	return min(s.max, s.whole)
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	neverType   = reflect.TypeFor[Never]()
	boundedType = reflect.TypeFor[bounded]()

	binaryMarshaler   = reflect.TypeFor[encoding.BinaryMarshaler]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	binaryAppender    = reflect.TypeFor[encoding.BinaryAppender]()
	textMarshaler     = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler   = reflect.TypeFor[encoding.TextUnmarshaler]()

	// msgpackHooks are refused: they would read as much of the wire as they like, so nothing could check it before.
	msgpackHooks = []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
	}
)

// bounded is a type that knows its own limit, in bytes.
type bounded interface{ MaxEncodedSize() int }

// schemas builds the schema of a type and of all its parts. It holds those that have no bounds of a tag; there a recursive type finds
// itself.
type schemas map[reflect.Type]*schema

// schemaOf returns the schema of t, or an error that names the part of t that cannot travel.
func schemaOf(t reflect.Type) (*schema, error) {
	s, err := schemas{}.of(t, t.String(), nil)
	if err != nil {
		return nil, err
	}
	return s, copies{}.check(s, t.String(), false)
}

// of returns the schema of t, which stands at path, with the levels that are left of tag.
func (b schemas) of(t reflect.Type, path string, tag *bounds) (*schema, error) {
	s, ok := b[t]
	if ok && !tag.left() {
		return s, nil
	}
	s = &schema{size: int(t.Size()), typ: t, max: unbounded, whole: unbounded}
	if !tag.left() {
		b[t] = s
	}
	if err := b.describe(s, t, path, tag); err != nil {
		return nil, err
	}
	if s.max != unbounded {
		s.name += fmt.Sprintf(", max %d", s.max)
	}
	if s.whole != unbounded {
		s.name += fmt.Sprintf(", at most %d bytes", s.whole)
	}
	return s, nil
}

// describe fills in s.
func (b schemas) describe(s *schema, t reflect.Type, path string, tag *bounds) error {
	if t == timeType {
		s.form, s.name = formTime, "time"
		return nil
	}
	opaque, err := opaqueOf(t)
	if err == nil {
		s.whole, err = wholeOf(t)
	}
	switch {
	case err != nil && path == t.String():
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case opaque != "":
		s.form, s.name, s.text, s.max = formOpaque, opaque+" "+t.String(), opaque == "text", tag.next()
		s.nullable, s.addressed = nilable(t.Kind()), firstOf(t, binaryMarshaler, textMarshaler) < 0
	case !s.scalar(t):
		return b.compose(s, t, path, tag)
	case s.form == formString || s.form == formBytes:
		s.max = tag.next()
	case s.form == formByteArray:
		s.addressed = t.Elem() != reflect.TypeFor[byte]()
	}
	return nil
}

// wholeOf returns MaxEncodedSize of t, unbounded if it has none.
func wholeOf(t reflect.Type) (int, error) {
	if !reflect.PointerTo(t).Implements(boundedType) { // nor does a pointer to a pointer: the element decides
		return unbounded, nil
	}
	n := reflect.New(t).Interface().(bounded).MaxEncodedSize()
	if n < 0 {
		return 0, fmt.Errorf("MaxEncodedSize of %v is %d", t, n)
	}
	return n, nil
}

// scalar fills in s when t is a bool, a number, a string or bytes.
func (s *schema) scalar(t reflect.Type) bool {
	s.name = t.Kind().String()
	switch t.Kind() {
	case reflect.Bool:
		s.form = formBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.form, s.bits = formInt, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.form, s.bits = formUint, t.Bits()
	case reflect.Float32, reflect.Float64:
		s.form, s.bits = formFloat, t.Bits()
	case reflect.String:
		s.form = formString
	case reflect.Slice:
		s.form, s.name = formBytes, "bytes"
		return t.Elem().Kind() == reflect.Uint8
	case reflect.Array:
		s.form, s.name, s.length = formByteArray, fmt.Sprintf("[%d]byte", t.Len()), t.Len()
		return t.Elem().Kind() == reflect.Uint8
	default:
		return false
	}
	return true
}

// compose fills in s for a t that consists of other types.
func (b schemas) compose(s *schema, t reflect.Type, path string, tag *bounds) (err error) {
	passed := t.Kind() == reflect.Array || t.Kind() == reflect.Pointer
	if passed && tag.circles(t) {
		return nil // tagged will report the tag; going on would never end
	}
	switch t.Kind() {
	case reflect.Slice:
		s.form, s.name, s.max = formSlice, "[]", tag.next()
		s.elem, err = b.of(t.Elem(), path+"[]", tag)
	case reflect.Array:
		s.form, s.name, s.length = formArray, fmt.Sprintf("[%d]", t.Len()), t.Len()
		s.elem, err = b.of(t.Elem(), path+"[]", tag)
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return fmt.Errorf("%s: a pointer to a pointer cannot be encoded", path)
		}
		s.form, s.name = formPointer, "*"
		s.elem, err = b.of(t.Elem(), path, tag)
	case reflect.Map:
		if !plainKey(t.Key()) {
			return fmt.Errorf("%s: map keys must be bools, numbers, strings or arrays and structs of them, not %v", path, t.Key())
		}
		keys := tag.keys()
		s.form, s.name, s.max = formMap, "map", tag.next()
		if s.key, err = b.of(t.Key(), path+"[key]", keys); err == nil {
			s.elem, err = b.of(t.Elem(), path+"[value]", tag)
		}
	case reflect.Struct:
		if tag.left() {
			return nil // tagged will report the tag; going on might never end
		}
		s.form, s.name = formStruct, "struct"
		s.fields, err = b.fieldsOf(nil, t, nil, path)
	case reflect.Interface, reflect.UnsafePointer:
		err = fmt.Errorf("%s: an %v cannot be encoded", path, t.Kind())
	default:
		err = fmt.Errorf("%s: a %v cannot be encoded", path, t.Kind())
	}
	return err
}

// fieldsOf appends the fields of t, whose index is outer, as msgpack sees them: exported ones that are not tagged "-", and in place
// of an embedded struct its fields.
func (b schemas) fieldsOf(fields []schemaField, t reflect.Type, outer []int, path string) ([]schemaField, error) {
	before, embedded := len(fields), map[string]bool{} // names of embedded structs
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		sub, inlined, err := b.field(f, options, path+"."+f.Name)
		if err != nil {
			return nil, err
		}
		name, index := cmp.Or(name, f.Name), slices.Concat(outer, f.Index)
		if !inlined {
			fields = append(fields, schemaField{name: name, index: index, schema: sub})
			continue
		}
		own := len(fields)
		if fields, err = b.fieldsOf(fields, f.Type, index, path); err != nil {
			return nil, err
		}
		for _, inner := range fields[own:] {
			if embedded[inner.name] { // msgpack would then take the struct for a field and not embed it
				return nil, fmt.Errorf("%s.%s: its field %s has the name of a struct that is embedded before it", path, f.Name, inner.name)
			}
		}
		embedded[name] = true
	}
	if len(fields) == before && t.NumField() > 0 {
		return nil, nothingOf(t, path)
	}
	return fields, twice(fields, path)
}

// field returns the schema of a struct's field, whose msgpack tag has options. With inlined its own fields stand in its place.
func (b schemas) field(f reflect.StructField, options, path string) (s *schema, inlined bool, err error) {
	switch {
	case strings.Contains(options, "intern"):
		return nil, false, fmt.Errorf("%s: interned strings are not supported", path)
	case strings.Contains(options, "alias"):
		return nil, false, fmt.Errorf("%s: aliases are not supported", path)
	}
	if s, err = b.tagged(f, path); err != nil {
		return nil, false, err
	}
	embeds, structure := f.Anonymous && !strings.Contains(options, "noinline"), s.form == formStruct
	switch {
	case embeds && (!structure && (strings.Contains(options, "inline") || !f.IsExported()) || s.form == formPointer):
		return nil, false, fmt.Errorf("%s: embed an exported type or a struct, by value", path)
	case !f.IsExported() && !(embeds && structure):
		return nil, false, fmt.Errorf("%s: an embedded field that is not exported cannot be noinline", path)
	}
	return s, embeds && structure, nil
}

// tagged returns the schema of a struct's field. It refuses a quiver tag with a bound that nothing in the field needs.
func (b schemas) tagged(f reflect.StructField, path string) (*schema, error) {
	tag, err := boundsOf(f)
	if err != nil {
		return nil, fmt.Errorf("%s: tag %q: %w", path, f.Tag.Get("quiver"), err)
	}
	s, err := b.of(f.Type, path, tag)
	if err == nil && !tag.used() {
		err = fmt.Errorf("%s: tag %q has a bound that nothing in %v needs", path, f.Tag.Get("quiver"), f.Type)
	}
	return s, err
}

// nothingOf refuses a struct of which no field travels: it would arrive as its zero value.
func nothingOf(t reflect.Type, path string) error {
	if never, ok := t.FieldByName("_"); ok && never.Type == neverType {
		return fmt.Errorf("%s: %s", path, never.Tag.Get("codec"))
	}
	return fmt.Errorf("%s: %v has no field that travels, so it would arrive empty; export one, let it write itself, or leave it out", path, t)
}

// twice refuses two fields of one name: msgpack would lay them out differently.
func twice(fields []schemaField, path string) error {
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.name] {
			return fmt.Errorf("%s: two fields are called %s", path, f.name)
		}
		seen[f.name] = true
	}
	return nil
}

// plainKey reports whether t is comparable and holds nothing but plain values.
func plainKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan:
		return false
	case reflect.Array:
		return plainKey(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !plainKey(f.Type) {
				return false
			}
		}
	}
	return t.Comparable()
}
