package codec

import "slices"

// picky reports whether Encode must check each value of s because the peer would refuse some
// of them. The peer refuses values that exceed a bound, strings that are not UTF-8, keys that
// are NaN, and values that are nested too deeply or take far more memory than encoded bytes.
func picky(s *schema) bool {
	return pickyWithin(s, map[*schema]bool{}, false) || excess(s) > memoryFree
}

// pickyWithin reports whether s or a part of it is picky, apart from memory. open holds the
// schemas that contain s, to detect recursion. key is true if s is part of a map's key.
func pickyWithin(s *schema, open map[*schema]bool, key bool) bool {
	switch {
	case s == nil:
		return false
	case open[s], len(open) > maxDepth, s.form == formString,
		s.max != unbounded, s.whole != unbounded, key && s.form == formFloat:
		return true
	}
	open[s] = true
	defer delete(open, s)
	if pickyWithin(s.key, open, true) || pickyWithin(s.elem, open, key) {
		return true
	}
	return slices.ContainsFunc(s.fields, func(f schemaField) bool { return pickyWithin(f.schema, open, key) })
}

// least returns the minimum size in bytes of an encoded value of s.
func least(s *schema) int64 {
	switch s.form {
	case formFloat:
		return 1 + int64(s.bits/8)
	case formByteArray:
		return 2 + int64(s.length)
	case formTime:
		return 6
	case formArray:
		return clamp(countHeader(s.length) + times(s.length, least(s.elem)))
	case formStruct:
		n := countHeader(len(s.fields))
		for _, f := range s.fields {
			n = clamp(n + least(f.schema))
		}
		return n
	}
	return 1
}

// excess returns the number of bytes by which the memory of a value of s may exceed
// memoryRatio times its encoded size. walk refuses a value whose excess is above memoryFree.
// For most types, excess is negative. s must not contain itself.
func excess(s *schema) int64 {
	switch s.form {
	case formArray:
		return -memoryRatio*countHeader(s.length) + times(s.length, excess(s.elem))
	case formStruct:
		n := -memoryRatio * countHeader(len(s.fields))
		for _, f := range s.fields {
			n += excess(f.schema)
		}
		return clamp(n)
	case formPointer:
		return max(-memoryRatio, int64(s.elem.size)+excess(s.elem))
	case formSlice:
		if int64(s.elem.size)+excess(s.elem) > 0 {
			return endless // each element adds to the excess, and s does not bound their number
		}
		return -memoryRatio
	case formMap:
		slot := int64(slotSize(s))
		// A map that has just grown has 16/7 slots per entry.
		if 3*slot+excess(s.key)+excess(s.elem) > 0 {
			return endless
		}
		return -memoryRatio + mapHeader + mapTable + mapSlots*slot
	}
	return -memoryRatio * least(s)
}
