package slices

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/parity"
	"github.com/quivernet/quiver/internal/testkit"
)

// slicesOf sends a message by an outbox and returns its slices.
func slicesOf(t *testing.T, o *outbox, message []byte) (all []chunk.Slice) {
	require.NoError(t, o.send(message, memory{}))
	for {
		slice, _, ok := o.next(netsim.Epoch, false)
		if !ok {
			return all
		}
		all = append(all, slice)
	}
}

// repairsOf returns the repair slices for the chunks that o has in flight, as a peer parses them.
func repairsOf(t *testing.T, r *repairMaker, o *outbox, loss float64) (all []repair) {
	for range 1000 {
		slice, ok := r.next(o, loss)
		if !ok {
			return all
		}
		packet := slice.append(nil)
		require.Len(t, packet, repairBytes)
		parsed, ok := parseRepair(packet)
		require.True(t, ok)
		all = append(all, parsed)
	}
	require.Fail(t, "no end of repair slices")
	return nil
}

func newMendBox(bytes int64) *inbox {
	b := newInbox(newRoom(bytes), quickAcks)
	return &b
}

// TestMendAnyLoss loses any slices, as many as there are repair slices, of chunks of every shape.
func TestMendAnyLoss(t *testing.T) {
	random := testkit.Rand(t)
	for range 200 {
		var o outbox
		var r repairMaker
		box := newMendBox(8 << 20)
		message := make([]byte, 1+random.IntN(partBytes))
		for i := range message {
			message[i] = byte(random.Uint32())
		}
		all := slicesOf(t, &o, message)
		repair := repairsOf(t, &r, &o, 0.1)
		require.NotEmpty(t, repair)
		lost := random.Perm(len(all))[:min(len(all), len(repair))]
		for i, slice := range all {
			if !contains(lost, i) {
				box.addSlice(netsim.Epoch, slice)
			}
		}
		for _, i := range random.Perm(len(repair)) {
			box.addRepair(netsim.Epoch, repair[i])
		}
		got := box.drain()
		require.Len(t, got, 1, "%d slices, %d lost, %d to repair", len(all), len(lost), len(repair))
		require.True(t, bytes.Equal(message, got[0]))
		require.EqualValues(t, len(lost), box.restorer.restored)
		require.EqualValues(t, 8<<20, box.memory.account.(*room).left, "all memory is given back")
	}
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// TestRepairsLeaveOnce: each chunk gets repair slices once, when its slices were sent.
func TestRepairsLeaveOnce(t *testing.T) {
	var o outbox
	var r repairMaker
	require.NoError(t, o.send(content(100), memory{}))
	require.Empty(t, repairsOf(t, &r, &o, 0.05), "nothing ever left")

	o, r = outbox{}, repairMaker{}
	slicesOf(t, &o, content(partBytes))
	first := repairsOf(t, &r, &o, 0.05)
	require.NotEmpty(t, first)
	require.Empty(t, repairsOf(t, &r, &o, 0.05))
	require.NoError(t, o.send(content(100), memory{}))
	require.Empty(t, repairsOf(t, &r, &o, 0.05), "nothing of it has left")
}

// TestNoRepairsOfWideChunks: a peer takes no repair slice of a chunk of more
// than maxRepaired slices.
func TestNoRepairsOfWideChunks(t *testing.T) {
	var o outbox
	var r repairMaker
	slicesOf(t, &o, content((maxRepaired+1)*Size))
	require.Empty(t, repairsOf(t, &r, &o, 0.05))
	slicesOf(t, &o, content(maxRepaired*Size))
	require.NotEmpty(t, repairsOf(t, &r, &o, 0.05))
}

// TestNoRepairsOfAckedChunks: unsent repair slices of a chunk are not sent once the chunk is acked.
func TestNoRepairsOfAckedChunks(t *testing.T) {
	var o outbox
	var r repairMaker
	a := chunk.Ack{Count: len(slicesOf(t, &o, content(partBytes)))}
	first, ok := r.next(&o, 0.3)
	require.True(t, ok)
	require.Greater(t, first.total, 1)
	require.NoError(t, o.send(content(100), memory{}))
	for i := range a.Count {
		a.Acked.Set(i)
	}
	c, fresh, _ := o.newlyAcked(&a)
	o.acknowledge(netsim.Epoch, c, &fresh)
	_, ok = r.next(&o, 0.3)
	require.False(t, ok, "nothing of the second chunk has left")
}

// TestNoRepairsOfHalfSentChunks: a peer that restored a slice which was never sent would ack it,
// and that ends the connection.
func TestNoRepairsOfHalfSentChunks(t *testing.T) {
	var o outbox
	repairs := func() bool {
		_, ok := new(repairMaker).next(&o, 0.3)
		return ok
	}
	require.NoError(t, o.send(content(partBytes), memory{}))
	for o.unsent > 0 {
		require.False(t, repairs(), "%d bytes unsent", o.unsent)
		_, _, ok := o.next(netsim.Epoch, false)
		require.True(t, ok)
	}
	require.True(t, repairs())
}

// TestRestorerIsBounded passes repair slices of a chunk that never arrives to a restorer.
func TestRestorerIsBounded(t *testing.T) {
	box := newMendBox(10 * Size)
	for id := range uint16(Pipeline + 100) {
		for i := range 4 {
			box.addRepair(netsim.Epoch, repair{id: id, count: 28, total: 4, index: i, last: 1, shard: make([]byte, Size)})
		}
	}
	require.Nil(t, box.restorer.find(Pipeline+50), "far ahead of what may come")
	require.Equal(t, maxHeldRepairs, box.restorer.count)
	for id := range uint16(Pipeline) {
		for i := range parity.Most {
			box.addRepair(netsim.Epoch, repair{id: id, count: 28, total: parity.Most, index: i, last: 1, shard: make([]byte, Size)})
		}
	}
	require.Equal(t, maxHeldRepairs, box.restorer.count, "they contradict the first")
	for id := range uint16(Pipeline) {
		box.restorer.drop(id, box.memory.account)
		for i := range parity.Most {
			box.addRepair(netsim.Epoch, repair{id: id, count: 28, total: parity.Most, index: i, last: 1, shard: make([]byte, Size)})
		}
	}
	require.Equal(t, maxHeldRepairs, box.restorer.count)
	require.NotZero(t, box.refused)
	require.EqualValues(t, 10*Size, box.memory.account.(*room).left, "no room of slices")

	box.restorer.dropAll(box.memory.account)
	require.Nil(t, box.restorer.sets, "a map that was large is not charged")
}

// full is an account that lends nothing.
type full struct{ *room }

func (full) Borrow(int64, bool) bool { return false }

// TestRestorerHoldsNothingUncharged: nothing is kept of a repair slice for which there is no room.
func TestRestorerHoldsNothingUncharged(t *testing.T) {
	box := newMendBox(8 << 20)
	box.memory.account = full{newRoom(0)}
	box.addRepair(netsim.Epoch, repair{count: 28, total: 4, last: 1, shard: make([]byte, Size)})
	require.EqualValues(t, 1, box.refused)
	require.Nil(t, box.restorer.find(0))
}

// TestRepairThatContradicts is dropped: it neither harms the chunk nor ends anything.
func TestRepairThatContradicts(t *testing.T) {
	var o outbox
	box := newMendBox(8 << 20)
	var r repairMaker
	message := content(20_000)
	all := slicesOf(t, &o, message)
	box.addSlice(netsim.Epoch, all[0])
	other := repair{id: 0, count: 60, total: 2, last: 5, shard: make([]byte, Size)}
	box.addRepair(netsim.Epoch, other)
	right := repairsOf(t, &r, &o, 0.05)
	box.addRepair(netsim.Epoch, right[0])
	other.count, other.index = len(all), 1
	box.addRepair(netsim.Epoch, other)
	require.NotZero(t, box.malformed)
	for _, slice := range all[1:] {
		box.addSlice(netsim.Epoch, slice)
	}
	got := box.drain()
	require.Len(t, got, 1)
	require.True(t, bytes.Equal(message, got[0]))
	box.recycle(got)
	require.EqualValues(t, 8<<20, box.memory.account.(*room).left)
}

// TestMalformedRepairs: what no sender makes is dropped and counted.
func TestMalformedRepairs(t *testing.T) {
	good := repair{id: 1, count: maxRepaired, total: parity.Most, index: parity.Most - 1, last: Size, shard: make([]byte, Size)}
	_, ok := parseRepair(good.append(nil))
	require.True(t, ok)
	m := New(protocol, newRoom(1<<20))
	for name, change := range map[string]func(r *repair){
		"too many slices":            func(r *repair) { r.count++ },
		"too many repairs":           func(r *repair) { r.total++ },
		"no repairs":                 func(r *repair) { r.total, r.index = 0, 0 },
		"index behind the last":      func(r *repair) { r.index++ },
		"no bytes in the last slice": func(r *repair) { r.last = 0 },
		"a last slice too large":     func(r *repair) { r.last++ },
		"a short shard":              func(r *repair) { r.shard = r.shard[1:] },
	} {
		bad, before := good, m.Stats().Malformed
		change(&bad)
		require.NoError(t, m.Receive(netsim.Epoch, bad.append(nil)))
		require.Equal(t, before+1, m.Stats().Malformed, name)
	}
}

func FuzzRepair(f *testing.F) {
	f.Add(uint64(1), repair{id: 1, count: 28, total: 3, index: 1, last: 9, shard: make([]byte, Size)}.append(nil))
	f.Add(uint64(2), []byte{repairByte})
	f.Fuzz(func(t *testing.T, seed uint64, packet []byte) {
		random := rand.New(rand.NewPCG(seed, 1))
		var o outbox
		box := newMendBox(1 << 20)
		message := content(1 + random.IntN(partBytes))
		for _, slice := range slicesOf(t, &o, message) {
			if random.IntN(3) > 0 {
				box.addSlice(netsim.Epoch, slice)
			}
		}
		r, ok := parseRepair(packet)
		if !ok {
			return
		}
		require.Equal(t, packet, r.append(nil))
		for range 20 {
			r.index = random.IntN(r.total)
			box.addRepair(netsim.Epoch.Add(time.Second), r)
		}
		require.GreaterOrEqual(t, box.memory.account.(*room).left, int64(-256*Size))
	})
}

// TestRepairOnTheWire computes a repair slice as WIRE.md says.
func TestRepairOnTheWire(t *testing.T) {
	var o outbox
	var r repairMaker
	message := content(2*Size + 77)
	slicesOf(t, &o, message)
	all := repairsOf(t, &r, &o, 0.3)
	require.NotEmpty(t, all)
	for _, repair := range all {
		require.Equal(t, 77, repair.last)
		for i, got := range repair.shard {
			want := byte(0)
			for c := range repair.count {
				if at := c*Size + i; at < len(message) {
					want ^= gfDivide(message[at], byte((repair.count+repair.index)^c))
				}
			}
			require.Equal(t, want, got)
		}
	}
	packet := all[0].append(nil)
	require.Equal(t, []byte{0x04, 0, 0, 2, byte(all[0].total), 0, 0, 77}, packet[:8])
}

// gfDivide finds the x with x*b = a in GF(2^8) with the polynomial 0x11d.
func gfDivide(a, b byte) byte {
	for x := range 256 {
		product, m := 0, int(b)
		for bit := range 8 {
			if x>>bit&1 == 1 {
				product ^= m << bit
			}
		}
		for bit := 15; bit >= 8; bit-- {
			if product>>bit&1 == 1 {
				product ^= 0x11d << (bit - 8)
			}
		}
		if byte(product) == a {
			return byte(x)
		}
	}
	panic("no quotient")
}
