package keyed

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// allocated returns how many bytes run takes from the heap.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// quickest returns the shortest of five times that run takes.
func quickest(run func()) time.Duration {
	least := time.Hour
	for range 5 {
		began := time.Now()
		run()
		least = min(least, time.Since(began))
	}
	return least
}

// fullShelf is a client whose list has as many items as it may have.
func fullShelf(t *testing.T) *shelf {
	client := newShelf(t)
	var b []byte
	for number := range uint64(maxHeld) {
		b = binary.AppendUvarint(b, (number+1)<<1)
		b = binary.AppendVarint(b, int64(number))
		b = append(b, 0)
	}
	require.NoError(t, client.copy.Read(b, 1, false))
	require.Equal(t, maxHeld, client.Len())
	return client
}

// TestCensusesOfNothing: a census takes no memory and no look at the items that it does not speak of. A server could have its client copy a
// list of 8,192 items by four bytes, 64 KiB each time.
func TestCensusesOfNothing(t *testing.T) {
	client := fullShelf(t)
	var b []byte
	for range maxCensuses {
		b = appendCensus(b, 0, 0, nil)
	}
	taken := allocated(func() {
		for packet := range uint64(100) {
			require.NoError(t, client.copy.Read(b, packet+2, false))
		}
	})
	t.Logf("%d bytes for each of 800 censuses", taken/800)
	require.Less(t, taken, uint64(800*256))
	require.Equal(t, maxHeld, client.Len())
}

// TestGravesAreForgottenTogether: where a client remembers as many items that are gone as it may, each further one made it move all of
// them, half a MiB for four bytes of the server's.
func TestGravesAreForgottenTogether(t *testing.T) {
	client, number := newShelf(t), uint64(0)
	remove := func(n int) {
		for range n {
			number++
			require.NoError(t, client.copy.Read(binary.AppendUvarint(nil, number<<1|1), 1, false))
		}
	}
	remove(1000)
	few := quickest(func() { remove(1000) })
	for len(client.copy.gone) < maxGraves {
		remove(1000)
	}
	many := quickest(func() { remove(1000) })
	t.Logf("a thousand removals: %v, with all graves %v", few, many)
	require.Less(t, many, 10*few+10*time.Millisecond)
	client.requireSound(t)
}

// TestAllThatAClientLacks: to note that a client lacks all items of a list takes what their numbers take. A client may have that done for all
// lists once a second, by a message of one byte.
func TestAllThatAClientLacks(t *testing.T) {
	server := newShelf(t)
	for key := range MaxItems {
		require.True(t, server.Set(key, key))
	}
	require.NoError(t, server.source.EncodeAll())
	var lacking Lacking
	taken := allocated(func() { lacking.AddAll(&server.source, true) })
	t.Logf("%d bytes for %d items", taken, MaxItems)
	require.Less(t, taken, uint64(8*MaxItems+1024))

	lacking.Add([]uint32{5, MaxItems + 1}) // an item that is noted already, and one that is not
	require.Len(t, lacking.numbers, 1+MaxItems+1)
	_, sent := lacking.Take(nil, nil, &server.source, 1000)
	lacking.Add(sent)
	lacking.AddAll(&server.source, true)
	slices.Sort(lacking.numbers)
	require.Len(t, slices.Compact(lacking.numbers), len(lacking.numbers), "a number twice")
}
