package bunch

import (
	"github.com/quivernet/quiver/internal/testkit"

	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpareMemoryOfPayloads: hasSpare notices any kind of spare memory, or it would never be
// freed.
func TestSpareMemoryOfPayloads(t *testing.T) {
	for name, keep := range map[string]func(p *payloadMemory){
		"a slot":  func(p *payloadMemory) { p.free(p.slot(1)) },
		"a block": func(p *payloadMemory) { p.blocks.put(make([]byte, EntryBytes)) },
		"a list":  func(p *payloadMemory) { p.parts = make([][]byte, 0, 1) },
	} {
		p := newPayloadMemory()
		require.False(t, p.hasSpare())
		keep(&p)
		require.True(t, p.hasSpare(), name)
		p.trim()
		p.trim()
		require.False(t, p.hasSpare(), name)
	}
}

func TestSlotAddsExtents(t *testing.T) {
	s := slot{payload: make([]byte, 41)}
	for _, c := range []struct {
		off, end uint16
		n        uint8
	}{{10, 20, 1}, {30, 40, 2}, {0, 5, 3}, {20, 30, 2}, {4, 11, 1}, {0, 40, 1}} {
		require.True(t, s.add(c.off, c.end))
		require.Equal(t, c.n, s.nranges, c)
		require.False(t, s.complete())
	}
	require.True(t, s.add(40, 41))
	require.True(t, s.complete())
}

func TestSlotAgainstAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range 2000 {
		var s slot
		var have [300]bool
		for range 30 {
			off := uint16(random.IntN(299))
			end := off + 1 + uint16(random.IntN(min(60, 300-int(off))))
			before := s
			if !s.add(off, end) {
				s = before
				break
			}
			for i := off; i < end; i++ {
				have[i] = true
			}
		}
		var got [300]bool
		for i, h := range s.ranges[:s.nranges] {
			require.True(t, i == 0 || s.ranges[i-1].end < h.off, "in order and apart")
			for j := h.off; j < h.end; j++ {
				got[j] = true
			}
		}
		if s.nranges < maxPieces {
			require.Equal(t, have, got)
		}
	}
}

// TestParkedAgainstAModel: a list of early entries finds each of them, and has room for no more
// than a few times their number.
func TestParkedAgainstAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	memory := newPayloadMemory()
	ch := &channel{}
	model := map[uint64]*slot{}
	for range 20_000 {
		n := ch.expected + random.Uint64N([]uint64{4, 60, 3000}[random.IntN(3)])
		s, i := ch.in.park(n, &memory)
		require.Equal(t, n, s.number)
		require.Same(t, s, ch.in.at(i))
		if before := model[n]; before != nil {
			require.Same(t, before, s)
		}
		model[n] = s
		if random.IntN(3) == 0 {
			for ch.in.len() > 0 && random.IntN(20) > 0 {
				ch.expected = ch.in.at(0).number + 1
				delete(model, ch.expected-1)
				memory.free(ch.in.drop())
			}
		}
		require.Equal(t, len(model), ch.in.len())
		require.LessOrEqual(t, cap(ch.in.items), max(2*keptParked, 8*len(model)))
	}
}

func TestEntryCuts(t *testing.T) {
	var e entry
	e.init(flagWhole, make([]byte, 100))
	require.False(t, e.cut(0, 0))
	require.False(t, e.cut(0, 100))
	require.True(t, e.cut(0, 60))
	require.True(t, e.cut(0, 20))
	require.True(t, e.cut(2, 10))
	offs := func() (all []uint16) {
		for _, p := range e.all() {
			all = append(all, p.off, p.end)
		}
		return all
	}
	require.Equal(t, []uint16{0, 20, 20, 60, 60, 70, 70, 100}, offs())
	e.pieces[1].copies = 1
	require.False(t, e.cut(1, 10), "not while it flies")
	require.True(t, e.cut(3, 10))
	require.True(t, e.cut(4, 10))
	require.False(t, e.cut(5, 5), "at most 6")
	for i := range e.all() {
		require.False(t, e.isAcked())
		require.Equal(t, i, e.nextQueued())
		e.pieces[i].queued = false
		e.pieces[i].acked = true
	}
	require.True(t, e.isAcked())
	require.Equal(t, -1, e.nextQueued())
}

func TestBlocksAreReused(t *testing.T) {
	b := newBlocks(maxSmall, maxFull)
	small, full := b.get(128), b.get(129)
	require.Equal(t, smallBlock, cap(small))
	require.Equal(t, EntryBytes, cap(full))
	small = append(small, "abc"...)
	grown := b.grow(small, 126)
	require.Equal(t, "abc", string(grown))
	require.Equal(t, EntryBytes, cap(grown))
	require.Equal(t, &small[0], &b.get(1)[:1][0], "the small one came back")
	b.put(nil)
	b.put(make([]byte, 5))
	for range 2 * maxFull {
		b.put(make([]byte, 0, EntryBytes))
	}
	require.Len(t, b.full.items, maxFull)
	require.Empty(t, b.small.items)
}

func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	var q queue[int]
	var model []int
	for i := range 20_000 {
		switch random.IntN(9) {
		case 0, 1, 2, 3:
			q.push(i)
			model = append(model, i)
		case 4, 5, 6:
			if q.len() > 0 {
				require.Equal(t, model[0], q.pop())
				model = model[1:]
			}
		case 7:
			q.insert(0, i)
			model = append([]int{i}, model...)
		case 8:
			q.remove(func(v int) bool { return v == i-5 })
			for j, v := range model {
				if v == i-5 {
					model = append(append([]int(nil), model[:j]...), model[j+1:]...)
					break
				}
			}
		}
		require.Equal(t, len(model), q.len())
		if len(model) > 0 {
			require.Equal(t, model[0], *q.peek())
		}
	}
	require.LessOrEqual(t, cap(q.items), 8*(len(model)+100))
}

// A queue that is full in one tick and nearly empty in the next two keeps its memory. One that
// stays nearly empty frees it.
func TestQueueKeepsTheMemoryOfABusyTick(t *testing.T) {
	var q queue[int]
	fill := func(n int) {
		for i := range n {
			q.push(i)
		}
		for q.len() > 0 {
			q.pop()
		}
	}
	fill(300)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		fill(2)
		fill(2)
		fill(300)
	}))
	for range maxSlack + 1 {
		require.GreaterOrEqual(t, cap(q.items), 300)
		fill(2)
	}
	require.Zero(t, cap(q.items))
}

// TestReliableBuffersBorrowRings: a channel has slots of its own for a tick of play, and
// borrows a ring for more.
func TestReliableBuffersBorrowRings(t *testing.T) {
	p := newPair(t, Config{})
	c, channels := p.ends[0], []uint64{p.open(0, Normal), p.open(0, Normal)}
	fill := func(number uint64, entries int) *channel {
		ch := c.channels.open[number]
		first := ch.next
		for i := range entries {
			p.send(0, number, Reliable, pattern(EntryBytes-2, i))
			for n := first; n < ch.next; n++ {
				require.Equal(t, pattern(EntryBytes-2, int(n-first)), ch.out.at(n).payload[2:], "entry %d of %d", n, i+1)
			}
		}
		return ch
	}
	ch := fill(channels[0], 100)
	require.Len(t, ch.out.slots, 128)
	borrowed, few := &ch.out.slots[0], &ch.ownSlots[0]
	p.run(time.Second)
	p.settled()
	require.Equal(t, few, &ch.out.slots[0], "its own places are back")
	require.Len(t, ch.out.slots, ownEntries)

	t.Log("# another channel borrows the ring")
	ch = fill(channels[1], ownEntries)
	require.NotEqual(t, borrowed, &ch.out.slots[0])
	p.run(time.Second)
	ch = fill(channels[1], ownEntries+1)
	require.Equal(t, borrowed, &ch.out.slots[0])
	require.Empty(t, c.rings.items)
	p.run(time.Second)
	p.settled()
	require.Len(t, c.rings.items, 1)
}

func TestSpares(t *testing.T) {
	s := spares[int]{limit: 4}
	require.Zero(t, s.take())
	for i := range 6 {
		s.put(i + 1)
	}
	require.Equal(t, []int{1, 2, 3, 4}, s.items)
	s.trim()
	require.Len(t, s.items, 4, "they came since the last trim")
	require.Equal(t, 4, s.take())
	require.Equal(t, 3, s.take())
	s.put(5)
	s.trim()
	require.Equal(t, []int{5}, s.items, "two were not needed")
	s.trim()
	require.Nil(t, s.items)
}
