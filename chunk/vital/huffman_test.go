package vital

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHuffmanVectors(t *testing.T) {
	for release := range releases {
		var file struct {
			Vectors []struct {
				In  string `json:"in_hex"`
				Out string `json:"out_hex"`
			}
		}
		load(t, "tw_huffman_"+release, &file)
		require.NotEmpty(t, file.Vectors)
		for _, x := range file.Vectors {
			in, out := unhex(t, x.In), unhex(t, x.Out)
			require.Equal(t, x.Out, hex.EncodeToString(Compress(nil, in)))
			got, err := Decompress(nil, out, len(in))
			require.NoError(t, err)
			require.Equal(t, x.In, hex.EncodeToString(got))
		}
	}
}

// TestHuffmanIsACode: no code is the beginning of another, and none is longer than Compress says.
func TestHuffmanIsACode(t *testing.T) {
	longest := uint(0)
	for i, c := range code.codes {
		longest = max(longest, c.length)
		require.NotZero(t, c.length)
		for j, other := range code.codes {
			if i != j && c.length <= other.length {
				require.NotEqual(t, c.bits, other.bits&(1<<c.length-1), "%d and %d", i, j)
			}
		}
	}
	require.Equal(t, uint(1), code.codes[0].length, "so a byte becomes eight at most")
	require.Equal(t, uint(15), longest)
}

func TestDecompressRefuses(t *testing.T) {
	end, abc := Compress(nil, nil), Compress(nil, []byte("abc"))
	last := len(abc) - 1
	for name, c := range map[string]struct {
		code []byte
		most int
		why  error
	}{
		"nothing":               {nil, 9, errCode},
		"cut off":               {abc[:last], 9, errCode},
		"no end":                {bytes.Repeat([]byte{0xff}, 1400), 1 << 20, errCode},
		"expands":               {bytes.Repeat([]byte{0xff}, 1400), 1397, errInflated},
		"one byte too many":     {abc, 2, errInflated},
		"no room at all":        {abc, 0, errInflated},
		"a byte after the end":  {append(bytes.Clone(abc), 0), 9, errPad},
		"bits after the end":    {append(bytes.Clone(abc[:last]), abc[last]|0x80), 9, errPad},
		"bytes after the empty": {append(bytes.Clone(end), 7, 7), 9, errPad},
	} {
		b, err := Decompress([]byte("head"), c.code, c.most)
		require.ErrorIs(t, err, c.why, name)
		require.ErrorIs(t, err, ErrMalformed, name)
		require.Equal(t, "head", string(b), name)
	}
}

// TestPadding: where the end fills its byte the game appends a byte of zeros,
// and other programs do not.
func TestPadding(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	full := 0
	for range 200 {
		in := make([]byte, random.IntN(30))
		bits := code.codes[endSymbol].length
		for i := range in {
			in[i] = byte(random.Uint32())
			bits += code.codes[in[i]].length
		}
		coded := Compress(nil, in)
		require.Len(t, coded, int(bits/8)+1)
		if bits%8 > 0 {
			continue
		}
		full++
		for _, c := range [][]byte{coded, coded[:len(coded)-1]} {
			got, err := Decompress(nil, c, len(in))
			require.NoError(t, err)
			require.True(t, bytes.Equal(in, got))
		}
		coded[len(coded)-1] = 1
		_, err := Decompress(nil, coded, len(in))
		require.ErrorIs(t, err, errPad)
	}
	require.NotZero(t, full)
}

// FuzzHuffman compresses the input and gets it back, and decompresses it as if a peer had sent it.
func FuzzHuffman(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 1400))
	f.Add(Compress(nil, []byte("hello")))
	f.Fuzz(func(t *testing.T, data []byte) {
		coded := Compress([]byte("head"), data)
		require.LessOrEqual(t, len(coded)-4, 2*len(data)+3)
		got, err := Decompress(nil, coded[4:], len(data))
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))

		shorter, ok := compress(nil, data, len(data)-1)
		require.Equal(t, len(coded)-4 < len(data), ok)
		require.Less(t, len(shorter), max(len(data), 1))

		const most = 1397
		if got, err = Decompress(make([]byte, 0, most), data, most); err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.LessOrEqual(t, len(got), most)
		again := Compress(nil, got)
		require.True(t, bytes.HasPrefix(again, data), "one code only, but for the byte of zeros")
		require.LessOrEqual(t, len(again)-len(data), 1)
	})
}
