package cdc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// random reads size bytes that the seed decides.
func random(seed uint64, size int64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// cutAll returns the chunks of r, having checked that they are r's bytes, which want reads again.
func cutAll(t testing.TB, r, want io.Reader) (chunks []Chunk) {
	compare := make([]byte, MaxChunk)
	require.NoError(t, Cut(r, func(chunk Chunk, data []byte) error {
		if want != nil {
			_, err := io.ReadFull(want, compare[:len(data)])
			require.NoError(t, err)
			require.True(t, bytes.Equal(compare[:len(data)], data))
			require.Equal(t, Sum(data), chunk.Digest)
		}
		require.Len(t, data, int(chunk.Size))
		chunks = append(chunks, chunk)
		return nil
	}))
	return chunks
}

func total(chunks []Chunk) (size int64) {
	for _, c := range chunks {
		size += int64(c.Size)
	}
	return size
}

func TestCut(t *testing.T) {
	seed := testkit.Rand(t).Uint64()
	for _, size := range []int64{0, 1, MinChunk - 1, MinChunk, MinChunk + 1, AverageChunk, MaxChunk, MaxChunk + 1, 9_999_999} {
		chunks := cutAll(t, random(seed, size), random(seed, size))
		require.Equal(t, size, total(chunks))
		for i, chunk := range chunks {
			require.LessOrEqual(t, chunk.Size, uint32(MaxChunk))
			require.True(t, chunk.Size >= MinChunk || i == len(chunks)-1)
		}
		require.Equal(t, chunks, cutAll(t, iotest.HalfReader(random(seed, size)), nil), "cuts follow the bytes, not the reads")
	}
	zeros := cutAll(t, bytes.NewReader(make([]byte, 3<<20)), nil)
	require.Len(t, zeros, 6, "bytes without a cut give the largest chunks")
}

// The cuts stay where they are: others would make every save's next put a full one.
func TestCutsAreTheSameForever(t *testing.T) {
	chunks := cutAll(t, random(1, 1<<20), nil)
	var sizes []uint32
	for _, c := range chunks {
		sizes = append(sizes, c.Size)
	}
	require.Equal(t, []uint32{335936, 514034, 121129, 77477}, sizes)
}

// delta returns how many bytes of changed are in chunks that base does not have.
func delta(base, changed []Chunk) (size int64) {
	has := make(map[Digest]bool)
	for _, c := range base {
		has[c.Digest] = true
	}
	for _, c := range changed {
		if !has[c.Digest] {
			has[c.Digest] = true
			size += int64(c.Size)
		}
	}
	return size
}

// most is what a change of 1 MiB of a large content, or an insertion in front of it,
// may cost in chunks: 3 MiB on the wire less the manifest of 1 GiB, a quarter of one.
const most = 2816 << 10

func TestAChangeCostsItsChunks(t *testing.T) {
	const size, changed = 96 << 20, 1 << 20
	r := testkit.Rand(t)
	seed, other := r.Uint64(), r.Uint64()
	base := cutAll(t, random(seed, size), nil)
	t.Logf("%d chunks of %d KiB on average", len(base), total(base)/int64(len(base))>>10)

	for name, at := range map[string]int64{"front": 0, "somewhere": r.Int64N(size - changed), "end": size - changed} {
		before, after := random(seed, at), random(seed, size)
		skip(t, after, at+changed)
		cost := delta(base, cutAll(t, io.MultiReader(before, random(other, changed), after), nil))
		t.Logf("1 MiB changed at the %s: %d KiB", name, cost>>10)
		require.LessOrEqual(t, cost, int64(most))
	}
	for _, inserted := range []int64{1, 4096, 1 << 20} {
		cost := delta(base, cutAll(t, io.MultiReader(random(other, inserted), random(seed, size)), nil))
		t.Logf("%d bytes inserted at the front: %d KiB", inserted, cost>>10)
		require.LessOrEqual(t, cost, min(inserted+1792<<10, most))
	}
	rest := random(seed, size)
	skip(t, rest, 1)
	cost := delta(base, cutAll(t, rest, nil))
	t.Logf("a byte removed from the front: %d KiB", cost>>10)
	require.LessOrEqual(t, cost, int64(1792<<10))
}

func skip(t *testing.T, r io.Reader, n int64) {
	_, err := io.CopyN(io.Discard, r, n)
	require.NoError(t, err)
}

func TestCutFailsWithItsReader(t *testing.T) {
	broken := errors.New("disk on fire")
	err := Cut(io.MultiReader(random(1, 4<<20), iotest.ErrReader(broken)), func(Chunk, []byte) error { return nil })
	require.ErrorIs(t, err, broken)
	cutAll(t, random(2, 1<<20), random(2, 1<<20)) // and can be used again
}

func TestCutStopsWithItsCaller(t *testing.T) {
	enough, calls := errors.New("enough"), 0
	for range 3 {
		calls = 0
		require.ErrorIs(t, Cut(random(1, 16<<20), func(Chunk, []byte) error { calls++; return enough }), enough)
		require.Equal(t, 1, calls)
	}
	cutAll(t, random(2, 1<<20), random(2, 1<<20))
}

func BenchmarkCut(b *testing.B) {
	content := make([]byte, 64<<20)
	_, _ = io.ReadFull(random(1, 64<<20), content)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		require.NoError(b, Cut(bytes.NewReader(content), func(Chunk, []byte) error { return nil }))
	}
}

func BenchmarkSum(b *testing.B) {
	content := make([]byte, AverageChunk)
	b.SetBytes(AverageChunk)
	for b.Loop() {
		Sum(content)
	}
}

// A panic of each ended the process, where the caller could not recover it, and
// a test that failed in each never ended: runtime.Goexit.
func TestEachIsOnTheCallersGoroutine(t *testing.T) {
	r := bytes.NewReader(make([]byte, 20*MaxChunk))
	require.PanicsWithValue(t, "each fails", func() { _ = Cut(r, func(Chunk, []byte) error { panic("each fails") }) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Cut(bytes.NewReader(make([]byte, 20*MaxChunk)), func(Chunk, []byte) error { runtime.Goexit(); return nil })
	}()
	<-ended
	require.Positive(t, r.Len(), "it is not read to its end first")
}
