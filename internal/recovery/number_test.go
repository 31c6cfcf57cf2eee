package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	const farthest = 16384 // the reliable buffer of package bunch at most
	for _, c := range []struct {
		expected, truncated uint64
		width               int
		want                uint64
	}{
		{0, 0, 16, 0},
		{0, 65535, 16, 65535}, // nothing lies below zero
		{1, 65535, 16, 65535},
		{0xa82f30ea + 1, 0x9b32, 16, 0xa82f9b32}, // RFC 9000, A.3
		{65535, 0, 16, 65536},
		{65536, 65535, 16, 65535},
		{65536, 16383, 16, 65536 + 16383}, // the furthest of R = 16,384
		{65536 + 100, 65535, 16, 65535},
		{3 * 65536, 32768, 16, 3*65536 + 32768},
		{3*65536 + 32768, 0, 16, 4 * 65536},
		{1 << 32, 1<<32 - 1, 32, 1<<32 - 1},
		{1<<32 - 1, 0, 32, 1 << 32},
		{0, 1 << 31, 32, 1 << 31},
		{5, 3, 32, 3},
		{10 << 32, 1<<31 - 1, 32, 10<<32 + 1<<31 - 1},
		{10 << 32, 1<<31 + 1, 32, 9<<32 + 1<<31 + 1},
		{1<<62 - 1, 0xffffffff, 32, 1<<62 - 1},
		{1<<62 - 1, 0, 32, 1<<62 - 1<<32}, // numbers end at 2^62
	} {
		require.Equal(t, c.want, Number(c.expected, c.truncated, c.width), "%+v", c)
	}
	for expected := uint64(65536 - 20_000); expected < 65536+20_000; expected += 7 {
		for _, ahead := range []uint64{0, 1, 255, farthest - 1} {
			n := expected + ahead
			require.Equal(t, n, Number(expected, n&0xffff, 16))
		}
		for _, behind := range []uint64{1, 255, farthest} {
			n := expected - behind
			require.Equal(t, n, Number(expected, n&0xffff, 16))
		}
	}
}
