package codec

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func mapOf[K, V interface{ ~uint16 | ~uint64 | ~int8 }](n int) *map[K]V {
	m := map[K]V{}
	for i := range n {
		m[K(i)] = 0
	}
	return &m
}

// A peer may choose the number of entries of a map: the reported memory is no
// less than the map takes, except for the size classes of the heap.
func TestMapsTakeWhatIsTold(t *testing.T) {
	for _, n := range []int{1, 8, 9, 14, 15, 57, 113, 200, 900, 1800, 4000} {
		for _, v := range []any{mapOf[uint16, uint64](n), mapOf[uint64, uint64](n), mapOf[uint16, int8](n), mapOf[uint64, uint16](n)} {
			b := encode(t, v)
			told, taken := takenBy(t, b, v)
			for range 4 { // the runtime allocates now and then, too
				_, again := takenBy(t, b, v)
				taken = min(taken, again)
			}
			require.LessOrEqual(t, taken, 1.25*float64(told)+64, "%T of %d", v, n)
		}
	}
}

// takenBy returns the reported memory of b as a value like v, and the memory that it takes.
func takenBy(t *testing.T, b []byte, v any) (told int, taken float64) {
	var places [20]any
	for i := range places {
		places[i] = reflect.New(reflect.TypeOf(v).Elem()).Interface()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, p := range places {
		var err error
		_, told, err = take(b, p)
		require.NoError(t, err)
	}
	runtime.ReadMemStats(&after)
	return told, float64(after.TotalAlloc-before.TotalAlloc) / float64(len(places))
}
