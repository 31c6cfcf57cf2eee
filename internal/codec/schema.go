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

// form says how msgpack encodes a type.
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
	formOpaque // bytes from the type's own MarshalBinary or MarshalText
)

// A schema describes how msgpack encodes a Go type. Both ends must derive the same one from
// their types, since we check a payload against ours before decoding it (see walk).
type schema struct {
	form   form
	typ    reflect.Type
	name   string // part of Shape, which both ends compare
	bits   int    // width of a number
	length int    // length of an array
	size   int    // bytes in memory, not counting what the value points to

	// Schemas of the type's parts.
	key    *schema // of a map
	elem   *schema // of a slice, array, map or pointer
	fields []schemaField

	// Set for formOpaque only.
	text bool // the type marshals itself as text rather than as binary
	// A nil on the wire stands for a nil value. If nullable is not set, the type has no nil,
	// and a nil on the wire means that the type marshaled itself to no bytes at all.
	nullable bool

	needsAddress bool // msgpack can encode the type only through a pointer to it

	// Bounds, or unbounded.
	//
	// max comes from the field's tag. It limits the bytes of a string, a byte slice or an opaque
	// value, and the elements of a slice or map.
	//
	// maxEncoded comes from the type's MaxEncodedSize. It limits the encoded bytes, not counting
	// msgpack's header if boundsContent is true.
	max        int
	maxEncoded int
}

// schemaField is a field of a struct or of a struct embedded in it.
type schemaField struct {
	name   string // name on the wire: from the field's msgpack tag, or the field's own
	index  []int  // as in reflect.StructField, from the outermost struct
	schema *schema
}

// parts yields the schemas of the parts of s. An error names a part by the path of s followed
// by suffix.
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

// mayBeNil reports whether an encoded value of s may be nil. That includes opaque values,
// because msgpack writes nil if one marshals itself to no bytes.
func (s *schema) mayBeNil() bool {
	switch s.form {
	case formBytes, formSlice, formMap, formPointer, formOpaque:
		return true
	}
	return false
}

// boundsContent reports whether the bounds of s apply to its content alone, without the header that
// msgpack puts before it.
func (s *schema) boundsContent() bool {
	return s.form == formString || s.form == formBytes || s.form == formByteArray || s.form == formOpaque
}

// checkSize returns an error if n bytes exceed either bound of s.
func (s *schema) checkSize(n int) error {
	if err := checkBound(n, s.max, "bytes"); err != nil {
		return err
	}
	return checkBound(n, s.maxEncoded, "bytes")
}

// bound returns the smaller bound, or unbounded if there is none.
func (s *schema) bound() int {
	if s.max == unbounded || s.maxEncoded == unbounded {
		return max(s.max, s.maxEncoded) // unbounded is less than any bound
	}
	return min(s.max, s.maxEncoded)
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

	// We refuse types with msgpack's own hooks. A hook may read any part of the payload, so
	// walk couldn't check beforehand what it's going to read.
	msgpackHooks = []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
	}
)

// bounded is a type that bounds its own encoded size in bytes.
type bounded interface{ MaxEncodedSize() int }

// A schemaBuilder builds the schema of a type and of all its parts.
//
// It maps each type to its schema as soon as we begin to build the schema, which is how a recursive
// type finds itself. A schema with bounds from a tag isn't in the map, because it belongs to only
// one field.
type schemaBuilder map[reflect.Type]*schema

// schemaOf returns the schema of t. Its error names the part of t that cannot be encoded.
func schemaOf(t reflect.Type) (*schema, error) {
	s, err := schemaBuilder{}.of(t, t.String(), nil)
	if err != nil {
		return nil, err
	}
	return s, addressCheck{}.check(s, t.String(), false)
}

// of returns the schema of t, which takes its bounds from the levels of tag that the enclosing
// types haven't used. path names t's place in the outermost type in errors.
func (b schemaBuilder) of(t reflect.Type, path string, tag *bounds) (*schema, error) {
	s, ok := b[t]
	if ok && !tag.hasMore() {
		return s, nil
	}
	s = &schema{size: int(t.Size()), typ: t, max: unbounded, maxEncoded: unbounded}
	if !tag.hasMore() {
		b[t] = s
	}
	if err := b.describe(s, t, path, tag); err != nil {
		return nil, err
	}
	if s.max != unbounded {
		s.name += fmt.Sprintf(", max %d", s.max)
	}
	if s.maxEncoded != unbounded {
		s.name += fmt.Sprintf(", at most %d bytes", s.maxEncoded)
	}
	return s, nil
}

// describe fills in s, the schema of t.
func (b schemaBuilder) describe(s *schema, t reflect.Type, path string, tag *bounds) error {
	if t == timeType {
		s.form, s.name = formTime, "time"
		return nil
	}
	opaque, err := selfEncoding(t)
	if err == nil {
		s.maxEncoded, err = maxEncodedSizeOf(t)
	}
	switch {
	case err != nil && path == t.String():
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case opaque != "":
		s.form = formOpaque
		s.name = opaque + " " + t.String()
		s.text = opaque == "text"
		s.max = tag.next()
		s.nullable = canBeNil(t.Kind())
		s.needsAddress = firstOf(t, binaryMarshaler, textMarshaler) < 0
	case !s.describeScalar(t):
		return b.compose(s, t, path, tag)
	case s.form == formString || s.form == formBytes:
		s.max = tag.next()
	case s.form == formByteArray:
		s.needsAddress = t.Elem() != reflect.TypeFor[byte]()
	}
	return nil
}

// maxEncodedSizeOf returns the MaxEncodedSize of t, or unbounded if t has no such method. For a
// pointer type it is always unbounded, because the method belongs to the element.
func maxEncodedSizeOf(t reflect.Type) (int, error) {
	if !reflect.PointerTo(t).Implements(boundedType) {
		return unbounded, nil
	}
	n := reflect.New(t).Interface().(bounded).MaxEncodedSize()
	if n < 0 {
		return 0, fmt.Errorf("MaxEncodedSize of %v is %d", t, n)
	}
	return n, nil
}

// describeScalar fills in s if t is a bool, a number, a string or bytes. Otherwise it returns
// false, and compose has to describe t.
func (s *schema) describeScalar(t reflect.Type) bool {
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
		s.form = formByteArray
		s.name = fmt.Sprintf("[%d]byte", t.Len())
		s.length = t.Len()
		return t.Elem().Kind() == reflect.Uint8
	default:
		return false
	}
	return true
}

// compose fills in s for a type t that consists of other types.
func (b schemaBuilder) compose(s *schema, t reflect.Type, path string, tag *bounds) (err error) {
	usesNoLevel := t.Kind() == reflect.Array || t.Kind() == reflect.Pointer
	if usesNoLevel && !tag.enter(t) {
		// We'd recurse forever on a type like "type T [2]*T". Since arrays and pointers use no
		// level of the tag, one is left over, and taggedField refuses the field because of it.
		return nil
	}
	switch t.Kind() {
	case reflect.Slice:
		s.form = formSlice
		s.name = "[]"
		s.max = tag.next()
		s.elem, err = b.of(t.Elem(), path+"[]", tag)
	case reflect.Array:
		s.form = formArray
		s.name = fmt.Sprintf("[%d]", t.Len())
		s.length = t.Len()
		s.elem, err = b.of(t.Elem(), path+"[]", tag)
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return fmt.Errorf("%s: pointers to pointers cannot be encoded", path)
		}
		s.form, s.name = formPointer, "*"
		s.elem, err = b.of(t.Elem(), path, tag)
	case reflect.Map:
		if !isPlainKey(t.Key()) {
			return fmt.Errorf("%s: map keys must be bools, numbers, strings or arrays and structs of them, not %v",
				path, t.Key())
		}
		keys := tag.keys()
		s.form = formMap
		s.name = "map"
		s.max = tag.next()
		if s.key, err = b.of(t.Key(), path+"[key]", keys); err == nil {
			s.elem, err = b.of(t.Elem(), path+"[value]", tag)
		}
	case reflect.Struct:
		if tag.hasMore() {
			// A bound doesn't reach into a struct, and with one left over we'd never finish
			// with a recursive struct. taggedField refuses the field because of it.
			return nil
		}
		s.form, s.name = formStruct, "struct"
		s.fields, err = b.fieldsOf(nil, t, nil, path)
	default:
		err = fmt.Errorf("%s: values of kind %v cannot be encoded", path, t.Kind())
	}
	return err
}

// fieldsOf appends the fields of t as msgpack sees them: every exported field unless its tag is
// "-", and the fields of an embedded struct in place of the struct. If t is itself embedded,
// outer is its index.
func (b schemaBuilder) fieldsOf(
	fields []schemaField, t reflect.Type, outer []int, path string,
) ([]schemaField, error) {
	before := len(fields)
	embedded := map[string]bool{} // names of embedded structs
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
		first := len(fields)
		if fields, err = b.fieldsOf(fields, f.Type, index, path); err != nil {
			return nil, err
		}
		for _, inner := range fields[first:] {
			if embedded[inner.name] {
				// msgpack would not inline this struct but encode it as a field.
				return nil, fmt.Errorf("%s.%s: field %s has the name of a struct embedded before it",
					path, f.Name, inner.name)
			}
		}
		embedded[name] = true
	}
	if len(fields) == before && t.NumField() > 0 {
		return nil, errNoFields(t, path)
	}
	return fields, checkNames(fields, path)
}

// field returns the schema of a field whose msgpack tag has the given options. inlined says
// that f is an embedded struct whose fields take its place.
func (b schemaBuilder) field(f reflect.StructField, options, path string) (s *schema, inlined bool, err error) {
	switch {
	case strings.Contains(options, "intern"):
		return nil, false, fmt.Errorf("%s: interned strings are not supported", path)
	case strings.Contains(options, "alias"):
		return nil, false, fmt.Errorf("%s: aliases are not supported", path)
	}
	if s, err = b.taggedField(f, path); err != nil {
		return nil, false, err
	}
	embeds := f.Anonymous && !strings.Contains(options, "noinline")
	isStruct := s.form == formStruct
	mustInline := strings.Contains(options, "inline") || !f.IsExported()
	switch {
	case embeds && (!isStruct && mustInline || s.form == formPointer):
		return nil, false, fmt.Errorf("%s: embedded field must be a struct or an exported type, and not a pointer", path)
	case !f.IsExported() && !(embeds && isStruct):
		return nil, false, fmt.Errorf("%s: unexported embedded field cannot be noinline", path)
	}
	return s, embeds && isStruct, nil
}

// taggedField returns the schema of a struct's field, with the bounds from its quiver tag. It fails
// if the tag has more levels than the field's type can use.
func (b schemaBuilder) taggedField(f reflect.StructField, path string) (*schema, error) {
	tag, err := boundsOf(f)
	if err != nil {
		return nil, fmt.Errorf("%s: tag %q: %w", path, f.Tag.Get("quiver"), err)
	}
	s, err := b.of(f.Type, path, tag)
	if err == nil && !tag.allUsed() {
		err = fmt.Errorf("%s: tag %q: unused bound: %v needs fewer", path, f.Tag.Get("quiver"), f.Type)
	}
	return s, err
}

// errNoFields returns the error for a struct whose fields are all left out of its encoding. Such a
// struct could only arrive as its zero value, which must be a mistake. A field of type Never has
// its own error text.
func errNoFields(t reflect.Type, path string) error {
	if never, ok := t.FieldByName("_"); ok && never.Type == neverType {
		return fmt.Errorf("%s: %s", path, never.Tag.Get("codec"))
	}
	return fmt.Errorf("%s: %v has no encoded fields, so it would arrive empty: "+
		"export one, implement AppendBinary and UnmarshalBinary, or leave it out", path, t)
}

// checkNames returns an error if two fields have the same name, because msgpack would then not
// encode the fields that the schema lists.
func checkNames(fields []schemaField, path string) error {
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.name] {
			return fmt.Errorf("%s: two fields are named %s", path, f.name)
		}
		seen[f.name] = true
	}
	return nil
}

// isPlainKey reports whether t may be a map key. Besides being comparable, it must not contain a
// pointer, an interface or a channel, because those lose their identity in encoding.
func isPlainKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan:
		return false
	case reflect.Array:
		return isPlainKey(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !isPlainKey(f.Type) {
				return false
			}
		}
	}
	return t.Comparable()
}
