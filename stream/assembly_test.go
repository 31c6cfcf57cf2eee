package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// partOf is content from offset to end.
func partOf(all []byte, offset, end int) part {
	return part{id: 1, offset: int64(offset), data: all[offset:end]}
}

// add adds a part, whatever memory it takes.
func add(a *assembly, p part) error {
	_, err := a.add(p)
	return err
}

// takeAll empties the assembly.
func takeAll(a *assembly) (got []byte) {
	for b := a.take(); b != nil; b = a.take() {
		got = append(got, b.payload()...)
		b.Free()
	}
	return got
}

func TestAssemblyOrdersParts(t *testing.T) {
	all := content(200_000)
	random := testkit.Rand(t)
	for range 20 {
		var parts []part
		for at := 0; at < len(all); {
			end := min(len(all), at+1+random.IntN(partBytes))
			parts = append(parts, partOf(all, at, end))
			at = end
		}
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		a := assembly{limit: int64(len(all))}
		var got []byte
		for _, p := range parts {
			require.NoError(t, add(&a, p))
			if random.IntN(2) == 0 {
				got = append(got, takeAll(&a)...)
			}
		}
		require.True(t, bytes.Equal(all, append(got, takeAll(&a)...)))
		require.Empty(t, a.parked)
	}
}

func TestAssemblyResumesAnywhere(t *testing.T) {
	all := content(1000)
	for base := int64(0); base <= 1000; base += 50 {
		a := assembly{limit: 1000}
		t.Log("# parts come before the base is known, and after it")
		require.NoError(t, add(&a, partOf(all, 300, 400)))
		require.NoError(t, add(&a, partOf(all, 0, 120)))
		require.NoError(t, add(&a, partOf(all, 600, 610)))
		a.resume(base)
		held := int64(0)
		for _, b := range append(slices.Clone(a.ready), a.parked...) {
			held += b.cost()
		}
		require.Equal(t, held, a.held)
		require.NoError(t, add(&a, partOf(all, 120, 300)))
		require.NoError(t, add(&a, partOf(all, 400, 600)))
		require.NoError(t, add(&a, partOf(all, 610, 1000)))
		require.True(t, bytes.Equal(all[base:], takeAll(&a)), "base %d", base)
		require.Zero(t, a.held)
	}
}

func TestAssemblyRefuses(t *testing.T) {
	all := content(1000)
	a := assembly{limit: 900}
	require.ErrorIs(t, add(&a, partOf(all, 800, 901)), errNoCredit)
	require.NoError(t, add(&a, partOf(all, 0, 100)))
	require.NoError(t, add(&a, partOf(all, 200, 300)))
	require.NoError(t, add(&a, partOf(all, 400, 500)))
	for _, overlap := range [][2]int{{0, 100}, {50, 60}, {99, 150}, {200, 300}, {250, 350}, {299, 300}, {350, 450}, {310, 600}, {100, 201}} {
		require.ErrorIs(t, add(&a, partOf(all, overlap[0], overlap[1])), errOverlap, "%v", overlap)
	}
	require.NoError(t, add(&a, partOf(all, 100, 200)))
	require.NoError(t, add(&a, partOf(all, 300, 400)))
	require.True(t, bytes.Equal(all[:500], takeAll(&a)))
}

func TestAssemblyBoundsSmallParts(t *testing.T) {
	all := content(100_000)
	for entries, most := range map[int]int{8: minParked, 256: maxLanes * 255, 1024: maxLanes * 1023} {
		a := assembly{entries: entries, limit: 100_000}
		var err error
		for at := 1; err == nil && at < len(all); at += 2 {
			err = add(&a, partOf(all, at, at+1))
		}
		require.ErrorIs(t, err, errParked)
		require.Len(t, a.parked, most)
	}

	a := assembly{limit: 100_000}
	for at := range all {
		require.NoError(t, add(&a, partOf(all, at, at+1)))
	}
	require.LessOrEqual(t, len(a.ready), len(all)/partBytes+1)

	t.Log("# an honest sender's parts behind a lost one once were too many")
	a = assembly{limit: 100_000}
	for at := 1; at < len(all); at++ {
		require.NoError(t, add(&a, partOf(all, at, at+1)))
	}
	require.LessOrEqual(t, len(a.parked), len(all)/partBytes+1)
	require.NoError(t, add(&a, partOf(all, 0, 1)))
	require.True(t, bytes.Equal(all, takeAll(&a)))
	require.Zero(t, a.held)
}

func TestAssemblyKeepsElementsTogether(t *testing.T) {
	a := assembly{limit: 100}
	require.NoError(t, add(&a, part{offset: 0, index: 0, count: 2, data: []byte("aabb")}))
	require.NoError(t, add(&a, part{offset: 4, index: 2, count: 1, data: []byte("cc")}))
	require.NoError(t, add(&a, part{offset: 6, index: 9, count: 1, data: []byte("xx")}))
	b := a.take()
	require.Equal(t, 3, b.count)
	b = a.take()
	require.EqualValues(t, 9, b.index) // a gap in the elements stays visible
}
