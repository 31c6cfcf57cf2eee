package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// lengthAt reads a header of one family of msgpack's. Its length has 4 bits behind the code short (or, if short is 0, 8 bits behind
// code16-1), 16 bits or 32 bits. It refuses a length greater than the number of bytes left, because each element takes at least one.
func lengthAt(b []byte, short, code16, code32 byte) (length int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errShort
	}
	c, rest := b[0], b[1:]
	var n uint64
	switch {
	case short != 0 && c&0xf0 == short:
		n = uint64(c & 0x0f)
	case short == 0 && c == code16-1 && len(rest) >= 1:
		n, rest = uint64(rest[0]), rest[1:]
	case c == code16 && len(rest) >= 2:
		n, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case c == code32 && len(rest) >= 4:
		n, rest = uint64(binary.BigEndian.Uint32(rest)), rest[4:]
	case c == code16 || c == code32 || short == 0 && c == code16-1:
		return 0, nil, errShort
	default:
		return 0, nil, wrongCode(c, familyOf(code16))
	}
	if n > uint64(len(rest)) {
		return 0, nil, fmt.Errorf("it claims a length of %d with %d bytes left", n, len(rest))
	}
	return int(n), rest, nil
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
