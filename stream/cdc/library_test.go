//go:build !386 && !arm && !mips && !mipsle

package cdc

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// The cuts are those of the library whose algorithm it is, of noise and of bytes in
// which the masks match often or never. On 32 bits the library overflows an int.
func TestCutsAreTheLibrarys(t *testing.T) {
	r := testkit.Rand(t)
	library, err := chunkers.NewChunker("jc-v1.0.0", nil, &chunkers.ChunkerOpts{MinSize: MinChunk, NormalSize: AverageChunk, MaxSize: MaxChunk})
	require.NoError(t, err)
	for range 60 {
		content := make([]byte, r.IntN(2<<20))
		for values, i := 1+r.IntN(256), 0; i < len(content); i++ {
			content[i] = byte(r.IntN(values))
		}
		library.Reset(bytes.NewReader(content))
		for _, chunk := range cutAll(t, iotest.HalfReader(bytes.NewReader(content)), nil) {
			want, err := library.Next()
			require.True(t, err == nil || err == io.EOF)
			require.Equal(t, Chunk{Sum(want), uint32(len(want))}, chunk)
		}
		rest, err := library.Next()
		require.Equal(t, io.EOF, err)
		require.Empty(t, rest)
	}
}
