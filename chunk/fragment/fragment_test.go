package fragment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// raw writes a fragment packet with any numbers, which Append would not.
func raw(sequence uint16, kind, index, count byte, data []byte) []byte {
	b := binary.LittleEndian.AppendUint16(make([]byte, 4), sequence)
	word := uint32(kind) | uint32(index)<<2 | uint32(count)<<10
	b = append(b, byte(word), byte(word>>8), byte(word>>16))
	b = append(b, data...)
	bits.Seal(b, protocol)
	return b
}

func TestParseRefuses(t *testing.T) {
	dirty := raw(7, 0, 0, 1, []byte{1})
	dirty[8] |= 0x80
	bits.Seal(dirty, protocol)
	damaged := raw(7, 0, 0, 1, []byte{1})
	damaged[9]++
	for name, c := range map[string]struct {
		packet []byte
		why    error
	}{
		"nothing":                        {nil, errShort},
		"3 bytes":                        {[]byte{1, 2, 3}, errShort},
		"no header":                      {raw(7, 0, 0, 1, nil)[:8], ErrChecksum},
		"header cut off":                 {reseal(raw(7, 0, 0, 1, nil)[:8]), errShort},
		"no data":                        {raw(7, 0, 0, 1, nil), errEmpty},
		"damaged":                        {damaged, ErrChecksum},
		"padding":                        {dirty, errPadding},
		"type 1":                         {raw(7, 1, 0, 1, []byte{1}), ErrRegular},
		"type 3":                         {raw(7, 3, 0, 1, []byte{1}), ErrRegular},
		"0 fragments":                    {raw(7, 0, 0, 0, []byte{1}), errCount},
		"index is the number":            {raw(7, 0, 3, 3, []byte{1}), errIndex},
		"index 255 of 255":               {raw(7, 0, 255, 255, []byte{1}), errIndex},
		"1,025 bytes":                    {raw(7, 0, 0, 1, make([]byte, Size+1)), errOver},
		"1,023 bytes, not the last":      {raw(7, 0, 0, 2, make([]byte, Size-1)), errUnder},
		"64 KiB, larger than a datagram": {raw(7, 0, 0, 1, make([]byte, 65536)), errOver},
	} {
		_, err := Parse(c.packet, protocol)
		require.ErrorIs(t, err, c.why, name)
	}
}

func reseal(b []byte) []byte {
	bits.Seal(b, protocol)
	return b
}

func TestAppendPanics(t *testing.T) {
	for _, f := range []Fragment{
		{Count: 0, Data: []byte{1}},
		{Count: 256, Data: make([]byte, Size)},
		{Index: 1, Count: 1, Data: []byte{1}},
		{Index: -1, Count: 1, Data: []byte{1}},
		{Count: 1},
		{Count: 1, Data: make([]byte, Size+1)},
		{Count: 2, Data: make([]byte, 5)},
	} {
		require.Panics(t, func() { Append(nil, protocol, f) }, "%d of %d with %d bytes", f.Index, f.Count, len(f.Data))
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	f := Fragment{Sequence: 9, Index: 1, Count: 2, Data: []byte("abc")}
	b := Append([]byte("head"), protocol, f)
	require.Equal(t, "head", string(b[:4]))
	require.Equal(t, Append(nil, protocol, f), b[4:])
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ size, count, tail int }{
		{1, 1, 1}, {1023, 1, 1023}, {1024, 1, 1024}, {1025, 2, 1}, {2048, 2, 1024}, {2049, 3, 1}, {MaxBlock - 1, 255, 1023}, {MaxBlock, 255, 1024},
	} {
		block := content(c.size, 1)
		parts, err := Split(5, block)
		require.NoError(t, err)
		require.Equal(t, c.count, parts.Len(), "%d bytes", c.size)
		var joined []byte
		for i := range parts.Len() {
			f := parts.At(i)
			require.NoError(t, f.check())
			require.Equal(t, uint16(5), f.Sequence)
			joined = append(joined, f.Data...)
		}
		require.True(t, bytes.Equal(block, joined))
		require.Len(t, parts.At(c.count-1).Data, c.tail)
	}
	for _, size := range []int{0, MaxBlock + 1} {
		_, err := Split(5, make([]byte, size))
		require.ErrorIs(t, err, ErrBlockSize)
	}
	_, err := Split(5, make([]byte, MaxBlock+1))
	require.ErrorContains(t, err, "block 5 has 261121 bytes; it must have 1 to 261120")
}

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]Config{
		"MaxFragments":                 {MaxFragments: 256},
		"MaxFragments is -1":           {MaxFragments: -1},
		"MaxBytes is 1024":             {MaxBytes: 1024},
		"MaxBytes is 4095":             {MaxBytes: 4095, MaxFragments: 4},
		"MaxBytes is 1073741824":       {MaxBytes: 1 << 30},
		"Config.Lifetime is -1ns; it":  {Lifetime: -1},
		"Config.MaxFragments = 255 ne": {MaxBytes: MaxBlock - 1},
	} {
		_, err := NewReassembler(cfg)
		require.ErrorContains(t, err, field)
	}
	_, err := NewReassembler(Config{MaxBytes: 4096, MaxFragments: 4})
	require.NoError(t, err)
}

// TestWireExample decodes the example in WIRE.md.
func TestWireExample(t *testing.T) {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllSubmatch(text, -1)
	require.Len(t, blocks, 1)
	var digits strings.Builder
	for line := range strings.Lines(string(blocks[0][1])) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	packet, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	f, err := Parse(packet, protocol)
	require.NoError(t, err)
	want := Fragment{Sequence: 4660, Index: 1, Count: 2, Data: []byte("late")}
	require.Equal(t, want, f)
	require.Equal(t, packet, Append(nil, protocol, want))
}

// TestProtocolIDZero is the reference's id, in Config and in the functions.
func TestProtocolIDZero(t *testing.T) {
	f := Fragment{Count: 1, Data: []byte("x")}
	p := Append(nil, 0, f)
	require.Equal(t, Append(nil, 0x55667788, f), p)
	got, err := Parse(p, 0)
	require.NoError(t, err)
	require.Equal(t, f, got)
	r, err := NewReassembler(Config{})
	require.NoError(t, err)
	_, ok, err := r.Receive(time.Unix(1, 0), p)
	require.NoError(t, err)
	require.True(t, ok)
}
