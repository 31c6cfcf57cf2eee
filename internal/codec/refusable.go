package codec

import "slices"

// canBeRefused reports whether the peer would refuse some values of s, so that Encode must check
// each one. It refuses a value that exceeds a bound, a string that isn't UTF-8, a key that is NaN,
// and any value that is nested too deeply or uses far more memory than it has encoded bytes.
func canBeRefused(s *schema) bool {
	return refusable(s, map[*schema]bool{}, false) || excess(s) > memoryFree
}

// refusable is canBeRefused except for memory. open holds the schemas that enclose s, to detect
// recursion, and key says that s is part of a map's key.
func refusable(s *schema, open map[*schema]bool, key bool) bool {
	switch {
	case s == nil:
		return false
	case open[s], len(open) > maxDepth, s.form == formString,
		s.max != unbounded, s.maxEncoded != unbounded, key && s.form == formFloat:
		return true
	}
	open[s] = true
	defer delete(open, s)
	if refusable(s.key, open, true) || refusable(s.elem, open, key) {
		return true
	}
	return slices.ContainsFunc(s.fields, func(f schemaField) bool { return refusable(f.schema, open, key) })
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

// excess returns by how many bytes the memory of a value of s may exceed memoryRatio times its
// encoded size, which is a negative number for most types. A walk refuses a value whose excess is
// above memoryFree. s must not contain itself.
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
			return maxTotal // each element adds to the excess, and there may be any number of them
		}
		return -memoryRatio
	case formMap:
		slot := int64(slotSize(s))
		// A map that has just grown has 16/7 slots per entry.
		if 3*slot+excess(s.key)+excess(s.elem) > 0 {
			return maxTotal
		}
		return -memoryRatio + mapHeader + mapTable + mapSlots*slot
	}
	return -memoryRatio * least(s)
}
