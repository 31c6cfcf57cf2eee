package bits

import (
	"fmt"
	"math/bits"
)

// Required returns the number of bits that can hold every value from 0 to most - least. It
// panics unless least < most.
func Required(least, most int32) int {
	if least >= most {
		panic(fmt.Sprintf("bits: the range [%d, %d] needs no bits", least, most))
	}
	return bits.Len32(uint32(most) - uint32(least))
}

// Hash returns the number that represents a text in a stream. It is Jenkins' one-at-a-time
// hash without its last three steps, computed over the text with a to z replaced by A to Z.
func Hash(text string) uint32 {
	var h uint32
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		h += uint32(c)
		h += h << 10
		h ^= h >> 6
	}
	return h
}

// Distance returns how far sequence a is after b, where sequences wrap around. It is
// negative if a is before b.
func Distance(a, b uint16) int { return int(int16(a - b)) }
