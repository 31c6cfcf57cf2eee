package stream

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Limits of one RPC of the streamer.
const (
	// defaultRPCBytes is the article's 32 KiB: half of the largest bunch.
	defaultRPCBytes = 32 << 10
	// maxRPCBytes is the largest bunch. UE: net.MaxConstructedPartialBunchSizeBytes.
	maxRPCBytes = 65536
	// rpcOverhead is reserved in each RPC for the method id, the transfer's id, indices and the headers of arrays.
	rpcOverhead = 64
	// maxElementBytes is the largest element: it travels alone in the largest RPC.
	maxElementBytes = maxRPCBytes - rpcOverhead
)

// Worst-case bytes of msgpack's headers.
const (
	lengthHeader = 5 // of a string, []byte, slice or map: code and u32
	customHeader = 6 // of an extension type or a type that encodes itself: code, u32 and type
	timeBytes    = 15
	// timeBinaryBytes is the longest AppendBinary of a time.Time: the form that a time takes which is a value of its own.
	timeBinaryBytes = 16
	// sizeCap keeps sums and products of absurd bounds from overflowing; all that matters is that it is too large.
	sizeCap = int64(1) << 31
)

// elementsPerRPC is how many elements of at most elementSize bytes go into one RPC of about maxBytes (0: 32 KiB). An
// element larger than maxBytes travels alone; the result is never zero without an error.
func elementsPerRPC(maxBytes, elementSize int) (int, error) {
	if maxBytes == 0 {
		maxBytes = defaultRPCBytes
	}
	switch {
	case maxBytes < 0 || maxBytes > maxElementBytes:
		return 0, fmt.Errorf("MaxBytesPerRPC is %d, but one RPC holds 1 to %d bytes (a bunch of %d less %d for headers)",
			maxBytes, maxElementBytes, maxRPCBytes, rpcOverhead)
	case elementSize < 1:
		return 0, fmt.Errorf("element size %d is not positive", elementSize)
	case elementSize > maxElementBytes:
		return 0, fmt.Errorf("an element may take %d bytes, but one RPC holds %d (a bunch of %d less %d for headers); "+
			"lower its bounds or split it", elementSize, maxElementBytes, maxRPCBytes, rpcOverhead)
	}
	return max(1, maxBytes/elementSize), nil
}

// elementSize is the worst-case encoded size of a value of type t in bytes, as rpc encodes it: msgpack with structs as
// arrays, or the type's own form. Strings, slices, maps and types that encode themselves need a bound:
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//
// "max" bounds the field, "each" what is inside of it, level by level, and "key" the keys of the map whose bound stands
// before it. Arrays and pointers need no bound and are passed over. Instead of a tag the type may have a method
// MaxEncodedSize() int.
func elementSize(t reflect.Type) (int, error) {
	bound, err := boundOf(t)
	return bound.bytes, err
}

// elementBound is the worst-case encoded size of an element.
type elementBound struct {
	bytes int
	holds bool // for every value: nothing in the type has a size that only a bound limits
}

func boundOf(t reflect.Type) (elementBound, error) {
	s := sizer{}
	n, err := s.root(t)
	if err != nil {
		return elementBound{}, err
	}
	return elementBound{bytes: int(min(n, sizeCap-1)), holds: !s.varies}, nil
}

// bounded is a type that knows its own limit, in bytes.
type bounded interface{ MaxEncodedSize() int }

var (
	boundedType  = reflect.TypeFor[bounded]()
	timeType     = reflect.TypeFor[time.Time]()
	appenderType = reflect.TypeFor[encoding.BinaryAppender]()
	// selfEncoding are the interfaces by which msgpack lets a type encode itself.
	selfEncoding = []reflect.Type{
		reflect.TypeFor[interface{ MarshalMsgpack() ([]byte, error) }](),
		reflect.TypeFor[encoding.BinaryMarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](),
	}
)

// sizer walks one type. open holds the structs that the walk is inside of, to find recursion.
type sizer struct {
	open   []reflect.Type
	varies bool // something needed a bound
}

func (s *sizer) root(t reflect.Type) (int64, error) {
	name := t.Name()
	if name == "" {
		name = t.String()
	}
	switch {
	case t == timeType:
		return max(timeBytes, 1+timeBinaryBytes), nil
	case implements(t, appenderType):
		return s.custom(t, name, &bounds{})
	}
	return s.size(t, name, &bounds{})
}

func (s *sizer) size(t reflect.Type, path string, b *bounds) (int64, error) {
	switch {
	case t == timeType:
		return timeBytes, nil
	case implements(t, boundedType) || encodesItself(t):
		return s.custom(t, path, b)
	}
	switch t.Kind() {
	case reflect.Bool:
		return 1, nil
	case reflect.Int, reflect.Uint:
		return 9, nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return 1 + int64(t.Size()), nil
	case reflect.String, reflect.Interface:
		return s.custom(t, path, b)
	case reflect.Pointer:
		return s.size(t.Elem(), path, b)
	case reflect.Array:
		return s.array(t, path, b)
	case reflect.Slice:
		return s.slice(t, path, b)
	case reflect.Map:
		return s.mapping(t, path, b)
	case reflect.Struct:
		return s.structure(t, path)
	}
	return 0, fmt.Errorf("%s is a %s, which cannot be encoded", path, t)
}

// custom is for what is opaque here: its bound counts bytes.
func (s *sizer) custom(t reflect.Type, path string, b *bounds) (int64, error) {
	s.varies = true
	if n, ok := b.next(); ok {
		return add(customHeader, n), nil
	}
	if !implements(t, boundedType) {
		return 0, b.missing(path)
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own, ok := reflect.New(t).Interface().(bounded)
	if !ok {
		return 0, b.missing(path)
	}
	n := own.MaxEncodedSize()
	if n < 0 {
		return 0, fmt.Errorf("MaxEncodedSize of %s is %d", path, n)
	}
	return add(customHeader, int64(n)), nil
}

func (s *sizer) array(t reflect.Type, path string, b *bounds) (int64, error) {
	n := int64(t.Len())
	if t.Elem().Kind() == reflect.Uint8 {
		return add(lengthHeader, n), nil
	}
	each, err := s.size(t.Elem(), path+"[]", b)
	return add(countHeader(n), mul(n, each)), err
}

func (s *sizer) slice(t reflect.Type, path string, b *bounds) (int64, error) {
	s.varies = true
	n, ok := b.next()
	if !ok {
		return 0, b.missing(path)
	}
	if t.Elem().Kind() == reflect.Uint8 {
		return add(lengthHeader, n), nil
	}
	each, err := s.size(t.Elem(), path+"[]", b)
	return add(lengthHeader, mul(n, each)), err
}

func (s *sizer) mapping(t reflect.Type, path string, b *bounds) (int64, error) {
	s.varies = true
	keys := b.keys()
	n, ok := b.next()
	if !ok {
		return 0, b.missing(path)
	}
	key, err := s.size(t.Key(), path+"[key]", keys)
	if err != nil {
		return 0, err
	}
	each, err := s.size(t.Elem(), path+"[]", b)
	return add(lengthHeader, mul(n, add(key, each))), err
}

func (s *sizer) structure(t reflect.Type, path string) (int64, error) {
	if slices.Contains(s.open, t) {
		return 0, fmt.Errorf("%s is unbounded: %s contains itself; give it a MaxEncodedSize() int method, or use MaxElementBytes", path, t)
	}
	s.open = append(s.open, t)
	defer func() { s.open = s.open[:len(s.open)-1] }()

	total, count := int64(0), int64(0)
	for i := range t.NumField() {
		f := t.Field(i)
		if skipped(f) {
			continue
		}
		n, err := s.field(f, path)
		if err != nil {
			return 0, err
		}
		total, count = add(total, n), count+1
		if f.Anonymous {
			count += 16 // its fields may stand among these and lengthen the header
		}
	}
	return add(countHeader(count), total), nil
}

func (s *sizer) field(f reflect.StructField, path string) (int64, error) {
	path += "." + f.Name
	tag := f.Tag.Get("quiver")
	b, err := parseBounds(tag)
	if err != nil {
		return 0, fmt.Errorf("tag %q of %s: %w", tag, path, err)
	}
	n, err := s.size(f.Type, path, b)
	if err == nil && !b.used() {
		err = fmt.Errorf("tag %q of %s has a bound that nothing in %s needs", tag, path, f.Type)
	}
	return n, err
}

// skipped holds for the fields that msgpack leaves out.
func skipped(f reflect.StructField) bool {
	name, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
	return name == "-" || !f.IsExported() && !f.Anonymous
}

// implements holds for a type whose pointer has the method, too: fields are addressable when they are encoded.
func implements(t, face reflect.Type) bool {
	return t.Implements(face) || t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(face)
}

func encodesItself(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	for _, face := range selfEncoding {
		if implements(t, face) {
			return true
		}
	}
	// msgpack's CustomEncoder, found by name: msgpack is imported by rpc only.
	if _, ok := t.MethodByName("EncodeMsgpack"); ok {
		return true
	}
	_, ok := reflect.PointerTo(t).MethodByName("EncodeMsgpack")
	return ok
}

// countHeader is msgpack's header of a fixed number of elements.
func countHeader(n int64) int64 {
	switch {
	case n < 16:
		return 1
	case n < 1<<16:
		return 3
	}
	return lengthHeader
}

func add(a, b int64) int64 { return min(a+b, sizeCap) }

func mul(a, b int64) int64 {
	if b != 0 && a > sizeCap/b {
		return sizeCap
	}
	return a * b
}
