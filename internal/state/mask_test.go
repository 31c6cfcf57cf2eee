package state_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestMaskOnTheWire(t *testing.T) {
	for _, c := range []struct {
		mask state.Mask
		n    int
		wire string
	}{
		{0b1, 1, "\x01"},
		{0x80, 8, "\x80"},
		{0x101, 9, "\x01\x01"},
		{0x800, 12, "\x00\x08"},
		{0x8001, 16, "\x01\x80"},
		{0x10000, 17, "\x04\x01"},
		{0x18000, 20, "\x06\x80\x01"},
		{1 << 63, 64, "\x80\x80"},
		{1<<64 - 1, 64, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
	} {
		b := state.AppendMask([]byte{7}, c.mask, c.n)
		assert.Equal(t, c.wire, string(b[1:]), "%b of %d", c.mask, c.n)
		m, rest, err := state.ReadMask(append(b[1:], 9), c.n)
		require.NoError(t, err)
		assert.Equal(t, c.mask, m)
		assert.Equal(t, []byte{9}, rest)
	}
}

func TestMaskRefusals(t *testing.T) {
	for _, c := range []struct {
		wire string
		n    int
		text string
	}{
		{"", 3, "mask is truncated"},
		{"\x01", 9, "mask is truncated"},
		{"", 17, "mask is truncated"},
		{"\x03\x01", 17, "mask is truncated"},
		{"\x00", 8, "mask has no fields"},
		{"\x00\x00", 16, "mask has no fields"},
		{"\x00", 64, "mask has no fields"},
		{"\x08", 3, "mask has field 3; the plan has only 3 fields"},
		{"\x00\x10", 12, "mask has field 12; the plan has only 12 fields"},
		{"\x04\x02", 17, "mask has field 17; the plan has only 17 fields"},
		{"\x02", 1, "mask has field 1; the plan has only 1 field"},
		{"\x80\x01", 17, "mask has field 56; the plan has only 17 fields"},
		{"\x03\x01\x00", 64, "mask has an empty byte"},
	} {
		_, _, err := state.ReadMask([]byte(c.wire), c.n)
		assert.EqualError(t, err, c.text, "%x of %d", c.wire, c.n)
	}
}

// TestMaskHasOneForm reads every short message, and expects that what was read is written alike.
func TestMaskHasOneForm(t *testing.T) {
	r := testkit.Rand(t)
	read := 0
	for range 100_000 {
		n, b := 1+r.IntN(64), make([]byte, r.IntN(11))
		for i := range b {
			b[i] = byte(r.Uint32() & r.Uint32())
		}
		m, rest, err := state.ReadMask(b, n)
		if err != nil {
			continue
		}
		read++
		require.Equal(t, b[:len(b)-len(rest)], state.AppendMask(nil, m, n), "%x of %d", b, n)
	}
	assert.Greater(t, read, 5000)
}

func TestMaskEach(t *testing.T) {
	m := state.Mask(1<<63 | 1<<5 | 1)
	assert.Equal(t, []int{0, 5, 63}, slices.Collect(m.Each))
	for i := range m.Each {
		assert.Zero(t, i)
		break
	}
}
