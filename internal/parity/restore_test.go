package parity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// encoded returns random shards of a size and their parity.
func encoded(t testing.TB, random *rand.Rand, count, parity, size int) [][]byte {
	var codes Codes
	code, err := codes.Get(count, parity)
	require.NoError(t, err)
	shards := make([][]byte, count+parity)
	for i := range shards {
		shards[i] = make([]byte, size)
		for k := range shards[i] {
			shards[i][k] = byte(random.Uint32())
		}
	}
	require.NoError(t, code.Encode(shards))
	return shards
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
		all := encoded(t, random, count, parity, size)
		want := make([][]byte, count)
		for i := range want {
			want[i] = slices.Clone(all[i])
		}
		lose(all, random, count, lost)
		require.True(t, Restore(all, count), name)
		require.Equal(t, want, all[:count], name)
	}
	few := encoded(t, random, 5, 2, 10)
	few[0], few[1], few[6] = few[0][:0], few[1][:0], nil
	require.False(t, Restore(few, 5))
	require.Empty(t, few[0])
}

func BenchmarkRestore(b *testing.B) {
	for _, lost := range []int{1, 4, Most} {
		for _, size := range []int{65, 1100} {
			b.Run(fmt.Sprintf("%d of 32, %d bytes", lost, size), func(b *testing.B) {
				shards := encoded(b, rand.New(rand.NewPCG(1, 1)), 32, Most, size)
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
