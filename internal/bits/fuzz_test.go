package bits_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// FuzzStream reads one part of the input as instructions and the other as a
// stream, writes again what it read, and expects the same bits.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, bytes.Repeat([]byte{0xa5, 0x5a, 0}, 20))
	f.Add([]byte{8, 40, 3, 250, 6}, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, program, data []byte) {
		r, w := bits.NewReader(data), bits.NewWriter(nil)
		for _, c := range program {
			if copyField(&r, &w, c); r.Err() != nil {
				break
			}
		}
		if read := len(data)*8 - r.Left(); r.Err() == nil {
			written := w.Bytes()
			require.Len(t, written, (read+7)/8)
			require.True(t, bytes.Equal(data[:read/8], written[:read/8]))
		}
		require.GreaterOrEqual(t, r.Left(), 0)
	})
}

// copyField reads what instruction c says and, unless that failed, writes it.
func copyField(r *bits.Reader, w *bits.Writer, c byte) {
	n := int(c>>3) + 1
	top := int32(1)<<(n-1) + 4
	switch c % 5 {
	case 0:
		v := r.Bits(n)
		copied(r, func() { w.Bits(v, n) })
	case 1:
		v := r.Int(-5, top&0x3fffffff)
		copied(r, func() { w.Int(v, -5, top&0x3fffffff) })
	case 2:
		r.Align()
		copied(r, w.Align)
	case 3:
		p := r.Raw(n - 1)
		copied(r, func() { w.Raw(p) })
	default:
		r.Check("end of packet")
		copied(r, func() { w.Check("end of packet") })
	}
}

func copied(r *bits.Reader, write func()) {
	if r.Err() == nil {
		write()
	}
}
