package slices

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/parity"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// fatedEnd is one end of a path that reports fates.
type fatedEnd struct{ *Machine }

func newFatedEnd() fatedEnd {
	m := New(protocol, newRoom(8<<20))
	m.SetPath(netsim.Epoch, recovery.Path{Fates: true})
	return fatedEnd{m}
}

// pass sends all that from has to send, and reports the fates to it. Datagrams
// for which drop returns true do not arrive.
func (e fatedEnd) pass(now time.Time, to fatedEnd, drop func(packet []byte) bool) (sent int) {
	for ; ; sent++ {
		packet, number, ok := e.AppendPacket(now, nil, Datagram)
		if !ok {
			return sent
		}
		if drop(packet) {
			defer e.Fate(now, number, false)
			continue
		}
		_ = to.Receive(now, packet)
		defer e.Fate(now, number, true)
	}
}

// TestTransferWithoutRepair: a peer that does not know repair slices loses those, and nothing else.
func TestTransferWithoutRepair(t *testing.T) {
	random := testkit.Rand(t)
	a, b := newFatedEnd(), newFatedEnd()
	message, now, repairs := content(partBytes), netsim.Epoch, 0
	require.NoError(t, a.Send(message, memory{}))
	a.SetNoMore(true)
	for !a.out.idle() {
		a.pass(now, b, func(payload []byte) bool {
			if payload[0] == repairByte {
				repairs++
				return true
			}
			return random.IntN(10) == 0
		})
		now = now.Add(100 * time.Millisecond)
		_ = b.Advance(now)
		b.pass(now, a, func([]byte) bool { return random.IntN(10) == 0 })
	}
	require.NotZero(t, repairs)
	got := b.in.drain()
	require.Len(t, got, 1)
	require.True(t, bytes.Equal(message, got[0]))
}

// TestLostAcksAreNoStorm: for a lost ack one more is sent, and not those of all chunks.
func TestLostAcksAreNoStorm(t *testing.T) {
	random := testkit.Rand(t)
	a, b := newFatedEnd(), newFatedEnd()
	now, acks := netsim.Epoch, 0
	for range Pipeline {
		require.NoError(t, a.Send(content(2*Size), memory{}))
	}
	for !a.out.idle() {
		a.pass(now, b, func([]byte) bool { return false })
		now = now.Add(100 * time.Millisecond)
		_ = b.Advance(now)
		acks += b.pass(now, a, func([]byte) bool { return random.IntN(2) == 0 })
	}
	require.Less(t, acks, 4*Pipeline)
}

// TestFarAhead: after a chunk that has lost a slice, more than ReservedRecords chunks
// may be in flight, if they are full. The receiver borrows the memory of their
// records, and returns it as soon as no chunk is incomplete.
func TestFarAhead(t *testing.T) {
	const flight = 3 * ReservedRecords
	a, b := newFatedEnd(), newFatedEnd()
	b.in.memory.account = newRoom(flight * 40 << 10)
	for range ReservedRecords {
		require.NoError(t, a.Send(content(100), memory{}))
	}
	require.True(t, a.out.full(), "no receiver reckons with more that are not")
	deliver := func([]byte) bool { return false }
	a.pass(netsim.Epoch, b, deliver)
	b.pass(netsim.Epoch, a, deliver)
	require.Len(t, b.in.drain(), ReservedRecords)
	require.True(t, a.out.idle())

	for n := range flight {
		require.False(t, a.out.full(), "%d chunks", n)
		require.NoError(t, a.Send(content(SlicesPerPart*Size), memory{}))
	}
	lost := false
	a.pass(netsim.Epoch, b, func([]byte) bool { // the first slice
		defer func() { lost = true }()
		return !lost
	})
	require.Empty(t, b.in.drain())
	require.Equal(t, 4*ReservedRecords, b.in.memory.records)
	account := b.in.memory.account.(*room)
	require.EqualValues(t, ReceiverBytes+(4*ReservedRecords-leastRecords)*recordBytes, account.borrowed)
	a.pass(netsim.Epoch, b, deliver)
	require.Len(t, b.in.drain(), flight)
	require.Zero(t, b.in.refused)
	require.Equal(t, leastRecords, b.in.memory.records)
	require.EqualValues(t, ReceiverBytes, account.borrowed)

	b.pass(netsim.Epoch, a, deliver)
	require.True(t, a.out.idle())
	for range ReservedRecords {
		require.NoError(t, a.Send(content(100), memory{}))
	}
	require.True(t, a.out.full(), "small ones are refused beside large ones that are under way no more")
}

// TestOutageEndsWithItsPath: probe timeouts from before the carrier changed
// hold nothing back when it changes back.
func TestOutageEndsWithItsPath(t *testing.T) {
	c := newConversation(t)
	c.give(3)
	c.darken()
	require.Len(t, c.leave(), probePackets)

	t.Log("# the next carrier loses all, too")
	c.SetPath(c.now, recovery.Path{Fates: true})
	c.pass(time.Second)
	var numbers []uint64
	for range 3 {
		_, number, ok := c.AppendPacket(c.now, nil, Datagram)
		require.True(t, ok)
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		c.Fate(c.now, number, false)
	}

	t.Log("# and hands back")
	c.SetPath(c.now, recovery.Path{})
	require.Len(t, c.leave(), 3)
}

// TestCarrierAloneTellsLosses: an ack with a hole decides nothing about a slice
// whose fate the carrier will report.
func TestCarrierAloneTellsLosses(t *testing.T) {
	a, b := newFatedEnd(), newFatedEnd()
	require.NoError(t, a.Send(content(10*Size), memory{}))
	now, hole := netsim.Epoch, uint64(0)
	for i := range 10 {
		packet, number, ok := a.AppendPacket(now, nil, Datagram)
		require.True(t, ok)
		if i == 2 {
			hole = number
			continue
		}
		require.NoError(t, b.Receive(now, packet))
	}
	now = now.Add(rareAcks.delay)
	require.NoError(t, b.Advance(now))
	packet, _, ok := b.AppendPacket(now, nil, Datagram)
	require.True(t, ok, "an ack")
	require.NoError(t, a.Receive(now, packet))
	require.Equal(t, 1, a.out.flight.count)
	_, _, ok = a.AppendPacket(now.Add(5*time.Second), nil, Datagram)
	require.False(t, ok, "the slice may be late")
	require.Zero(t, a.Lost())
	a.Fate(now, hole, false)
	_, _, ok = a.AppendPacket(now, nil, Datagram)
	require.True(t, ok)
	require.EqualValues(t, 1, a.Stats().Resent)
}

// TestSealedPayloadsThatAreNone are dropped and counted.
func TestSealedPayloadsThatAreNone(t *testing.T) {
	e := newFatedEnd()
	good := repair{id: 1, count: 28, total: 3, index: 1, last: 9, shard: make([]byte, Size)}.append(nil)
	bad := [][]byte{{0}, {protocol}, {repairByte}, good[:len(good)-1], append(bytes.Clone(good), 0), bytes.Repeat([]byte{0xff}, 1400)}
	for at, value := range map[int]byte{3: maxRepaired, 4: parity.Most + 1, 5: 3, 6: 0xff} {
		p := bytes.Clone(good)
		p[at] = value
		bad = append(bad, p)
	}
	for _, p := range bad {
		_ = e.Receive(netsim.Epoch, p)
	}
	require.EqualValues(t, len(bad), e.in.malformed)
	require.EqualValues(t, 8<<20, e.in.memory.account.(*room).left)
}

// TestWhatIsNotKeptComesAgain: the carrier says that slices arrived, but the
// peer had no room for them.
func TestWhatIsNotKeptComesAgain(t *testing.T) {
	a, b := newFatedEnd(), newFatedEnd()
	b.in.memory.account = newRoom(ChunkBytes(SlicesPerPart))
	var sent, got [][]byte
	for range 3 {
		sent = append(sent, content(partBytes))
		require.NoError(t, a.Send(sent[len(sent)-1], memory{}))
	}
	now, first := a.keepTimer.since, true
	for turn := 0; !a.out.idle(); turn++ {
		require.Less(t, turn, 100)
		a.pass(now, b, func(payload []byte) bool {
			p, err := config.Parse(payload[1:])
			require.NoError(t, err)
			return first && p.Kind == chunk.KindSlice && p.Slice.ChunkID == 0
		})
		first = false
		b.pass(now, a, func([]byte) bool { return false })
		next, ok := a.NextTimeout()
		if at, soon := b.NextTimeout(); soon && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		require.True(t, ok || a.out.idle(), "somebody has to move")
		now, got = next, append(got, b.in.drain()...)
		_ = a.Advance(now)
		_ = b.Advance(now)
	}
	require.NotZero(t, b.in.refused)
	require.Equal(t, sent, got)
}

// TestPeerWithoutMemoryIsAskedLessAndLess: otherwise everything that it refuses
// would be sent again each second while others hold its memory.
func TestPeerWithoutMemoryIsAskedLessAndLess(t *testing.T) {
	a, b := newFatedEnd(), newFatedEnd()
	b.in.memory.account = &purse{}
	const parts = 8
	for range parts {
		require.NoError(t, a.Send(content(partBytes), memory{}))
	}
	now := netsim.Epoch
	run := func(d time.Duration) (sent int) {
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Millisecond) {
			require.NoError(t, a.Advance(now))
			require.NoError(t, b.Advance(now))
			sent += a.pass(now, b, func([]byte) bool { return false })
			b.pass(now, a, func([]byte) bool { return false })
			b.in.drain()
		}
		return sent
	}
	require.InDelta(t, (1+5)*parts*SlicesPerPart, run(40*time.Second), parts*SlicesPerPart, "at once, and after 1, 2, 4, 8 and 16 s")
	run(time.Minute)
	b.in.memory.account = newRoom(ChunkBytes(SlicesPerPart))
	run((16 + parts) * time.Second)
	require.True(t, a.out.idle())
}

// TestWhatIsNotKeptComesAgainOverQUIC: the same, when the sealed carrier falls
// silent before anybody has noticed.
func TestWhatIsNotKeptComesAgainOverQUIC(t *testing.T) {
	a, b := newFatedEnd(), newFatedEnd()
	b.in.memory.account = newRoom(0)
	sent, got := [][]byte{content(100), content(200)}, [][]byte(nil)
	for _, message := range sent {
		require.NoError(t, a.Send(message, memory{}))
	}
	now := a.keepTimer.since
	first := true
	a.pass(now, b, func([]byte) bool { dropped := first; first = false; return dropped })
	require.NotZero(t, b.in.refused)
	b.in.memory.account = newRoom(1 << 20)
	a.SetPath(now, recovery.Path{})
	b.SetPath(now, recovery.Path{})
	for turn := 0; !a.out.idle(); turn++ {
		require.Less(t, turn, 100)
		for _, way := range [][2]fatedEnd{{a, b}, {b, a}} {
			for p, _, ok := way[0].AppendPacket(now, nil, Datagram); ok; p, _, ok = way[0].AppendPacket(now, nil, Datagram) {
				require.NoError(t, way[1].Receive(now, p))
			}
		}
		next, ok := a.NextTimeout()
		if at, soon := b.NextTimeout(); soon && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		require.True(t, ok && next.Sub(now) < 5*time.Second || a.out.idle(), "somebody has to move soon")
		now, got = next, append(got, b.in.drain()...)
		require.NoError(t, a.Advance(now))
		require.NoError(t, b.Advance(now))
	}
	require.Equal(t, sent, append(got, b.in.drain()...))
}

// TestRepairWaitsForOneSlice: two repair slices and one of three lost ones make
// a chunk, and nothing is kept of them.
func TestRepairWaitsForOneSlice(t *testing.T) {
	a, b := newFatedEnd(), newFatedEnd()
	message := content(partBytes)
	all := slicesOf(t, &a.out, message)
	var r repairMaker
	repair := repairsOf(t, &r, &a.out, 0.1)
	receive := func(s chunk.Slice) {
		_ = b.Receive(netsim.Epoch, config.AppendSlice([]byte{protocol}, s))
	}
	for _, s := range all[3:] {
		receive(s)
	}
	for _, p := range repair[:2] {
		_ = b.Receive(netsim.Epoch, p.append(nil))
	}
	require.Empty(t, b.in.messages)
	receive(all[1])
	require.Equal(t, [][]byte{message}, b.in.drain())
	require.EqualValues(t, 2, b.in.restorer.restored)
	require.Zero(t, b.in.restorer.count)
}

// FuzzFates passes arbitrary payloads to both ends of a path that reports fates,
// and loses any of theirs: nothing panics, and memory stays within its account.
func FuzzFates(f *testing.F) {
	f.Add(uint64(1), []byte{protocol, 1, 2, 3})
	f.Add(uint64(2), repair{id: 0, count: 5, total: 3, index: 1, last: 9, shard: make([]byte, Size)}.append(nil))
	f.Fuzz(func(t *testing.T, seed uint64, foreign []byte) {
		if len(foreign) == 0 {
			return
		}
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := newFatedEnd(), newFatedEnd()
		for range 1 + random.IntN(5) {
			require.NoError(t, a.Send(content(1+random.IntN(partBytes)), memory{}))
		}
		a.SetNoMore(true)
		now := netsim.Epoch
		for range 50 {
			_ = b.Receive(now, bytes.Clone(foreign))
			a.pass(now, b, func([]byte) bool { return random.IntN(5) == 0 })
			now = now.Add(100 * time.Millisecond)
			_ = b.Advance(now)
			b.pass(now, a, func([]byte) bool { return random.IntN(5) == 0 })
			if random.IntN(10) == 0 {
				_ = a.Receive(now, bytes.Clone(foreign))
			}
			b.in.recycle(b.in.drain())
		}
		require.LessOrEqual(t, b.in.restorer.count, maxHeldRepairs)
		require.GreaterOrEqual(t, b.in.memory.account.(*room).left, int64(-256*Size))
	})
}

// TestFarChunkWithoutRoom: when a chunk far ahead finds no memory, records are
// freed for it, and then there is none for its own record. It is refused, and
// not charged, however often its slices arrive.
func TestFarChunkWithoutRoom(t *testing.T) {
	for room := int64(0); room < 64<<10; room += 1 << 10 {
		pool := budget.NewPool(ReceiverBytes + room)
		account := budget.NewAccount(pool, budget.Terms{Floor: 1 << 30, Early: 1 << 30})
		b := newInbox(account, rareAcks)
		for range 3 {
			b.addSlice(netsim.Epoch, chunk.Slice{ChunkID: ReservedRecords + 44, Index: 0, Count: SlicesPerPart, Data: make([]byte, Size)})
			_, have := b.memory.partial(ReservedRecords + 44)
			sums, _ := account.Charge()
			require.Equal(t, have.Count != 0, sums.Held > 0, "%d bytes: charged %+v", room, sums)
			require.Equal(t, have.Count != 0, b.incomplete == 1)
		}
	}
}

// TestRefusedRepairHoldsNothing: a repair slice for which there is no room is
// not kept, and makes no set.
func TestRefusedRepairHoldsNothing(t *testing.T) {
	account := budget.NewAccount(budget.NewPool(repairCost-1), budget.Terms{Floor: 1 << 30, Early: 1 << 30})
	m := new(restorer)
	require.Equal(t, noRoom, m.keep(repair{id: 7, count: 2, total: 1, last: 100, shard: make([]byte, Size)}, account))
	require.Nil(t, m.sets)
	sums, _ := account.Charge()
	require.Zero(t, sums.Borrowed)
}
