package codec

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/quivernet/quiver/internal/words"
)

// The functions in this file don't check the payload, because measure has just checked it against
// the same schema. We don't use the msgpack library's decoder, since that allocates room for any
// length that a payload claims, and makes garbage for each struct.

// read decodes a value of s from the start of b into v, which must be addressable and zero, and
// returns the remaining bytes. It fails only if a type's own UnmarshalBinary or UnmarshalText
// does, or if a map has the same key twice.
func read(s *schema, b []byte, v reflect.Value) (rest []byte, err error) {
	switch s.form {
	case formBool:
		v.SetBool(b[0] == msgpcode.True)
		return b[1:], nil
	case formInt:
		n, rest := readInteger(b)
		v.SetInt(n)
		return rest, nil
	case formUint:
		n, rest := readInteger(b)
		v.SetUint(uint64(n))
		return rest, nil
	case formFloat:
		v.SetFloat(floatAt(b, s.bits))
		return b[1+s.bits/8:], nil
	case formString:
		p, rest := readBytes(b)
		v.SetString(string(p))
		return rest, nil
	case formByteArray:
		p, rest := readBytes(b)
		copy(v.Bytes(), p)
		return rest, nil
	case formTime:
		t, rest := readTime(b)
		*v.Addr().Interface().(*time.Time) = t
		return rest, nil
	case formStruct, formArray:
		return readFixed(s, b, v)
	}
	if b[0] == msgpcode.Nil {
		if s.form == formOpaque && !s.nullable {
			// The type has no nil, so the sender's value marshaled itself to no bytes.
			return b[1:], readOpaque(s, nil, v)
		}
		return b[1:], nil // v is zero already
	}
	return readPresent(s, b, v)
}

// readFixed reads a struct or an array. It skips the header, because the schema says how many
// parts there are.
func readFixed(s *schema, b []byte, v reflect.Value) (rest []byte, err error) {
	_, b = readLength(b)
	if s.form == formArray {
		return readElements(s, b, v)
	}
	for i := range s.fields {
		f := &s.fields[i]
		part := v
		for _, k := range f.index {
			part = part.Field(k)
		}
		if b, err = read(f.schema, b, part); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readPresent reads a non-nil value of a type that may be nil.
func readPresent(s *schema, b []byte, v reflect.Value) (rest []byte, err error) {
	switch s.form {
	case formPointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return read(s.elem, b, p.Elem())
	case formBytes:
		p, rest := readBytes(b)
		v.SetBytes(append(make([]byte, 0, len(p)), p...))
		return rest, nil
	case formOpaque:
		p, rest := readBytes(b)
		return rest, readOpaque(s, p, v)
	case formMap:
		return readMap(s, b, v)
	}

	// What remains is a slice.
	n, b := readLength(b)
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	return readElements(s, b, v)
}

// readOpaque decodes a value with its own UnmarshalText or UnmarshalBinary.
func readOpaque(s *schema, p []byte, v reflect.Value) error {
	if s.text {
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(p)
	}
	return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(p)
}

// readElements reads the elements of v, an array or a slice of the right length.
func readElements(s *schema, b []byte, v reflect.Value) (rest []byte, err error) {
	for i := range v.Len() {
		if b, err = read(s.elem, b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readMap reads a map. It is here that a duplicate key is found, because walk doesn't look for
// one. All entries are read into the same key and elem, which SetMapIndex copies.
func readMap(s *schema, b []byte, v reflect.Value) (rest []byte, err error) {
	n, b := readLength(b)
	t := v.Type()
	m := reflect.MakeMapWithSize(t, n)
	key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	for range n {
		key.SetZero()
		elem.SetZero()
		if b, err = read(s.key, b, key); err != nil {
			return nil, err
		}
		if b, err = read(s.elem, b, elem); err != nil {
			return nil, err
		}
		m.SetMapIndex(key, elem)
	}
	if m.Len() != n {
		return nil, fmt.Errorf("map of %d entries has only %s", n, words.Plural(m.Len(), "distinct key", "distinct keys"))
	}
	v.Set(m)
	return b, nil
}

// floatAt returns the float that follows the code at the start of b.
func floatAt(b []byte, bits int) float64 {
	if bits == 32 {
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[1:])))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
}

// readInteger reads an integer of any width. A uint64 above the largest int64 wraps around,
// and uint64(n) restores it.
func readInteger(b []byte) (n int64, rest []byte) {
	switch b[0] {
	case msgpcode.Uint8:
		return int64(b[1]), b[2:]
	case msgpcode.Int8:
		return int64(int8(b[1])), b[2:]
	case msgpcode.Uint16:
		return int64(binary.BigEndian.Uint16(b[1:])), b[3:]
	case msgpcode.Int16:
		return int64(int16(binary.BigEndian.Uint16(b[1:]))), b[3:]
	case msgpcode.Uint32:
		return int64(binary.BigEndian.Uint32(b[1:])), b[5:]
	case msgpcode.Int32:
		return int64(int32(binary.BigEndian.Uint32(b[1:]))), b[5:]
	case msgpcode.Uint64, msgpcode.Int64:
		return int64(binary.BigEndian.Uint64(b[1:])), b[9:]
	}
	return int64(int8(b[0])), b[1:]
}

// readLength reads the header of a string, bytes, an array or a map.
func readLength(b []byte) (n int, rest []byte) {
	switch c := b[0]; c {
	case msgpcode.Str8, msgpcode.Bin8:
		return int(b[1]), b[2:]
	case msgpcode.Str16, msgpcode.Bin16, msgpcode.Array16, msgpcode.Map16:
		return int(binary.BigEndian.Uint16(b[1:])), b[3:]
	case msgpcode.Str32, msgpcode.Bin32, msgpcode.Array32, msgpcode.Map32:
		return int(binary.BigEndian.Uint32(b[1:])), b[5:]
	default:
		if msgpcode.IsFixedString(c) {
			return int(c & msgpcode.FixedStrMask), b[1:]
		}
		return int(c & 0x0f), b[1:] // a short array or map
	}
}

// readBytes reads a string or bytes; p aliases b.
func readBytes(b []byte) (p, rest []byte) {
	n, b := readLength(b)
	return b[:n:n], b[n:]
}

// readTime reads a timestamp extension of 32, 64 or 96 bits. The result is a local time, as
// time.Unix returns it, except that a zero time is in UTC and therefore equals time.Time{}.
func readTime(b []byte) (t time.Time, rest []byte) {
	switch b[0] {
	case msgpcode.FixExt4:
		t = time.Unix(int64(binary.BigEndian.Uint32(b[2:])), 0)
		rest = b[6:]
	case msgpcode.FixExt8:
		const secondBits = 34
		n := binary.BigEndian.Uint64(b[2:])
		t = time.Unix(int64(n&(1<<secondBits-1)), int64(n>>secondBits))
		rest = b[10:]
	default:
		nanoseconds := binary.BigEndian.Uint32(b[3:])
		seconds := binary.BigEndian.Uint64(b[7:])
		t = time.Unix(int64(seconds), int64(nanoseconds))
		rest = b[15:]
	}
	if t.IsZero() {
		t = t.UTC()
	}
	return t, rest
}
