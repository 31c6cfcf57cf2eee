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
	// maxTotal is larger than any value. Sums and products of sizes are cut off there, so that
	// they can't overflow.
	maxTotal = int64(1) << 40
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

// A sizer adds up the maximum size of an encoded value.
type sizer struct {
	enclosing  []*schema // the schemas that enclose the value, to detect recursion
	needsBound bool      // some part needs a bound, whether or not it has one
}

// codecSize returns the maximum number of bytes that c.Append writes.
func (s *sizer) codecSize(c *Codec) (int64, error) {
	name := cmp.Or(c.typ.Name(), c.typ.String())
	switch {
	case c.kind == kindNone:
		return 0, nil
	case c.kind == kindBinary && c.typ == timeType:
		return timeBinaryBytes, nil
	case c.schema == nil:
		s.needsBound = true
		return boundedSize(customHeader, c.maxEncoded, name, bareTag)
	}
	return s.maxSize(c.schema, name, bareTag)
}

// What an error asks the user to add where a bound is missing.
const (
	bareTag = `quiver:"max=N"`
	eachTag = `each=N to its quiver tag`
	keyTag  = `key=N to its quiver tag`
)

// maxSize returns the maximum size of a value of v. If v has no bound, the error names path, which
// is v's place in the outermost type, and asks for missing, the tag that would bound it.
func (s *sizer) maxSize(v *schema, path, missing string) (int64, error) {
	if v.maxEncoded != unbounded && !v.boundsContent() {
		// MaxEncodedSize bounds all of the value's encoding, whatever its parts are.
		s.needsBound = true
		return int64(v.maxEncoded), nil
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
		s.needsBound = true
		return boundedSize(lengthHeader, v.bound(), path, missing)
	case formOpaque:
		s.needsBound = true
		return boundedSize(customHeader, v.bound(), path, missing)
	}
	return s.compositeSize(v, path, missing)
}

// compositeSize returns the maximum size of a value that consists of others.
func (s *sizer) compositeSize(v *schema, path, missing string) (int64, error) {
	if slices.Contains(s.enclosing, v) {
		return 0, fmt.Errorf("%s is unbounded, because %v contains itself: "+
			"add a MaxEncodedSize() int method, or use MaxElementBytes", path, v.typ)
	}
	s.enclosing = append(s.enclosing, v)
	defer func() { s.enclosing = s.enclosing[:len(s.enclosing)-1] }()
	switch v.form {
	case formPointer:
		return s.maxSize(v.elem, path, missing)
	case formArray:
		each, err := s.maxSize(v.elem, path+"[]", missing)
		return clamp(countHeader(v.length) + times(v.length, each)), err
	case formStruct:
		return s.structSize(v, path)
	}
	return s.manySize(v, path, missing)
}

// manySize returns the maximum size of a slice or map.
func (s *sizer) manySize(v *schema, path, missing string) (int64, error) {
	s.needsBound = true
	if _, err := boundedSize(0, v.max, path, missing); err != nil {
		return 0, err
	}
	inside := path + "[]"
	key := int64(0)
	if v.form == formMap {
		var err error
		key, err = s.maxSize(v.key, path+"[key]", keyTag)
		if err != nil {
			return 0, err
		}
		inside = path + "[value]"
	}
	each, err := s.maxSize(v.elem, inside, eachTag)
	return clamp(lengthHeader + times(v.max, key+each)), err
}

// structSize returns the maximum size of a struct.
func (s *sizer) structSize(v *schema, path string) (int64, error) {
	total := countHeader(len(v.fields))
	for _, f := range v.fields {
		n, err := s.maxSize(f.schema, path+"."+f.name, bareTag)
		if err != nil {
			return 0, err
		}
		total = clamp(total + n)
	}
	return total, nil
}

// boundedSize returns header+bound. If bound is unbounded, it returns an error that tells the user
// how to add one.
func boundedSize(header int64, bound int, path, missing string) (int64, error) {
	if bound == unbounded {
		return 0, fmt.Errorf("%s is unbounded: add %s, a MaxEncodedSize() int method to its type, or use MaxElementBytes",
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

// clamp cuts off n at maxTotal in either direction.
func clamp(n int64) int64 { return max(-maxTotal, min(n, maxTotal)) }

// times returns n*each, cut off at maxTotal in either direction.
func times(n int, each int64) int64 {
	switch {
	case each == 0 || int64(n) <= maxTotal/max(each, -each):
		return int64(n) * each
	case each < 0:
		return -maxTotal
	}
	return maxTotal
}
