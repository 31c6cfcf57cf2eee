package roster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

type item struct {
	number int
	seat   Seat
}

// TestListAgainstASlice adds and removes random items in a list and in a slice, and compares them.
func TestListAgainstASlice(t *testing.T) {
	random := testkit.Rand(t)
	var l List[item]
	var model []*item
	for n := range 5000 {
		if random.IntN(5) < 3 || len(model) == 0 {
			i := &item{number: n}
			l.Add(i, &i.seat)
			model = append(model, i)
		} else {
			at := random.IntN(len(model))
			l.Remove(&model[at].seat)
			l.Remove(&model[at].seat) // which is not listed any more
			model = slices.Delete(model, at, at+1)
		}
		if n%500 == 499 {
			require.Equal(t, model, slices.Collect(l.All))
			for len(model) > 3 {
				require.Same(t, model[0], l.First())
				l.Remove(&model[0].seat)
				model = model[1:]
			}
		}
	}
	for _, i := range model {
		l.Remove(&i.seat)
	}
	require.Nil(t, l.First())
	require.Empty(t, slices.Collect(l.All))
}

// TestListChangesWhileSomebodyLooks: those that stay are found, each once.
func TestListChangesWhileSomebodyLooks(t *testing.T) {
	var l List[item]
	items := make([]item, 100)
	for i := range items {
		items[i].number = i
		l.Add(&items[i], &items[i].seat)
	}
	var seen []int
	for i := range l.All {
		if i.seat != (Seat{}) {
			seen = append(seen, i.number)
		}
		if i.number == 10 {
			for n := range items {
				if n != 5 && n%10 != 0 {
					l.Remove(&items[n].seat)
				}
			}
			late := &item{number: 1000}
			l.Add(late, &late.seat)
		}
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90}, seen)
}
