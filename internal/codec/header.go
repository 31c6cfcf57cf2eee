package codec

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// family is a family of msgpack codes for values that begin with a length.
type family struct {
	name string

	// Codes that hold the length, and the bits that identify them. A mask of 0 means that there
	// are none.
	short, mask byte

	code8          byte // precedes a length of 8 bits; 0 if there is none
	code16, code32 byte // precede a length of 16 and 32 bits
}

var (
	arrayCodes  = family{"an array", msgpcode.FixedArrayLow, 0xf0, 0, msgpcode.Array16, msgpcode.Array32}
	mapCodes    = family{"a map", msgpcode.FixedMapLow, 0xf0, 0, msgpcode.Map16, msgpcode.Map32}
	stringCodes = family{"a string", msgpcode.FixedStrLow, 0xe0, msgpcode.Str8, msgpcode.Str16, msgpcode.Str32}
	bytesCodes  = family{"bytes", 0, 0, msgpcode.Bin8, msgpcode.Bin16, msgpcode.Bin32}
)

// fits returns an error if n does not fit the type of s. huge means that n is an unsigned
// number above the largest int64.
func checkRange(s *schema, n int64, huge bool) error {
	switch {
	case huge && (s.form == formInt || s.bits < 64):
		return fmt.Errorf("%d overflows %s", uint64(n), s.name)
	case huge,
		s.form == formUint && n >= 0 && n>>s.bits == 0,
		s.form == formInt && n>>(s.bits-1) == n>>63:
		return nil
	}
	return fmt.Errorf("%d overflows %s", n, s.name)
}

// wrongCode returns the error for a code that is not one of want.
func wrongCode(c byte, want string) error {
	return fmt.Errorf("has code 0x%02x where %s is expected", c, want)
}
