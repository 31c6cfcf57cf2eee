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
		count, parity, size := 1+random.IntN(MostShards), 1+random.IntN(Most), 1+random.IntN(1200)
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

// lose makes some of the shards missing, and of the parity all but as many.
func lose(shards [][]byte, random *rand.Rand, count, lost int) {
	for _, c := range random.Perm(count)[:lost] {
		shards[c] = make([]byte, 0, len(shards[c]))
	}
	for _, i := range random.Perm(len(shards) - count)[lost:] {
		shards[count+i] = nil
	}
}

// TestRestore restores shards of any count and size, of which any are missing, from any of the parity; when more are missing it does not.
func TestRestore(t *testing.T) {
	random := testkit.Rand(t)
	for range testkit.Brief(300, 3000) {
		count, parity := 1+random.IntN(MostShards), 1+random.IntN(Most)
		size, lost := 1+random.IntN(1200), random.IntN(1+min(count, parity))
		name := fmt.Sprintf("%d of %d shards of %d bytes, %d for parity", lost, count, size, parity)
		all := encoded(random, count, parity, size)
		want := make([][]byte, count)
		for i := range want {
			want[i] = slices.Clone(all[i])
		}
		lose(all, random, count, lost)
		require.True(t, Restore(all, count), name)
		require.Equal(t, want, all[:count], name)
	}
	few := encoded(random, 5, 2, 10)
	few[0], few[1], few[6] = few[0][:0], few[1][:0], nil
	require.False(t, Restore(few, 5))
	require.Empty(t, few[0])
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
				shards := encoded(rand.New(rand.NewPCG(1, 1)), 32, Most, size)
				lose(shards, rand.New(rand.NewPCG(1, 1)), 32, lost)
				missing := slices.Clone(shards)
				for b.Loop() {
					copy(shards, missing)
					Restore(shards, 32)
				}
			})
		}
	}
}
