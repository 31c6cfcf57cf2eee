package cdc

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func of(data []byte) Chunk { return Chunk{Sum(data), uint32(len(data))} }

func noise(t testing.TB, size int) []byte {
	b := make([]byte, size)
	_, err := io.ReadFull(random(testkit.Rand(t).Uint64(), int64(size)), b)
	require.NoError(t, err)
	return b
}

func TestPack(t *testing.T) {
	text := []byte(strings.Repeat("a save is a save is a save. ", 10_000))
	for name, test := range map[string]struct {
		data []byte
		most int
	}{
		"text":      {text, len(text) / 100},
		"noise":     {noise(t, MaxChunk), MaxPacked},
		"zeros":     {make([]byte, MaxChunk), 1000},
		"half":      {append(noise(t, 100_000), make([]byte, 100_000)...), 110_000},
		"one byte":  {[]byte{7}, 2},
		"text+tail": {append(noise(t, 100_000), text[:1000]...), 101_001},
	} {
		t.Run(name, func(t *testing.T) {
			packed := Pack([]byte("before"), test.data)
			require.Equal(t, "before", string(packed[:6]))
			packed = packed[6:]
			require.LessOrEqual(t, len(packed), test.most)
			data, err := Unpack([]byte("before"), packed, of(test.data))
			require.NoError(t, err)
			require.True(t, bytes.Equal(test.data, data))

			inPlace := append([]byte("before?"), test.data...)
			require.True(t, bytes.Equal(packed, Pack(inPlace[:6], inPlace[7:])[6:]))
		})
	}
}

func TestUnpackBelievesNothing(t *testing.T) {
	data := []byte(strings.Repeat("a save is a save. ", 1000))
	packed, c := Pack(nil, data), of(data)
	bomb, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	large := bomb.EncodeAll(make([]byte, 256<<20), []byte{packedZstd})
	require.Less(t, len(large), MaxPacked)
	var streamed bytes.Buffer // its header does not tell the size
	w, err := zstd.NewWriter(&streamed, zstd.WithWindowSize(64<<20))
	require.NoError(t, err)
	_, err = io.Copy(w, io.LimitReader(zeros{}, 256<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())

	for name, test := range map[string]struct {
		packed []byte
		chunk  Chunk
	}{
		"nothing":       {nil, c},
		"other way":     {append([]byte{9}, packed[1:]...), c},
		"cut off":       {packed[:len(packed)-3], c},
		"more":          {append(bytes.Clone(packed), 1), c},
		"other bytes":   {Pack(nil, append(data[:len(data)-1:len(data)-1], 'X')), c},
		"other size":    {packed, Chunk{c.Digest, c.Size - 1}},
		"plain, longer": {append([]byte{packedPlain}, append(data[:len(data):len(data)], 1)...), c},
		"bomb":          {large, c},
		"bomb streamed": {append([]byte{packedZstd}, streamed.Bytes()...), c},
		"huge chunk":    {packed, Chunk{c.Digest, 1 << 31}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			cost := testkit.Allocated(func() { got, err = Unpack(nil, test.packed, test.chunk) })
			require.ErrorIs(t, err, ErrChunk)
			require.Empty(t, got)
			require.Less(t, cost, uint64(8<<20))
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func FuzzUnpack(f *testing.F) {
	f.Add(Pack(nil, []byte(strings.Repeat("ab", 1000))), uint32(2000))
	f.Add([]byte{packedPlain, 1, 2, 3}, uint32(3))
	f.Fuzz(func(t *testing.T, packed []byte, size uint32) {
		_, err := Unpack(nil, packed, Chunk{Size: size})
		require.ErrorIs(t, err, ErrChunk)
		if len(packed) == 0 {
			return
		}
		room := min(size, MaxChunk)
		if data, err := unpack(nil, packed, int(room)); err == nil {
			require.LessOrEqual(t, len(data), int(room))
			again, err := Unpack(nil, Pack(nil, data), of(data))
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, again))
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for name, data := range map[string][]byte{
		"noise": noise(b, AverageChunk),
		"text":  []byte(strings.Repeat("x=12 y=30 hp=100 ammo=7 name=alice\n", AverageChunk/35)),
	} {
		packed := Pack(nil, data)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				packed = Pack(packed[:0], data)
			}
		})
		b.Run("un"+name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			var out []byte
			for b.Loop() {
				out, _ = Unpack(out[:0], packed, of(data))
			}
		})
	}
}
