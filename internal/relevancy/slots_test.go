package relevancy

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlotsStay: what is added takes a place that is free, and no other moves.
func TestSlotsStay(t *testing.T) {
	var s Slots[int, string]
	items := []int{0, 1, 2, 3}
	for i := range items[:3] {
		require.Equal(t, i, s.Add(&items[i]))
	}
	s.Remove(1)
	require.Nil(t, s.Items[1])
	require.Equal(t, 1, s.Add(&items[3]))
	require.Equal(t, []*int{&items[0], &items[3], &items[2]}, s.Items)
	require.Len(t, s.Here, 3)
}

// TestPack: the items that are left move together in their order, and a round goes on with the one that was next.
func TestPack(t *testing.T) {
	type place struct{ at int }
	fill := func(left ...int) (s Slots[place, string], items []place) {
		items = make([]place, 100)
		for i := range items {
			items[i].at = s.Add(&items[i])
		}
		for i := range items {
			if !slices.Contains(left, i) {
				s.Remove(i)
			}
		}
		return s, items
	}
	for next, want := range map[int]int{0: 0, 3: 0, 4: 1, 50: 1, 51: 2, 98: 2, 99: 2, 100: 3} {
		s, items := fill(3, 50, 99)
		require.Equal(t, want, s.Pack(next, func(p *place, from, to int) {
			require.Equal(t, p.at, from)
			p.at = to
		}), next)
		require.Equal(t, []*place{&items[3], &items[50], &items[99]}, s.Items)
		for i, p := range s.Items {
			require.Equal(t, i, p.at)
		}
		require.Equal(t, []*string{nil, nil, nil}, s.Here)
		require.Equal(t, 3, s.Add(new(place)))
	}
	var some []int
	for i := range 50 {
		some = append(some, i)
	}
	s, _ := fill(some...)
	require.Equal(t, 7, s.Pack(7, nil), "half of the places are in use")
	s, _ = fill()
	require.Zero(t, s.Pack(7, nil))
	require.Empty(t, s.Items)
}

// TestMoveInTheGrid: an item under another id stands where it stood.
func TestMoveInTheGrid(t *testing.T) {
	var g Grid
	for i := range 3 {
		g.Set(i, 1, 1, 1, 10)
	}
	g.Remove(0)
	g.Move(1, 0)
	g.Move(7, 5) // it is nowhere
	g.Move(2, 9)
	require.Equal(t, []int32{0, 9}, g.near(1, 1, 1))
	g.Set(0, 100, 0, 0, 10)
	require.Equal(t, []int32{9}, g.near(1, 1, 1))
	g.Remove(9)
	require.Empty(t, g.near(1, 1, 1))
	require.Equal(t, []int32{0}, g.near(100, 0, 0))
}
