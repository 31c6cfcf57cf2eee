package keyed

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzCopy lets a client read what a hostile server sends, in packets that arrive
// late or twice, while it sets and deletes items itself: its memory stays bounded,
// each item is found by its number and by its key, and changes add up to the list.
func FuzzCopy(f *testing.F) {
	f.Add([]byte{2, 4, 2, 10, 1, 3, 3, 3, 0, 1, 5, 1, 4}, []byte{0, 2, 1})
	f.Add(appendCensus([]byte{4, 6, 8}, 1, 9, []uint32{2, 5}), []byte{3, 130, 7})
	f.Add([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 2, 2, 5}, []byte{255, 0, 9})
	f.Fuzz(func(t *testing.T, b, plan []byte) {
		client := newShelf(t)
		packet := uint64(maxReorder)
		for i, step := range append(plan, 0) {
			switch key := int(step >> 3); step & 7 {
			case 0:
				client.Set(key, i)
			case 1:
				client.Delete(key)
			default:
				packet += uint64(step) << (step & 7 * 2)
				n := min(len(b), 1+int(step>>2))
				err := client.copy.Read(b[:n], packet-uint64(step&3)*1000, step&4 != 0)
				if b = b[n:]; err != nil {
					return // the connection is closed
				}
				for _, ok := client.copy.Next(); ok; _, ok = client.copy.Next() {
				}
			}
			client.requireSound(t)
		}
	})
}

func (s *shelf) requireSound(t *testing.T) {
	require.Len(t, s.items, len(s.byKey))
	require.LessOrEqual(t, len(s.items), maxCopyItems)
	require.True(t, slices.IsSortedFunc(s.items, func(a, b *item[int, int]) int { return int(a.number) - int(b.number) }))
	for _, i := range s.items {
		require.Same(t, i, s.byKey[i.pair.Key])
		require.Same(t, i, s.find(i.number))
	}
	require.LessOrEqual(t, len(s.copy.tombstones)*(tombstoneShare-1), maxTombstones*tombstoneShare+tombstoneShare)
	require.Len(t, s.copy.removed, len(s.copy.tombstones))
}
