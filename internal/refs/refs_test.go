package refs

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

type (
	ref   uint64
	actor struct{ _ int }
)

var finder = Finder{reflect.TypeFor[ref](), reflect.TypeFor[actor]()}

type inner struct{ At ref }

type outer struct {
	inner
	N    int
	Refs []ref
	To   *inner
	Pair [2]inner
	Raw  []byte
	next *outer
}

// node contains itself in a map, and chain behind a pointer.
type (
	node struct {
		Next map[string]*node
		At   ref
	}
	chain struct {
		Next *chain
		At   ref
	}
)

func TestFinder(t *testing.T) {
	for _, row := range []struct {
		t    reflect.Type
		in   bool
		fail string
	}{
		{reflect.TypeFor[outer](), true, ""},
		{reflect.TypeFor[int](), false, ""},
		{reflect.TypeFor[struct{ next ref }](), false, ""},
		{reflect.TypeFor[struct {
			At ref `msgpack:"-"`
		}](), false, ""},
		{reflect.TypeFor[map[string]int](), false, ""},
		{reflect.TypeFor[map[ref]int](), false, "a Ref in a map"},
		{reflect.TypeFor[struct{ M map[string][]inner }](), false, "a Ref in a map"},
		{reflect.TypeFor[struct {
			First inner
			M     map[string]inner // whose type was seen before
		}](), false, "a Ref in a map"},
		{reflect.TypeFor[node](), false, "a Ref in a map"},
		{reflect.TypeFor[chain](), true, ""},
		{reflect.TypeFor[struct{ A *actor }](), false, "an Actor cannot be sent"},
	} {
		in, err := finder.In(row.t)
		require.Equal(t, row.in, in, "%v", row.t)
		if row.fail == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, row.fail, "%v", row.t)
		}
	}
	v := outer{inner: inner{1}, Refs: []ref{2, 3}, To: &inner{4}, Pair: [2]inner{{5}, {6}}, Raw: []byte{7}}
	var seen []uint64
	finder.Each(reflect.ValueOf(&v).Elem(), func(r reflect.Value) {
		seen = append(seen, r.Uint())
		r.SetUint(0)
	})
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6}, seen)
	require.Zero(t, v.At)
	require.Equal(t, []ref{0, 0}, v.Refs)
}

// TestIndexAgainstLists: random names, beside lists that do the same slowly.
func TestIndexAgainstLists(t *testing.T) {
	random := testkit.Rand(t)
	x, model := Index[int, int]{}, map[int][]int{}
	filed := map[int][]int{}
	for range 5000 {
		r := 1 + random.IntN(30)
		var now []int
		for range random.IntN(4) {
			now = append(now, random.IntN(6))
		}
		before := slices.Clone(filed[r])
		filed[r] = x.Refile(r, filed[r], now)
		require.Equal(t, slices.Equal(filed[r], now), true)
		if slices.Equal(before, now) {
			continue
		}
		for _, key := range before {
			model[key] = slices.DeleteFunc(model[key], func(other int) bool { return other == r })
		}
		for _, key := range now {
			if !slices.Contains(model[key], r) {
				model[key] = append(model[key], r)
			}
		}
		for key := range 6 {
			require.Equal(t, len(model[key]), len(x.Of(key)))
			require.True(t, slices.Equal(model[key], x.Of(key)))
		}
	}
	for r, now := range filed {
		x.Refile(r, now, nil)
	}
	require.Empty(t, x)
}

// TestOfSortsNothing: the opens and closes of an actor are reported to
// thousands of states that name it, as often as a server sends them. Sorting
// these states once took a client 20 ms each time.
func TestOfSortsNothing(t *testing.T) {
	const all = 30_000
	x := Index[int, *int]{}
	for range all {
		x.Add(1, new(int))
	}
	require.Len(t, x.Of(1), all)
	require.Less(t, testing.AllocsPerRun(3, func() { x.Of(1) }), 3.0, "a list that is gathered in any order, and then sorted, grows some 20 times")
	for range 3 * all {
		r := new(int)
		x.Add(1, r)
		x.Remove(1, r)
	}
	require.LessOrEqual(t, len(x[1].order), 2*all+minStale, "what is gone is forgotten")
}
