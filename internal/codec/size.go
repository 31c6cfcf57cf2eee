package codec

import (
	"cmp"
	"fmt"
	"slices"
)

// Worst-case sizes of msgpack's headers and of times, in bytes.
const (
	lengthHeader = 5  // a string, []byte, slice or map: code and u32
	customHeader = 6  // an extension type or a type that encodes itself: code, u32 and type
	timeBytes    = 15 // a time inside another value: msgpack's timestamp 96
	// timeBinaryBytes is the size of a time.Time that is not inside another value: a length
	// and the longest output of AppendBinary.
	timeBinaryBytes = 1 + 16
	// endless is larger than any value. Sums and products of sizes are cut off there, so that
	// they can't overflow.
	endless = int64(1) << 40
)

// Size is the range of sizes that the encoding of a type can have.
type Size struct {
	// Least is the minimum number of bytes that Append writes for a value.
	Least int
	// Most is the maximum number of bytes that Append writes for a value. It is 0 if
	// Unbounded is set.
	Most int
	// Unbounded is nil unless some part of the type needs a bound and has none. The error
	// names the first such part.
	Unbounded error
	// Fixed is true if no part of the type needs a bound.
	Fixed bool
}

// A sizer adds up how large an encoded value can get.
type sizer struct {
	open   []*schema // the schemas that enclose the value, to detect recursion
	varies bool      // some part needs a bound, whether or not it has one
}

// codec returns the maximum number of bytes that c.Append writes.
func (s *sizer) codec(c *Codec) (int64, error) {
	name := cmp.Or(c.typ.Name(), c.typ.String())
	switch {
	case c.kind == kindNone:
		return 0, nil
	case c.kind == kindBinary && c.typ == timeType:
		return timeBinaryBytes, nil
	case c.schema == nil:
		s.varies = true
		return atMost(customHeader, c.whole, name, bareTag)
	}
	return s.value(c.schema, name, bareTag)
}

// What an error asks the user to add where a bound is missing.
const (
	bareTag = `quiver:"max=N"`
	eachTag = `each=N to its quiver tag`
	keyTag  = `key=N to its quiver tag`
)

// value returns the worst-case size of a value of v. If v has no bound, the error names path,
// which is where we found v in the outermost type, and asks for missing, the tag that would
// bound it.
func (s *sizer) value(v *schema, path, missing string) (int64, error) {
	if v.whole != unbounded && !v.counted() {
		// MaxEncodedSize bounds all of the value's encoding, whatever its parts are.
		s.varies = true
		return int64(v.whole), nil
	}
	switch v.form {
	case formBool:
		return 1, nil
	case formInt, formUint, formFloat:
		return 1 + int64(v.bits/8), nil
	case formTime:
		return timeBytes, nil
	case formByteArray:
		return lengthHeader + int64(v.length), nil
	case formString, formBytes:
		s.varies = true
		return atMost(lengthHeader, v.tightest(), path, missing)
	case formOpaque:
		s.varies = true
		return atMost(customHeader, v.tightest(), path, missing)
	}
	return s.composite(v, path, missing)
}

// composite returns the worst-case size of a value that consists of others.
func (s *sizer) composite(v *schema, path, missing string) (int64, error) {
	if slices.Contains(s.open, v) {
		return 0, fmt.Errorf("%s is unbounded: %v contains itself; "+
			"give it a MaxEncodedSize() int method, or use MaxElementBytes", path, v.typ)
	}
	s.open = append(s.open, v)
	defer func() { s.open = s.open[:len(s.open)-1] }()
	switch v.form {
	case formPointer:
		return s.value(v.elem, path, missing)
	case formArray:
		each, err := s.value(v.elem, path+"[]", missing)
		return clamp(countHeader(v.length) + times(v.length, each)), err
	case formStruct:
		return s.structure(v, path)
	}
	return s.many(v, path, missing)
}

// many returns the worst-case size of a slice or map.
func (s *sizer) many(v *schema, path, missing string) (int64, error) {
	s.varies = true
	if _, err := atMost(0, v.max, path, missing); err != nil {
		return 0, err
	}
	inside := path + "[]"
	key := int64(0)
	if v.form == formMap {
		var err error
		key, err = s.value(v.key, path+"[key]", keyTag)
		if err != nil {
			return 0, err
		}
		inside = path + "[value]"
	}
	each, err := s.value(v.elem, inside, eachTag)
	return clamp(lengthHeader + times(v.max, key+each)), err
}

// structure returns the worst-case size of a struct.
func (s *sizer) structure(v *schema, path string) (int64, error) {
	total := countHeader(len(v.fields))
	for _, f := range v.fields {
		n, err := s.value(f.schema, path+"."+f.name, bareTag)
		if err != nil {
			return 0, err
		}
		total = clamp(total + n)
	}
	return total, nil
}

// atMost returns header+bound. If bound is unbounded, it returns an error that tells the user how
// to add one.
func atMost(header int64, bound int, path, missing string) (int64, error) {
	if bound == unbounded {
		return 0, fmt.Errorf("%s is unbounded; add %s, a MaxEncodedSize() int method to its type, or use MaxElementBytes",
			path, missing)
	}
	return header + int64(bound), nil
}

// countHeader returns the size of msgpack's header for n elements.
func countHeader(n int) int64 {
	switch {
	case n < 16:
		return 1
	case n < 1<<16:
		return 3
	}
	return lengthHeader
}

// clamp cuts off n at endless in either direction.
func clamp(n int64) int64 { return max(-endless, min(n, endless)) }

// times returns n*each, cut off at endless in either direction.
func times(n int, each int64) int64 {
	switch {
	case each == 0 || int64(n) <= endless/max(each, -each):
		return int64(n) * each
	case each < 0:
		return -endless
	}
	return endless
}
