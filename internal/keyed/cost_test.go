package keyed

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

// fullShelf is a client whose list has as many items as it may have.
func fullShelf(t *testing.T) *shelf {
	client := newShelf(t)
	var b []byte
	for number := range uint64(maxCopyItems) {
		b = binary.AppendUvarint(b, (number+1)<<1)
		b = binary.AppendVarint(b, int64(number))
		b = append(b, 0)
	}
	require.NoError(t, client.copy.Read(b, 1, false))
	require.Equal(t, maxCopyItems, client.Len())
	return client
}

// TestCensusesOfNothing: a census takes no memory and no look at the items that it does not speak
// of. A server could have its client copy a list of 8,192 items by four bytes, 64 KiB each time.
func TestCensusesOfNothing(t *testing.T) {
	client := fullShelf(t)
	var b []byte
	for range maxCensuses {
		b = appendCensus(b, 0, 0, nil)
	}
	taken := testkit.Allocated(func() {
		for packet := range uint64(100) {
			require.NoError(t, client.copy.Read(b, packet+2, false))
		}
	})
	t.Logf("%d bytes for each of 800 censuses", taken/800)
	require.Less(t, taken, uint64(800*256))
	require.Equal(t, maxCopyItems, client.Len())
}

// TestGravesAreForgottenTogether: where a client remembers as many items that are gone as it
// may, each further one made it move all of them, half a MiB for four bytes of the server's.
func TestGravesAreForgottenTogether(t *testing.T) {
	client, moves := newShelf(t), 0
	for number := range uint64(3 * maxTombstones) {
		before := len(client.copy.tombstones)
		require.NoError(t, client.copy.Read(binary.AppendUvarint(nil, (number+1)<<1|1), 1, false))
		if len(client.copy.tombstones) <= before {
			moves++
		}
		require.Len(t, client.copy.removed, len(client.copy.tombstones))
	}
	require.GreaterOrEqual(t, len(client.copy.tombstones), maxTombstones)
	require.LessOrEqual(t, len(client.copy.tombstones), maxTombstones+maxTombstones/(tombstoneShare-1))
	require.LessOrEqual(t, moves, 2*tombstoneShare)
	client.requireSound(t)
}

// TestAllThatAClientLacks: to note that a client lacks all items of a list takes what their
// numbers take. A client may have that done for all lists once a second, by a message of one byte.
func TestAllThatAClientLacks(t *testing.T) {
	server := newShelf(t)
	for key := range MaxItems {
		require.True(t, server.Set(key, key))
	}
	require.NoError(t, server.source.EncodeAll())
	var lacking Backlog
	taken := testkit.Allocated(func() { lacking.AddAll(&server.source, true) })
	t.Logf("%d bytes for %d items", taken, MaxItems)
	require.Less(t, taken, uint64(16*MaxItems))

	lacking.Add([]uint32{5, MaxItems + 1}) // an item that is noted already, and one that is not
	require.Len(t, lacking.numbers, 1+MaxItems+1)
	_, sent := lacking.Take(nil, nil, &server.source, 1000)
	lacking.Add(sent)
	lacking.AddAll(&server.source, true)
	slices.Sort(lacking.numbers)
	require.Len(t, slices.Compact(lacking.numbers), len(lacking.numbers), "a number twice")
}

// fellow names two actors, and fellows has a list of them at a server and at its client.
type fellow struct{ First, Second actorID }

type actorID uint64

type fellows struct {
	List[uint16, fellow]
	copy  Copy[uint16, fellow]
	plan  *state.Plan
	filed map[uint64]bool
}

func newFellows(t *testing.T) *fellows {
	plan, err := Compile[uint16, fellow](reflect.TypeFor[actorID]())
	require.NoError(t, err)
	f := &fellows{plan: plan, filed: make(map[uint64]bool)}
	f.copy = NewCopy(&f.List, plan, name("Fellows"))
	return f
}

// file applies the changes that the copy reports, each of which must be new,
// and compares the result with the items.
func (f *fellows) file(t *testing.T) {
	f.copy.Renamed(func(id uint64, named bool) {
		require.NotEqual(t, named, f.filed[id], "%d", id)
		if delete(f.filed, id); named {
			f.filed[id] = true
		}
	})
	want := make(map[uint64]bool)
	for _, item := range f.items {
		f.plan.References(reflect.ValueOf(&item.pair).Elem(), func(id uint64) { want[id] = true })
	}
	require.Equal(t, want, f.filed)
	require.Len(t, f.copy.references.counts, len(want))
}

// TestRenamedAgainstItems: random updates, and writes of the game's own, beside
// a look at all items.
func TestRenamedAgainstItems(t *testing.T) {
	random := testkit.Rand(t)
	f := newFellows(t)
	for packet := range uint64(5000) {
		var b []byte
		for range random.IntN(4) {
			switch n := byte(1 + random.IntN(20)); random.IntN(6) {
			case 0:
				b = append(b, n<<1|1)
				delete(f.copy.removed, uint32(n))
			case 1:
				b = append(b, 0, 1, n, 0)
			default:
				b = append(b, n<<1, n%16, byte(random.IntN(9)), byte(random.IntN(9)))
			}
		}
		require.NoError(t, f.copy.Read(b, packet+1, false))
		clear(f.copy.removed) // numbers come again here
		switch random.IntN(20) {
		case 0:
			f.Set(uint16(random.IntN(20)), fellow{First: actorID(random.IntN(9))})
		case 1:
			f.Delete(uint16(random.IntN(20)))
		}
		if random.IntN(3) == 0 {
			f.file(t)
		}
	}
	f.copy.Unname()
	f.copy.Renamed(func(id uint64, named bool) {
		require.False(t, named)
		delete(f.filed, id)
	})
	require.Empty(t, f.filed)
	require.Empty(t, f.copy.references.counts)
}

// TestReferencesOfOneItem: an update of an item takes no look at the references of all the others.
func TestReferencesOfOneItem(t *testing.T) {
	f, b := newFellows(t), []byte(nil)
	for number := range uint64(maxCopyItems) {
		b = binary.AppendUvarint(b, (number+1)<<1)
		b = append(binary.AppendUvarint(b, number), 7, 8)
	}
	require.NoError(t, f.copy.Read(b, 1, false))
	f.file(t)
	looks, names := 0, &f.copy.references
	names.visit = func(id uint64) {
		looks++
		names.count(id)
	}
	require.NoError(t, f.copy.Read([]byte{2, 0, 7, 9}, 2, false))
	f.file(t)
	require.Equal(t, 4, looks, "two that went and two that came")
}

// TestNamingTakesLittle: asking for the items that name an actor, at each open
// and close of it, costs no allocation for each item.
func TestNamingTakesLittle(t *testing.T) {
	f, b := newFellows(t), []byte(nil)
	for number := range uint64(maxCopyItems) {
		b = binary.AppendUvarint(b, (number+1)<<1)
		b = append(binary.AppendUvarint(b, number), 7+byte(number>>12), 8)
	}
	require.NoError(t, f.copy.Read(b, 1, false))
	f.file(t)
	for id, want := range map[uint64]int{7: maxCopyItems / 2, 8: maxCopyItems, 9: 0} {
		found := 0
		taken := testing.AllocsPerRun(3, func() {
			found = 0
			for range f.copy.Naming(id) {
				found++
			}
		})
		require.Equal(t, want, found)
		require.Less(t, taken, 10.0)
	}
}
