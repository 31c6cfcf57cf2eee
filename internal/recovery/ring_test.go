package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRing(t *testing.T) {
	var r Ring[uint64]
	require.Zero(t, r.Len())
	require.False(t, r.Has(0))
	push := func() { *r.Push(4) = r.Next - 1 }
	check := func() {
		t.Helper()
		for n := r.Oldest; n < r.Next; n++ {
			require.True(t, r.Has(n))
			require.Equal(t, n, *r.At(n))
		}
		require.False(t, r.Has(r.Next))
		require.False(t, r.Has(r.Oldest-1))
	}
	r.Oldest, r.Next = 1<<40+3, 1<<40+3
	for range 4 {
		push()
	}
	require.Equal(t, 4, r.Cap())
	check()

	t.Log("# a ring that turns does not grow")
	for range 100 {
		r.Oldest++
		push()
	}
	require.Equal(t, 4, r.Cap())
	check()

	t.Log("# one that is full does, wherever it stands")
	for range 13 {
		push()
	}
	require.Equal(t, 32, r.Cap())
	require.Equal(t, 17, r.Len())
	check()

	t.Log("# trimmed, it goes on where it was")
	next := r.Next
	r.Trim()
	require.Zero(t, r.Len()+r.Cap())
	push()
	require.Equal(t, next+1, r.Next)
	check()
}

func TestRingShrinks(t *testing.T) {
	var r Ring[uint64]
	for range 100 {
		*r.Push(4) = r.Next - 1
	}
	require.Equal(t, 128, r.Cap())
	for _, c := range []struct{ left, places int }{{33, 128}, {32, 64}, {9, 32}, {1, 4}, {0, 0}} {
		r.Oldest = r.Next - uint64(c.left)
		r.Shrink(4)
		require.Equal(t, c.places, r.Cap(), "%d left", c.left)
		require.Zero(t, testing.AllocsPerRun(1, func() { r.Shrink(4) }))
		for n := r.Oldest; n < r.Next; n++ {
			require.Equal(t, n, *r.At(n))
		}
	}
	require.Equal(t, uint64(100), r.Next)
}

func TestRingLeavesPlacesAsTheyWere(t *testing.T) {
	var r Ring[[]int]
	for range 4 {
		p := r.Push(4)
		*p = append((*p)[:0], 1, 2, 3)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Oldest++
		p := r.Push(4)
		*p = append((*p)[:0], 1, 2, 3)
	}))
}
