package bits_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

func TestReaderErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		data []byte
		read func(r *bits.Reader)
		want error
	}{
		{"nothing there", nil, func(r *bits.Reader) { r.Bits(1) }, bits.ErrShort},
		{"one bit too many", []byte{1, 2}, func(r *bits.Reader) { r.Bits(9); r.Bits(8) }, bits.ErrShort},
		{"half a uint64", make([]byte, 7), func(r *bits.Reader) { r.Uint32(); r.Uint32() }, bits.ErrShort},
		{"raw", make([]byte, 3), func(r *bits.Reader) { r.Bits(1); r.Raw(3) }, bits.ErrShort},
		{"raw, huge", make([]byte, 3), func(r *bits.Reader) { r.Raw(math.MaxInt) }, bits.ErrShort},
		{"above max", []byte{0x1f}, func(r *bits.Reader) { r.Int(0, 30) }, bits.ErrRange},
		{"dirty padding", []byte{0x03, 0}, func(r *bits.Reader) { r.Bits(1); r.Align() }, bits.ErrPadding},
		{"dirty padding before raw", []byte{0x81, 0}, func(r *bits.Reader) { r.Bits(1); r.Raw(0) }, bits.ErrPadding},
		{"check", []byte{0xe2, 0xac, 0x08, 0x98}, func(r *bits.Reader) { r.Check("end of packet") }, bits.ErrCheck},
		{"check cut", []byte{0xe2, 0xac, 0x08}, func(r *bits.Reader) { r.Check("end of packet") }, bits.ErrShort},
		{"bytes left", []byte{1, 2}, func(r *bits.Reader) { r.Bits(8) }, bits.ErrTrailing},
		{"dirty padding at the end", []byte{2}, func(r *bits.Reader) { r.Bits(1) }, bits.ErrPadding},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := bits.NewReader(test.data)
			test.read(&r)
			require.ErrorIs(t, r.Finish(), test.want)
			require.ErrorIs(t, r.Err(), test.want)
		})
	}
}

func TestErrorSticks(t *testing.T) {
	r := bits.NewReader([]byte{0xff, 0xff, 0xff})
	require.Zero(t, r.Int(0, 128)) // 255 in 8 bits
	left := r.Left()
	require.Zero(t, r.Bits(3))
	require.Zero(t, r.Int(5, 9), "zero, not the smallest value")
	require.Zero(t, r.Uint32())
	require.Nil(t, r.Raw(0))
	r.Check("x")
	require.Equal(t, left, r.Left(), "nothing more is read")
	require.ErrorIs(t, r.Finish(), bits.ErrRange, "the first error is kept")
}

func TestWideValuesAreMasked(t *testing.T) {
	w := bits.NewWriter(nil)
	w.Bits(0xffffffff, 3)
	w.Bits(0, 5)
	require.Equal(t, []byte{7}, w.Bytes())
}

func TestCallersMistakesPanic(t *testing.T) {
	w, r := bits.NewWriter(nil), bits.NewReader([]byte{1})
	for name, f := range map[string]func(){
		"0 bits": func() { w.Bits(0, 0) }, "33 bits": func() { w.Bits(0, 33) },
		"read 0 bits": func() { r.Bits(0) }, "read 33 bits": func() { r.Bits(33) }, "read -1 bytes": func() { r.Raw(-1) },
		"below": func() { w.Int(0, 1, 2) }, "above": func() { w.Int(3, 1, 2) }, "empty range": func() { w.Int(1, 1, 1) },
	} {
		require.Panics(t, f, name)
	}
	require.Empty(t, w.Bytes())
}

// TestHashOfLettersAtTheEdge: only a to z are as A to Z, or an end that hashes
// as the series does would refuse what the other one wrote.
func TestHashOfLettersAtTheEdge(t *testing.T) {
	require.Equal(t, bits.Hash("AZ"), bits.Hash("az"))
	require.NotEqual(t, bits.Hash("@"), bits.Hash("`"))
	require.NotEqual(t, bits.Hash("["), bits.Hash("{"))
}

func TestSeal(t *testing.T) {
	packet := []byte{9, 9, 9, 9, 1, 2, 3}
	bits.Seal(packet, 0x11223344)
	whole := []byte{0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 1, 2, 3}
	require.Equal(t, crc32.ChecksumIEEE(whole), binary.LittleEndian.Uint32(packet))
	require.NoError(t, bits.Verify(packet, 0x11223344))
	require.ErrorIs(t, bits.Verify(packet, 0x11223345), bits.ErrChecksum)
	for i := range packet {
		packet[i] ^= 0x10
		require.ErrorIs(t, bits.Verify(packet, 0x11223344), bits.ErrChecksum)
		packet[i] ^= 0x10
	}
	for n := range bits.ChecksumSize {
		require.ErrorIs(t, bits.Verify(packet[:n], 0x11223344), bits.ErrShort)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	data, buf := make([]byte, 1024), make([]byte, 0, 2048)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w := bits.NewWriter(buf[:0])
		w.Uint32(0)
		w.Int(7, 1, 256)
		w.Raw(data)
		w.Check("end of packet")
		b := w.Bytes()
		bits.Seal(b, 1)
		r := bits.NewReader(b)
		if bits.Verify(b, 1) != nil || r.Uint32() == 0 || r.Int(1, 256) != 7 || len(r.Raw(1024)) != 1024 {
			panic("not the same")
		}
		r.Check("end of packet")
		if r.Finish() != nil {
			panic("not finished")
		}
	}))
}
