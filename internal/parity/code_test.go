package parity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/reedsolomon"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

const mostShards = 64

// encoded returns random shards of a size and their parity.
func encoded(random *rand.Rand, count, parity, size int) [][]byte {
	shards := make([][]byte, count+parity)
	for i := range shards {
		shards[i] = make([]byte, size)
		for k := range shards[i] {
			shards[i][k] = byte(random.Uint32())
		}
	}
	Make(shards, count)
	return shards
}

// TestMake compares with another maker of the same code.
func TestMake(t *testing.T) {
	random := testkit.Rand(t)
	for range 100 {
		count, parity, size := 1+random.IntN(mostShards), 1+random.IntN(Most), 1+random.IntN(1200)
		shards := encoded(random, count, parity, size)
		short := random.IntN(size)
		clear(shards[count-1][short:])
		shards[count-1] = shards[count-1][:short]
		Make(shards, count)
		got := slices.Clone(shards[count:])
		for i := range got {
			shards[count+i] = make([]byte, size)
		}
		shards[count-1] = shards[count-1][:size]
		code, err := reedsolomon.New(count, parity, reedsolomon.WithCauchyMatrix())
		require.NoError(t, err)
		require.NoError(t, code.Encode(shards))
		require.Equal(t, shards[count:], got)
	}
}

// lose makes some of the shards missing, and returns as many of the parity.
func lose(all [][]byte, random *rand.Rand, count, lost int) (shards [][]byte, set Set) {
	shards = slices.Clone(all[:count])
	for _, c := range random.Perm(count)[:lost] {
		shards[c] = make([]byte, 0, len(shards[c]))
	}
	for _, i := range random.Perm(len(all) - count)[:lost] {
		set.Add(i, all[count+i])
	}
	return shards, set
}

// TestRestore restores shards of any count and size, of which any are missing,
// from any of the parity.
func TestRestore(t *testing.T) {
	random := testkit.Rand(t)
	for range testkit.Brief(300, 3000) {
		count, parity := 1+random.IntN(mostShards), 1+random.IntN(Most)
		size, lost := 1+random.IntN(1200), random.IntN(1+min(count, parity))
		name := fmt.Sprintf("%d of %d shards of %d bytes, %d for parity", lost, count, size, parity)
		all := encoded(random, count, parity, size)
		shards, set := lose(all, random, count, lost)
		require.Equal(t, lost, set.Have)
		set.Restore(shards, 0, size)
		require.Equal(t, all[:count], shards, name)
	}
}

// TestRestoreRanges: a range of the shards is restored from that of the parity,
// whichever others are missing.
func TestRestoreRanges(t *testing.T) {
	random := testkit.Rand(t)
	all := encoded(random, 5, 2, 30)
	var set Set
	set.Add(1, all[6])
	require.True(t, set.Has(1))
	require.False(t, set.Has(0))
	for i, c := range []int{2, 0, 4} {
		off, end := 10*i, 10*i+10
		var shards [][]byte
		for _, shard := range all[:5] {
			shards = append(shards, shard[off:end])
		}
		shards[c] = make([]byte, 0, 10)
		set.Restore(shards, off, end)
		require.Equal(t, all[c][off:end], shards[c])
	}
}

func BenchmarkMake(b *testing.B) {
	shards := encoded(rand.New(rand.NewPCG(1, 1)), 30, 4, 1100)
	for b.Loop() {
		Make(shards, 30)
	}
}

func BenchmarkRestore(b *testing.B) {
	for _, lost := range []int{1, 4, Most} {
		for _, size := range []int{65, 1100} {
			b.Run(fmt.Sprintf("%d of 32, %d bytes", lost, size), func(b *testing.B) {
				all := encoded(rand.New(rand.NewPCG(1, 1)), 32, Most, size)
				missing, set := lose(all, rand.New(rand.NewPCG(1, 1)), 32, lost)
				shards := slices.Clone(missing)
				for b.Loop() {
					copy(shards, missing)
					set.Restore(shards, 0, size)
				}
			})
		}
	}
}
