package fragment

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnyOrder(t *testing.T) {
	block := content(5*Size+17, 3)
	all := packets(t, 40, block)
	r := newReassembler(t, Config{})
	require.Equal(t, Block{40, block}, complete(t, r, epoch, all[5], all[0], all[3], all[2], all[4], all[1]))
	for _, p := range all {
		refuse(t, r, epoch, p, ErrDuplicate)
	}
	slices.Reverse(all)
	require.Equal(t, block, complete(t, newReassembler(t, Config{}), epoch, all...).Data)
	require.Zero(t, r.cells.used)
}

func TestDuplicatesCountOnce(t *testing.T) {
	block := content(2*Size, 1)
	all := packets(t, 1, block)
	r := newReassembler(t, Config{})
	feed(t, r, epoch, all[0])
	refuse(t, r, epoch, all[0], ErrDuplicate)
	other := raw(1, 0, 0, 2, content(Size, 99))
	refuse(t, r, epoch, other, ErrDuplicate)
	require.Equal(t, block, complete(t, r, epoch, all[1]).Data, "the first of two contents stays")
	require.Equal(t, Stats{Packets: 4, Fragments: 2, Blocks: 1, Duplicates: 2}, r.Stats())
}

// TestInterleavedBlocks is what the reference cannot: there one fragment of
// block n+1 throws away block n.
func TestInterleavedBlocks(t *testing.T) {
	r := newReassembler(t, Config{})
	var parts [][][]byte
	for n := range 100 {
		parts = append(parts, packets(t, uint16(n), content(2*Size+n+1, n)))
	}
	for i := range 2 {
		for n := range parts {
			feed(t, r, epoch, parts[n][i])
		}
	}
	for n := range parts {
		require.Equal(t, Block{uint16(n), content(2*Size+n+1, n)}, complete(t, r, epoch, parts[n][2]))
	}
	require.Zero(t, r.cells.used)
}

// TestEverySequence passes all 65,536 numbers and continues; the reference delivers none above 255.
func TestEverySequence(t *testing.T) {
	r := newReassembler(t, Config{})
	block := content(Size+1, 1)
	packet := make([]byte, 0, 2*Size)
	const blocks = 65536 + 1000
	for n := range blocks {
		parts, err := Split(uint16(n), block)
		require.NoError(t, err)
		for i := range 2 {
			packet = Append(packet[:0], protocol, parts.At(i))
			b, ok, err := r.Receive(epoch, packet)
			if err != nil || ok != (i == 1) || ok && (b.Sequence != uint16(n) || len(b.Data) != len(block)) {
				t.Fatalf("block %d, fragment %d: %v, %v", n, i, ok, err)
			}
		}
	}
	require.Equal(t, uint64(blocks), r.Stats().Blocks)
}

func TestWrap(t *testing.T) {
	r := newReassembler(t, Config{})
	old, young := packets(t, 65535, content(2*Size, 1)), packets(t, 0, content(2*Size, 2))
	feed(t, r, epoch, old[0], young[0])
	require.Equal(t, Block{65535, content(2*Size, 1)}, complete(t, r, epoch, old[1]))
	require.Equal(t, Block{0, content(2*Size, 2)}, complete(t, r, epoch, young[1]))
	require.Equal(t, uint16(0), r.newest)
}

func TestStaleBlocksMakeRoom(t *testing.T) {
	r := newReassembler(t, Config{})
	old := packets(t, 10, content(2*Size, 1))
	feed(t, r, epoch, old[0])

	t.Log("# 255 ahead the old block is still known, 256 ahead it is not")
	feed(t, r, epoch, packets(t, 265, content(2*Size, 1))[0])
	require.Equal(t, 2, r.cells.used)
	feed(t, r, epoch, packets(t, 266, content(2*Size, 1))[0])
	require.Equal(t, 2, r.cells.used)
	require.Equal(t, uint64(1), r.Stats().Passed)
	refuse(t, r, epoch, old[1], ErrStale)

	t.Log("# 1,024 ahead is taken and empties everything, 1,025 is not")
	refuse(t, r, epoch, packets(t, 266+1025, content(2*Size, 1))[0], ErrAhead)
	feed(t, r, epoch, packets(t, 266+1024, content(2*Size, 1))[0])
	require.Equal(t, 1, r.cells.used)
	require.Equal(t, uint64(3), r.Stats().Passed)
	require.Equal(t, Stats{Packets: 6, Fragments: 4, Stale: 1, Ahead: 1, Passed: 3}, r.Stats())
}

func TestLifetime(t *testing.T) {
	r := newReassembler(t, Config{Lifetime: 100 * time.Millisecond})
	a, b := packets(t, 1, content(2*Size, 1)), packets(t, 2, content(2*Size, 2))
	feed(t, r, epoch, a[0])
	feed(t, r, epoch.Add(50*time.Millisecond), b[0])
	at, ok := r.NextTimeout()
	require.True(t, ok)
	require.Equal(t, epoch.Add(100*time.Millisecond+1), at)

	t.Log("# the first expires, the second is completed in time")
	refuse(t, r, at, a[1], ErrStale)
	require.Equal(t, content(2*Size, 2), complete(t, r, at, b[1]).Data)
	require.Equal(t, uint64(1), r.Stats().Expired)

	t.Log("# after a silence storage is given back, and there is nothing to wait for")
	at, ok = r.NextTimeout()
	require.True(t, ok)
	r.Advance(at)
	require.Nil(t, r.out)
	require.Nil(t, r.cells.slabs)
	_, ok = r.NextTimeout()
	require.False(t, ok)

	t.Log("# time that runs back changes nothing")
	feed(t, r, epoch, packets(t, 3, content(2*Size, 1))[0])
	at, _ = r.NextTimeout()
	require.True(t, at.After(r.now))
}

// TestLifetimeWithoutEnd: with the longest lifetime nothing is ever due, and
// NextTimeout does not claim so.
func TestLifetimeWithoutEnd(t *testing.T) {
	r := newReassembler(t, Config{Lifetime: math.MaxInt64})
	feed(t, r, epoch, packets(t, 1, content(2*Size, 1))[0])
	at, ok := r.NextTimeout()
	require.True(t, ok)
	require.Greater(t, at.Sub(epoch), 100*365*24*time.Hour)
}

// TestOutage: the sender went on, and is anywhere when the path works again.
// The reference refuses it from then on.
func TestOutage(t *testing.T) {
	for _, jump := range []uint16{257, 1024, 1025, 20_000, 32_767, 32_768, 32_769, 60_000, 65_279} {
		r := newReassembler(t, Config{})
		complete(t, r, epoch, packets(t, 100, content(2*Size, 1))...)
		all := packets(t, 100+jump, content(2*Size, 2))
		require.Equal(t, content(2*Size, 2), complete(t, r, epoch.Add(time.Second+1), all...).Data, "%d later", jump)
		require.Equal(t, 100+jump, r.newest)
	}
}

// TestPeerNumbersAnew: a Reassembler takes blocks of a peer's next life for old
// ones until they pass the newest.
func TestPeerNumbersAnew(t *testing.T) {
	r := newReassembler(t, Config{})
	for i := range uint16(201) {
		complete(t, r, epoch, packets(t, i, content(2*Size, 1))...)
	}
	for i := range uint16(201) {
		refuse(t, r, epoch.Add(time.Hour), packets(t, i, content(2*Size, 2))[0], ErrDuplicate)
	}
	complete(t, newReassembler(t, Config{}), epoch, packets(t, 0, content(2*Size, 2))...)
}

func TestEviction(t *testing.T) {
	r := newReassembler(t, Config{MaxFragments: 4, MaxBytes: 4 * Size})
	a, b, c := packets(t, 1, content(3*Size, 1)), packets(t, 2, content(3*Size, 2)), packets(t, 3, content(4*Size, 3))
	feed(t, r, epoch, a[0], a[1], b[0], b[1])

	t.Log("# a third block takes the place of the first, and of the second, but never its own")
	feed(t, r, epoch, c[0])
	require.Equal(t, 3, r.cells.used)
	refuse(t, r, epoch, a[2], ErrStale)
	feed(t, r, epoch, c[1], c[2])
	require.Equal(t, 3, r.cells.used)
	refuse(t, r, epoch, b[2], ErrStale)
	require.Equal(t, content(4*Size, 3), complete(t, r, epoch, c[3]).Data)
	require.Equal(t, uint64(2), r.Stats().Evicted)

	t.Log("# the oldest keeps its room when it is the one that needs more")
	d, e := packets(t, 4, content(4*Size, 4)), packets(t, 5, content(2*Size, 5))
	feed(t, r, epoch, d[0], e[0], d[1], d[2])
	require.Equal(t, content(4*Size, 4), complete(t, r, epoch, d[3]).Data)
	refuse(t, r, epoch, e[1], ErrStale)

	refuse(t, r, epoch, packets(t, 6, content(5*Size, 5))[0], ErrTooMany)
}

func TestLargestBlock(t *testing.T) {
	r := newReassembler(t, Config{MaxBytes: MaxBlock})
	block := content(MaxBlock, 1)
	require.Equal(t, block, complete(t, r, epoch, packets(t, 1, block)...).Data)
	require.Equal(t, content(9*Size, 2), complete(t, r, epoch, packets(t, 2, content(9*Size, 2))...).Data)
}

func TestAllocations(t *testing.T) {
	block := content(3*Size+100, 1)
	parts, err := Split(1, block)
	require.NoError(t, err)
	packet := make([]byte, 0, 2*Size)
	require.Zero(t, testing.AllocsPerRun(100, func() { packet = Append(packet[:0], protocol, parts.At(1)) }), "Append")
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = Parse(packet, protocol) }), "Parse")

	r := newReassembler(t, Config{})
	var n uint16
	require.Zero(t, testing.AllocsPerRun(100, func() {
		parts, _ := Split(n, block)
		n++
		for i := range parts.Len() {
			packet = Append(packet[:0], protocol, parts.At(i))
			r.Receive(epoch, packet)
		}
	}), "Split, Append and Receive")
	require.Equal(t, uint64(n), r.Stats().Blocks)
}
