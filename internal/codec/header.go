package codec

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// lengthAt reads a header of one family of msgpack's. Its length has 4 bits behind the code short (or, if short is 0, 8 bits behind
// code16-1), 16 bits or 32 bits. It refuses a length greater than the number of bytes left, because each element takes at least one.
func lengthAt(b []byte, short, code16, code32 byte) (length int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errShort
	}
	header := 1
	switch c := b[0]; {
	case short != 0 && c&0xf0 == short:
	case short == 0 && c == code16-1:
		header = 2
	case c == code16:
		header = 3
	case c == code32:
		header = 5
	default:
		return 0, nil, wrongCode(c, familyOf(code16))
	}
	if len(b) < header {
		return 0, nil, errShort
	}
	length, rest = readLength(b)
	if uint(length) > uint(len(rest)) { // an int of 32 bits may be negative
		return 0, nil, fmt.Errorf("it claims a length of %d with %d bytes left", uint(length), len(rest))
	}
	return length, rest, nil
}

func familyOf(code16 byte) string {
	switch code16 {
	case msgpcode.Array16:
		return "an array"
	case msgpcode.Map16:
		return "a map"
	case msgpcode.Bin16:
		return "bytes"
	}
	return "a string"
}

// fits checks that n fits s; huge means that n is an unsigned number above the largest int64.
func fits(s *schema, n int64, huge bool) error {
	switch {
	case s.form == formUint && s.bits == 64 && (huge || n >= 0):
		return nil
	case huge:
	case s.form == formUint && n >= 0 && n>>s.bits == 0:
		return nil
	case s.form == formInt && n>>(s.bits-1) == n>>63:
		return nil
	}
	if huge {
		return fmt.Errorf("%d does not fit %s", uint64(n), s.name)
	}
	return fmt.Errorf("%d does not fit %s", n, s.name)
}

func wrongCode(c byte, want string) error {
	return fmt.Errorf("it has code 0x%02x where %s should be", c, want)
}
