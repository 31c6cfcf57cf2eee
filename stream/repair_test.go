package stream

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// slicesOf has a slicer send a message and returns its slices.
func slicesOf(t *testing.T, s *slicer, message []byte) (all []chunk.Slice) {
	require.NoError(t, s.send(newBlock(1), message))
	for {
		slice, _, ok := s.next(netsim.Epoch)
		if !ok {
			return all
		}
		all = append(all, slice)
	}
}

// repairsOf returns the repair slices for what s has under way, as a peer parses them.
func repairsOf(t *testing.T, r *repairs, s *slicer, loss float64) (all []repairSlice) {
	for range 1000 {
		slice, ok := r.take(s, loss)
		if !ok {
			return all
		}
		packet := slice.append(nil)
		require.Len(t, packet, repairBytes)
		parsed, err := parseRepair(packet)
		require.NoError(t, err)
		all = append(all, parsed)
	}
	require.Fail(t, "no end of repair slices")
	return nil
}

func newMendBox(bytes int64) *sliceInbox {
	return &sliceInbox{account: newRoom(bytes), ackEvery: sliceAckEvery, ackDelay: sliceAckDelay}
}

// TestMendAnyLoss loses any slices, as many as there are repair slices, of chunks of every shape.
func TestMendAnyLoss(t *testing.T) {
	random := testkit.Rand(t)
	for range 200 {
		var s slicer
		var r repairs
		r.loss.decided = priorMemory
		var m mender
		box := newMendBox(8 << 20)
		message := make([]byte, 1+random.IntN(slicePartBytes))
		for i := range message {
			message[i] = byte(random.Uint32())
		}
		all := slicesOf(t, &s, message)
		repair := repairsOf(t, &r, &s, 0.1)
		require.NotEmpty(t, repair)
		lost := random.Perm(len(all))[:min(len(all), len(repair))]
		for i, slice := range all {
			if !contains(lost, i) {
				box.add(netsim.Epoch, slice)
				m.mend(netsim.Epoch, slice.ChunkID, box)
			}
		}
		for _, i := range random.Perm(len(repair)) {
			m.add(netsim.Epoch, repair[i], box)
		}
		got := box.drain()
		require.Len(t, got, 1, "%d slices, %d lost, %d to repair", len(all), len(lost), len(repair))
		require.True(t, bytes.Equal(message, got[0]))
		require.EqualValues(t, len(lost), m.mended)
		require.EqualValues(t, 8<<20, box.account.left(), "all memory is given back")
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

// TestRepairIsInProportion: more loss, more repair; what is acked needs none, and each chunk is repaired once.
func TestRepairIsInProportion(t *testing.T) {
	require.Zero(t, parityFor(28, 0.00001))
	before := 0
	for _, loss := range []float64{0.001, 0.01, 0.02, 0.05, 0.1} {
		n := parityFor(28, loss)
		t.Logf("%d repair slices for 28 at a loss of %v", n, loss)
		require.Greater(t, n, before)
		before = n
	}
	require.Equal(t, maxParity, parityFor(28, 0.5))
	require.Zero(t, parityFor(0, 0.1))

	var s slicer
	var r repairs
	require.NoError(t, s.send(newBlock(1), content(100)))
	require.Empty(t, repairsOf(t, &r, &s, 0.05), "nothing ever left")

	s, r = slicer{}, repairs{}
	slicesOf(t, &s, content(slicePartBytes))
	first := repairsOf(t, &r, &s, 0.05)
	require.NotEmpty(t, first)
	require.Empty(t, repairsOf(t, &r, &s, 0.05))
	require.NoError(t, s.send(newBlock(1), content(100)))
	require.Empty(t, repairsOf(t, &r, &s, 0.05), "nothing of it has left")
}

// TestMenderIsBounded gives a mender repair slices of a chunk that never comes.
func TestMenderIsBounded(t *testing.T) {
	var m mender
	box := newMendBox(10 * sliceBytes)
	for id := range uint16(1000) {
		for i := range 4 {
			m.add(netsim.Epoch, repairSlice{id: id, count: 28, parity: 4, index: i, last: 1, shard: make([]byte, sliceBytes)}, box)
		}
	}
	require.NotZero(t, m.spare, "far ahead of what may come")
	require.Equal(t, 4*slicePipeline, m.held)
	for id := range uint16(slicePipeline) {
		for i := range maxParity {
			m.add(netsim.Epoch, repairSlice{id: id, count: 28, parity: maxParity, index: i, last: 1, shard: make([]byte, sliceBytes)}, box)
		}
	}
	require.Equal(t, 4*slicePipeline, m.held, "they contradict the first")
	for id := range uint16(slicePipeline) {
		m.drop(id, box.account)
		for i := range maxParity {
			m.add(netsim.Epoch, repairSlice{id: id, count: 28, parity: maxParity, index: i, last: 1, shard: make([]byte, sliceBytes)}, box)
		}
	}
	require.Equal(t, maxHeldRepairs, m.held)
	require.NotZero(t, box.refused)
	require.EqualValues(t, 10*sliceBytes, box.account.left(), "no room of slices")
}

// TestRepairThatContradicts is dropped: it neither harms the chunk nor ends anything.
func TestRepairThatContradicts(t *testing.T) {
	var s slicer
	var m mender
	box := newMendBox(8 << 20)
	var r repairs
	message := content(20_000)
	all := slicesOf(t, &s, message)
	box.add(netsim.Epoch, all[0])
	other := repairSlice{id: 0, count: 60, parity: 2, last: 5, shard: make([]byte, sliceBytes)}
	m.add(netsim.Epoch, other, box)
	right := repairsOf(t, &r, &s, 0.05)
	m.add(netsim.Epoch, right[0], box)
	other.count, other.index = len(all), 1
	m.add(netsim.Epoch, other, box)
	require.NotZero(t, box.malformed)
	for _, slice := range all[1:] {
		box.add(netsim.Epoch, slice)
		m.mend(netsim.Epoch, 0, box)
	}
	got := box.drain()
	require.Len(t, got, 1)
	require.True(t, bytes.Equal(message, got[0]))
	box.giveBack(got)
	require.EqualValues(t, 8<<20, box.account.left())
}

// sealedEnd is one end of a sealed carrier that a test plays.
type sealedEnd struct {
	*sealedLink
	source sealedSource
}

func newSealedEnd() sealedEnd {
	l := newSealedLink(newRoom(8<<20), func() {})
	l.path = new(rpc.RawCarrier)
	l.move(true, 0)
	return sealedEnd{l, sealedSource{l}}
}

// pass has from send what it has to send, and tells it what became of that; drop says what does not arrive.
func (e sealedEnd) pass(now time.Time, to sealedEnd, drop func(payload []byte) bool) (sent int) {
	for ; ; sent++ {
		payload, token, ok := e.source.AppendPayload(now, nil, sliceDatagram)
		if !ok {
			return sent
		}
		if drop(payload) {
			defer e.source.Lost(now, token)
			continue
		}
		to.source.Receive(now, payload)
		defer e.source.Acked(now, token)
	}
}

// TestTransferWithoutRepair: to a peer that does not know repair slices they are lost, and nothing else is.
func TestTransferWithoutRepair(t *testing.T) {
	random := testkit.Rand(t)
	a, b := newSealedEnd(), newSealedEnd()
	message, now, repairs := content(slicePartBytes), netsim.Epoch, 0
	require.NoError(t, a.send(newBlock(1), message))
	a.tail = true
	for !a.idle() {
		a.pass(now, b, func(payload []byte) bool {
			if payload[0] == repairProtocol {
				repairs++
				return true
			}
			return random.IntN(10) == 0
		})
		now = now.Add(100 * time.Millisecond)
		b.source.Advance(now)
		b.pass(now, a, func([]byte) bool { return random.IntN(10) == 0 })
	}
	require.NotZero(t, repairs)
	got := b.inbox.drain()
	require.Len(t, got, 1)
	require.True(t, bytes.Equal(message, got[0]))
}

// TestLostAcksAreNoStorm: a lost ack brings one more, and not those of all chunks.
func TestLostAcksAreNoStorm(t *testing.T) {
	random := testkit.Rand(t)
	a, b := newSealedEnd(), newSealedEnd()
	now, acks := netsim.Epoch, 0
	for range slicePipeline {
		require.NoError(t, a.send(newBlock(1), content(2*sliceBytes)))
	}
	for !a.idle() {
		a.pass(now, b, func([]byte) bool { return false })
		now = now.Add(100 * time.Millisecond)
		b.source.Advance(now)
		acks += b.pass(now, a, func([]byte) bool { return random.IntN(2) == 0 })
	}
	require.Less(t, acks, 4*slicePipeline)
}

// TestSealedPayloadsThatAreNone are dropped and counted.
func TestSealedPayloadsThatAreNone(t *testing.T) {
	e := newSealedEnd()
	good := repairSlice{id: 1, count: 28, parity: 3, index: 1, last: 9, shard: make([]byte, sliceBytes)}.append(nil)
	bad := [][]byte{{0}, {sealedProtocol}, {repairProtocol}, good[:len(good)-1], append(bytes.Clone(good), 0), bytes.Repeat([]byte{0xff}, 1400)}
	for at, value := range map[int]byte{3: maxRepaired, 4: maxParity + 1, 5: 3, 6: 0xff} {
		p := bytes.Clone(good)
		p[at] = value
		bad = append(bad, p)
	}
	for _, p := range bad {
		e.source.Receive(netsim.Epoch, p)
	}
	require.EqualValues(t, len(bad), e.inbox.malformed)
	require.EqualValues(t, 8<<20, e.inbox.account.left())
}

func FuzzRepair(f *testing.F) {
	f.Add(uint64(1), repairSlice{id: 1, count: 28, parity: 3, index: 1, last: 9, shard: make([]byte, sliceBytes)}.append(nil))
	f.Add(uint64(2), []byte{repairProtocol})
	f.Fuzz(func(t *testing.T, seed uint64, packet []byte) {
		random := rand.New(rand.NewPCG(seed, 1))
		var s slicer
		var m mender
		box := newMendBox(1 << 20)
		message := content(1 + random.IntN(slicePartBytes))
		for _, slice := range slicesOf(t, &s, message) {
			if random.IntN(3) > 0 {
				box.add(netsim.Epoch, slice)
			}
		}
		r, err := parseRepair(packet)
		if err != nil {
			return
		}
		require.Equal(t, packet, r.append(nil))
		for range 20 {
			r.index = random.IntN(r.parity)
			m.add(netsim.Epoch.Add(time.Second), r, box)
			m.mend(netsim.Epoch, uint16(random.IntN(3)), box)
		}
		require.GreaterOrEqual(t, box.account.left(), int64(-256*sliceBytes))
	})
}

// TestRepairOnTheWire computes a repair slice as WIRE.md says.
func TestRepairOnTheWire(t *testing.T) {
	var s slicer
	var r repairs
	message := content(2*sliceBytes + 77)
	slicesOf(t, &s, message)
	all := repairsOf(t, &r, &s, 0.3)
	require.NotEmpty(t, all)
	for _, repair := range all {
		require.Equal(t, 77, repair.last)
		for i, got := range repair.shard {
			want := byte(0)
			for c := range repair.count {
				if at := c*sliceBytes + i; at < len(message) {
					want ^= gfDivide(message[at], byte((repair.count+repair.index)^c))
				}
			}
			require.Equal(t, want, got)
		}
	}
	packet := all[0].append(nil)
	require.Equal(t, []byte{0x04, 0, 0, 2, byte(all[0].parity), 0, 0, 77}, packet[:8])
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

// FuzzSealed gives both ends of a sealed carrier any payloads, and has them lose any of their own: nothing panics, and
// memory keeps to its room.
func FuzzSealed(f *testing.F) {
	f.Add(uint64(1), []byte{sealedProtocol, 1, 2, 3})
	f.Add(uint64(2), repairSlice{id: 0, count: 5, parity: 3, index: 1, last: 9, shard: make([]byte, sliceBytes)}.append(nil))
	f.Fuzz(func(t *testing.T, seed uint64, foreign []byte) {
		if len(foreign) == 0 {
			return
		}
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := newSealedEnd(), newSealedEnd()
		for range 1 + random.IntN(5) {
			require.NoError(t, a.send(newBlock(1), content(1+random.IntN(slicePartBytes))))
		}
		a.tail = true
		now := netsim.Epoch
		for range 50 {
			b.source.Receive(now, bytes.Clone(foreign))
			a.pass(now, b, func([]byte) bool { return random.IntN(5) == 0 })
			now = now.Add(100 * time.Millisecond)
			b.source.Advance(now)
			b.pass(now, a, func([]byte) bool { return random.IntN(5) == 0 })
			if random.IntN(10) == 0 {
				a.source.Receive(now, bytes.Clone(foreign))
			}
			b.inbox.giveBack(b.inbox.drain())
		}
		require.LessOrEqual(t, b.mender.held, maxHeldRepairs)
		require.GreaterOrEqual(t, b.inbox.account.left(), int64(-256*sliceBytes))
	})
}
