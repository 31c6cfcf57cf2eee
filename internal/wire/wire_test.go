package wire

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFields(t *testing.T) {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = binary.AppendVarint(append(b, 7, 1, 0), 3)
	b = binary.BigEndian.AppendUint64(b, 1<<63)
	b = AppendBytes(AppendBytes(b, "text"), []byte{})
	r := Reader{Left: append(b, 9)}
	require.Equal(t, uint64(math.MaxUint64), r.Uvarint(Any))
	require.Equal(t, int64(math.MinInt64), r.Varint())
	require.EqualValues(t, 7, r.Positive(7, "none"))
	require.True(t, r.Flag())
	require.False(t, r.Flag())
	require.EqualValues(t, 3, r.Varint())
	require.Equal(t, uint64(1)<<63, r.Uint64())
	text := r.Bytes(4)
	require.Equal(t, "text", string(text))
	require.Equal(t, len(text), cap(text), "who appends to it does not write into the message")
	require.Empty(t, r.Bytes(0))
	require.EqualValues(t, 9, r.Byte())
	require.NoError(t, r.End())

	r = Reader{Left: []byte{2, 1, 2, 3, 4}}
	require.Equal(t, 2, r.Count(2, 2), "there is just room for two")
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		message []byte
		take    func(r *Reader)
		want    string
	}{
		"nothing there":       {nil, func(r *Reader) { r.Uvarint(Any) }, "truncated"},
		"cut":                 {[]byte{0x80}, func(r *Reader) { r.Varint() }, "truncated"},
		"above 64 bits":       {[]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), func(r *Reader) { r.Uvarint(Any) }, "overflows 64 bits"},
		"above its limit":     {[]byte{8}, func(r *Reader) { r.Uvarint(7) }, "8 is above the limit of 7"},
		"zero":                {[]byte{0}, func(r *Reader) { r.Positive(7, "it counts from 1") }, "it counts from 1"},
		"no number":           {nil, func(r *Reader) { r.Positive(7, "it counts from 1") }, "truncated"},
		"too few for a count": {[]byte{2, 1, 2, 3}, func(r *Reader) { r.Count(Any, 2) }, "truncated"},
		"a huge count":        {binary.AppendUvarint(nil, math.MaxUint64), func(r *Reader) { r.Count(Any, 1) }, "truncated"},
		"cut bytes":           {[]byte{3, 'a', 'b'}, func(r *Reader) { r.Bytes(3) }, "truncated"},
		"no byte":             {nil, func(r *Reader) { r.Byte() }, "truncated"},
		"no flag":             {[]byte{2}, func(r *Reader) { r.Flag() }, "flag 2 is neither 0 nor 1"},
		"half a uint64":       {make([]byte, 7), func(r *Reader) { r.Uint64() }, "truncated"},
		"left over":           {[]byte{1, 2}, func(r *Reader) { r.Byte() }, "left over"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reader{Left: test.message}
			test.take(&r)
			require.ErrorContains(t, r.End(), test.want)
			first := r.Err
			require.Zero(t, r.Uvarint(Any))
			require.Zero(t, r.Count(Any, 1))
			require.Empty(t, r.Bytes(Any))
			require.Zero(t, r.Byte())
			require.False(t, r.Flag())
			require.Zero(t, r.Uint64())
			require.Equal(t, first, r.End(), "the first failure stays")
		})
	}
}
