package fragment

import (
	"github.com/quivernet/quiver/internal/testkit"

	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The attacks of the article "Packet Fragmentation and Reassembly", in its
// order. Every packet has a right checksum.

// TestAttackOutOfBoundFragmentIDs sends fragments 0 to 255 of a block that has just two.
func TestAttackOutOfBoundFragmentIDs(t *testing.T) {
	r := newReassembler(t, Config{})
	honest := packets(t, 1, content(2*Size, 1))
	feed(t, r, epoch, honest[0])
	for index := 2; index <= 255; index++ {
		refuse(t, r, epoch, raw(1, 0, byte(index), 2, content(Size, index)), errIndex)
	}
	require.Equal(t, 1, r.cells.used)
	require.Equal(t, content(2*Size, 1), complete(t, r, epoch, honest[1]).Data)
	require.Equal(t, uint64(254), r.Stats().Refused)
}

// TestAttackWidenedFragmentCount sends a fragment of two, then fragments of the
// same block that say it has more.
func TestAttackWidenedFragmentCount(t *testing.T) {
	r := newReassembler(t, Config{})
	honest := packets(t, 1, content(2*Size, 1))
	feed(t, r, epoch, honest[0])
	for count := 3; count <= 255; count++ {
		refuse(t, r, epoch, raw(1, 0, byte(count-1), byte(count), content(Size, count)), ErrMismatch)
		refuse(t, r, epoch, raw(1, 0, 1, byte(count), content(Size, count)), ErrMismatch)
	}
	refuse(t, r, epoch, raw(1, 0, 1, 0, content(Size, 1)), errCount) // 256 in the byte of the article's code
	refuse(t, r, epoch, raw(1, 0, 0, 1, content(Size, 1)), ErrMismatch)
	require.Equal(t, 1, r.cells.used)
	require.Equal(t, content(2*Size, 1), complete(t, r, epoch, honest[1]).Data)
	refuse(t, r, epoch, raw(1, 0, 200, 255, content(Size, 1)), ErrMismatch)
}

// TestAttackOversizeFragments sends fragments with more than 1 KiB of data.
func TestAttackOversizeFragments(t *testing.T) {
	r := newReassembler(t, Config{})
	honest := packets(t, 1, content(2*Size, 1))
	feed(t, r, epoch, honest[0])
	for _, size := range []int{Size + 1, Size + 8, 1400, 9000, 65507} {
		refuse(t, r, epoch, raw(1, 0, 1, 2, make([]byte, size)), errOver)
		refuse(t, r, epoch, raw(2, 0, 0, 1, make([]byte, size)), errOver)
	}
	require.Equal(t, 1, r.cells.used)
	require.Equal(t, content(2*Size, 1), complete(t, r, epoch, honest[1]).Data)
}

// heap returns the bytes that live on the heap, and those allocated since the program began.
func heap() (live, total int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.TotalAlloc)
}

// storage adds up what a Reassembler holds.
func storage(r *Reassembler) int {
	n := int(unsafe.Sizeof(*r)) + len(r.out) + cap(r.cells.cells)*int(unsafe.Sizeof(cell{})) + cap(r.cells.slabs)*int(unsafe.Sizeof([]byte{}))
	for _, slab := range r.cells.slabs {
		n += len(slab)
	}
	return n
}

// held runs an attack on a fresh Reassembler and returns what it holds
// afterwards and what it allocated meanwhile.
func held(t *testing.T, cfg Config, attack func(r *Reassembler)) (live, total int64) {
	live0, total0 := heap()
	r := newReassembler(t, cfg)
	attack(r)
	live1, total1 := heap()
	check(t, r)
	require.LessOrEqual(t, storage(r), cfg.Bound())
	return live1 - live0, total1 - total0
}

// TestAttackMaximumSizeBlocks keeps sending fragments of blocks of the maximum
// size: 256 blocks of 255 fragments would be 64 MB a peer.
func TestAttackMaximumSizeBlocks(t *testing.T) {
	for name, cfg := range map[string]Config{
		"default":            {},
		"four fragments":     {MaxFragments: 4, MaxBytes: 64 << 10},
		"as small as can be": {MaxFragments: 1, MaxBytes: Size},
	} {
		t.Run(name, func(t *testing.T) {
			packet, data := make([]byte, 0, 2*Size), content(Size, 1)
			count := cfg.effective().MaxFragments
			live, total := held(t, cfg, func(r *Reassembler) {
				now := epoch
				for i := range 100_000 {
					now = now.Add(time.Microsecond)
					f := Fragment{Sequence: uint16(i / max(1, count-1)), Index: i % max(1, count-1), Count: count, Data: data}
					packet = Append(packet[:0], protocol, f)
					r.Receive(now, packet)
				}
			})
			t.Logf("holds %d bytes, %d allowed; %d allocated", live, cfg.Bound(), total)
			require.LessOrEqual(t, live, int64(cfg.Bound()))
			require.LessOrEqual(t, total, int64(cfg.Bound()+64<<10))
		})
	}
	require.Less(t, Config{}.Bound(), 64<<20/75, "of the 64 MB in the article")
}

// TestAttackSpreadSequences begins as many blocks as it can, with fragments
// that alone take a whole cell.
func TestAttackSpreadSequences(t *testing.T) {
	cfg := Config{MaxBytes: 255 << 10}
	live, _ := held(t, cfg, func(r *Reassembler) {
		for i := range 70_000 {
			r.Receive(epoch.Add(time.Duration(i)*time.Microsecond), raw(uint16(i*7), 0, 1, 2, []byte{1}))
		}
		s := r.Stats()
		require.Positive(t, s.Evicted+s.Passed)
	})
	require.LessOrEqual(t, live, int64(cfg.Bound()))
}

// TestAttackFunnySizes sends blocks of all sizes, whole and in parts, in any order, over
// and over: the heap does not grow and nothing is allocated once all storage is there.
func TestAttackFunnySizes(t *testing.T) {
	cfg := Config{}
	dice := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	packet, data := make([]byte, 0, 2*Size), content(Size, 1)
	now, r := epoch, newReassembler(t, cfg)
	send := func(n int) {
		for range n {
			now = now.Add(10 * time.Microsecond)
			count := 1 + dice.IntN(MaxCount)
			f := Fragment{Sequence: r.newest + uint16(dice.IntN(5)) - 2, Count: count, Index: dice.IntN(count), Data: data}
			if e := &r.entries[f.Sequence%Window]; e.state == partial && dice.IntN(8) > 0 {
				f.Sequence, f.Count = e.sequence, int(e.count)
				f.Index = min(int(e.got), f.Count-1)
			}
			if f.Index == f.Count-1 {
				f.Data = data[:1+dice.IntN(Size)]
			}
			packet = Append(packet[:0], protocol, f)
			r.Receive(now, packet)
		}
	}
	live0, _ := heap()
	send(50_000)
	for i := range MaxCount { // a block of the largest size, so that all storage is there
		packet = Append(packet[:0], protocol, Fragment{Sequence: r.newest, Index: i, Count: MaxCount, Data: data})
		r.newest += uint16((i + 1) / MaxCount)
		r.Receive(now, packet)
	}
	live1, total1 := heap()
	send(200_000)
	live2, total2 := heap()
	check(t, r)
	require.LessOrEqual(t, storage(r), cfg.Bound())
	t.Logf("%d bytes after 50,000 packets, %d after 250,000; %+v", live1-live0, live2-live0, r.Stats())
	require.LessOrEqual(t, live2-live0, int64(cfg.Bound()))
	require.Less(t, total2-total1, int64(64<<10), "bytes allocated by 200,000 packets")
}

func TestBoundCoversTheTables(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(Reassembler{})), tableBytes-2<<10, "and what allocators round up")
	require.LessOrEqual(t, int(unsafe.Sizeof(cell{})), 4)
}

// TestFloodOfBadPackets costs no memory.
func TestFloodOfBadPackets(t *testing.T) {
	r := newReassembler(t, Config{})
	feed(t, r, epoch, packets(t, 1, content(3*Size, 1))[:2]...)
	bad := [][]byte{nil, {1}, raw(1, 0, 9, 3, nil), raw(1, 0, 0, 0, []byte{1}), raw(1, 0, 5, 5, []byte{1}), raw(1, 0, 0, 3, content(Size, 1)),
		raw(1, 0, 2, 9, content(Size, 1)), raw(30_000, 0, 2, 3, content(5, 1)), raw(1, 2, 2, 3, content(5, 1)), content(1200, 1)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, p := range bad {
			r.Receive(epoch, p)
		}
	}))
	require.Equal(t, 2, r.cells.used)
}
