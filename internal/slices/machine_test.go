package slices

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

const protocol = 7

// room is an account with so many bytes left for content, one more chunk for
// awaited content, and no limit for the rest.
type room struct{ left, borrowed int64 }

func newRoom(bytes int64) *room { return &room{left: bytes} }

func (r *room) Hold(n int64, awaited bool) bool {
	left := r.left
	if awaited {
		left += chunk.MaxSlices * Size
	}
	if n > left {
		return false
	}
	r.left -= n
	return true
}

func (r *room) Drop(n int64) { r.left += n }

func (r *room) Borrow(n int64, _ bool) bool {
	r.borrowed += n
	return true
}

func (r *room) Repay(n int64)  { r.borrowed -= n }
func (r *room) Return(n int64) { r.borrowed -= n }

// memory is the block of the tests' messages.
type memory struct{}

func (memory) Free() {}

// partBytes is the content of a full part with the longest header.
const partBytes = SlicesPerPart*Size - 40

// content is bytes that differ from their neighbours.
func content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7
	}
	return b
}

// drain takes the messages and releases them.
func (b *inbox) drain() [][]byte {
	whole := b.take()
	for _, m := range whole {
		b.memory.release(m)
	}
	return whole
}

// side is a machine of a pair that also plays its owner.
type side struct {
	*Machine
	parts [][]byte // left to send
	got   [][]byte
}

func newSide(parts ...[]byte) *side {
	return &side{Machine: New(protocol, newRoom(8<<20)), parts: parts}
}

func (s *side) Advance(now time.Time) error {
	for len(s.parts) > 0 && s.CanSend(20*time.Millisecond) {
		if err := s.Machine.Send(s.parts[0], memory{}); err != nil {
			return err
		}
		s.parts = s.parts[1:]
	}
	for _, m := range s.in.drain() {
		s.got = append(s.got, m)
	}
	return s.Machine.Advance(now)
}

func parts(count, size int) (parts [][]byte) {
	for i := range count {
		parts = append(parts, content(size+i))
	}
	return parts
}

// run runs until all parts have arrived and are acked.
func run(a, b *side, parts int, config netsim.PairConfig) (*netsim.Pair, error) {
	config.Max = 1243
	p := netsim.NewPair(a, b, config)
	return p, p.Run(10*time.Minute, func() bool { return len(b.got) == parts && len(a.parts) == 0 && a.out.idle() })
}

func TestSlicesArriveOnBadPaths(t *testing.T) {
	seed := testkit.Seed(t)
	for _, loss := range []float64{0, 0.01, 0.1, 0.5} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			path := netsim.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: loss, Duplicate: 0.05, Reorder: 0.05, Seed: seed}
			sent := parts(150, 10_000)
			a, b := newSide(sent...), newSide()
			_, err := run(a, b, len(sent), netsim.PairConfig{AtoB: path, BtoA: path, Window: 300_000})
			require.NoError(t, err)
			require.Equal(t, sent, b.got)
			require.Zero(t, a.out.flight.bytes)
			require.Zero(t, a.out.unsent)
			require.EqualValues(t, 8<<20, b.in.memory.account.(*room).left)
			require.Zero(t, b.in.refused+b.in.malformed)
		})
	}
}

// TestSlicesFillThePathWithoutAQueue also bounds the bytes on the wire.
func TestSlicesFillThePathWithoutAQueue(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6, Queue: 1 << 20}
	sent := parts(200, 32_000)
	a, b := newSide(sent...), newSide()
	longest := time.Duration(0)
	config := netsim.PairConfig{AtoB: path, BtoA: path, Window: 150_000, OnStep: func(time.Time) { longest = max(longest, a.control.gate.Latest) }}
	p, err := run(a, b, len(sent), config)
	require.NoError(t, err)
	ideal := 200 * 32_100 * 8 / 10e6
	require.Less(t, p.Now().Sub(netsim.Epoch).Seconds(), ideal*1.09)
	require.Less(t, longest, 50*time.Millisecond+150*time.Millisecond, "the start may overshoot")
	require.Less(t, a.control.gate.Latest, 50*time.Millisecond+30*time.Millisecond)
	require.Zero(t, a.control.lost)
}

// TestLostSliceIsSentAgainSoon drops one slice and measures when it is sent again.
func TestLostSliceIsSentAgainSoon(t *testing.T) {
	path := netsim.Config{Delay: 50 * time.Millisecond}
	lossy := path
	lossy.Lose = func(n uint64, _ []byte) bool { return n == 5 }
	a, b := newSide(content(30_000)), newSide()
	p, err := run(a, b, 1, netsim.PairConfig{AtoB: lossy, BtoA: path, Window: 1 << 20})
	require.NoError(t, err)
	require.EqualValues(t, 1, a.control.lost)
	require.EqualValues(t, 1, a.out.resent)
	require.Zero(t, a.control.timeouts)
	require.Less(t, p.Now().Sub(netsim.Epoch), 210*time.Millisecond) // two round trips
	require.Equal(t, netsim.Epoch, a.Arrived(), "what was sent again does not tell when it left")
}

func TestOutageLeavesProbesOnly(t *testing.T) {
	path := netsim.Config{Delay: 20 * time.Millisecond, Rate: 20e6}
	sent := parts(60, 32_000)
	a, b := newSide(sent...), newSide()
	packets := 0
	p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20,
		OnPacket: func(from *netsim.Side, _ []byte, _ netsim.Fate) {
			if from.Name == "A" {
				packets++
			}
		}})
	require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) > 20 }))
	p.Dark(10 * time.Second)
	require.NoError(t, p.Run(time.Minute, func() bool { return a.control.timeouts >= 2 }))
	begin := p.Now()
	packets = 0
	require.ErrorIs(t, p.Run(8*time.Second, func() bool { return false }), netsim.ErrLimit)
	require.Less(t, packets, 40)
	require.Positive(t, packets)
	require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == len(sent) && a.out.idle() }))
	require.Less(t, p.Now().Sub(begin), 15*time.Second)
	require.Equal(t, sent, b.got)
}

// TestSliceThatNeverLeftGoesFirst takes back what AppendPacket made.
func TestSliceThatNeverLeftGoesFirst(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	require.NoError(t, m.Send(content(3000), memory{}))
	first, number, ok := m.AppendPacket(now, nil, 1243)
	require.True(t, ok)
	m.Unsent(number)
	require.Zero(t, m.out.flight.bytes)
	again, _, ok := m.AppendPacket(now, nil, 1243)
	require.True(t, ok)
	require.Equal(t, first, again)
	_, _, ok = m.AppendPacket(now, nil, Datagram-1)
	require.False(t, ok, "a slice does not fit")
}

// TestAcksOfWhatNeverLeft: those of slices end the connection, since the peer made them up. Those
// of chunks that don't exist may be late, and are ignored.
func TestAcksOfWhatNeverLeft(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	require.NoError(t, m.Send(content(5*Size), memory{}))
	_, _, _ = m.AppendPacket(now, nil, 1243)
	all := chunk.Ack{ChunkID: 0, Count: 5}
	for i := range 5 {
		all.Acked.Set(i)
	}
	for _, a := range []chunk.Ack{{ChunkID: 1, Count: 5, Acked: all.Acked}, {ChunkID: 0, Count: 6, Acked: all.Acked}, {ChunkID: 65535, Count: 1}} {
		require.NoError(t, m.Receive(now, config.AppendAck([]byte{protocol}, a)))
	}
	require.ErrorContains(t, m.Receive(now, config.AppendAck([]byte{protocol}, all)), "slice 1 of chunk 0")
	require.NotZero(t, m.out.flight.bytes, "it changed nothing")
	require.Equal(t, 4*Size, m.out.unsent)
	for range 4 {
		_, _, ok := m.AppendPacket(now, nil, 1243)
		require.True(t, ok)
	}
	require.NoError(t, m.Receive(now, config.AppendAck([]byte{protocol}, all)))
	require.True(t, m.out.idle())
}

func TestMalformedSlicesAreDroppedAndCounted(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	good := config.AppendSlice([]byte{protocol}, chunk.Slice{ChunkID: 0, Index: 0, Count: 1, Data: []byte("whole")})
	bad := [][]byte{{}, {protocol}, good[:len(good)-1], append(bytes.Clone(good), 0), bytes.Repeat([]byte{protocol}, 60)}
	for i := range good[1:] {
		flipped := bytes.Clone(good)
		flipped[1+i] ^= 4
		bad = append(bad, flipped)
	}
	for _, datagram := range bad {
		require.NoError(t, m.Receive(now, datagram))
	}
	require.EqualValues(t, len(bad), m.in.malformed)
	require.Nil(t, m.in.memory.receiver)
	require.False(t, m.Wake())
	require.NoError(t, m.Receive(now, good))
	require.True(t, m.Wake())
	require.Equal(t, [][]byte{[]byte("whole")}, m.in.drain())
}

// TestSliceInboxIsBounded begins as many chunks as can be, as large as they can
// be, and never finishes one.
func TestSliceInboxIsBounded(t *testing.T) {
	const allowance = 1 << 20
	m, now := New(protocol, newRoom(allowance)), netsim.Epoch
	for id := range 1000 {
		for _, index := range []int{254, 0} {
			s := chunk.Slice{ChunkID: uint16(999 - id), Index: index, Count: 256, Data: make([]byte, Size)}
			require.NoError(t, m.Receive(now, config.AppendSlice([]byte{protocol}, s)))
		}
		require.GreaterOrEqual(t, m.in.memory.account.(*room).left, int64(-256*Size))
	}
	require.Positive(t, m.in.refused)

	// Messages that nobody takes count, too.
	m = New(protocol, newRoom(allowance))
	for id := range 5000 {
		s := chunk.Slice{ChunkID: uint16(id), Index: 0, Count: 1, Data: []byte{1}}
		require.NoError(t, m.Receive(now, config.AppendSlice([]byte{protocol}, s)))
	}
	require.GreaterOrEqual(t, m.in.memory.account.(*room).left, int64(0))
	require.Less(t, len(m.in.messages), allowance/Size+1)
	taken := m.in.drain()
	m.in.recycle(taken)
	require.EqualValues(t, allowance, m.in.memory.account.(*room).left)
}

// purse is an account of so many bytes for everything, with none kept for awaited content.
type purse struct{ left int64 }

func (p *purse) Hold(n int64, _ bool) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

func (p *purse) Drop(n int64)                      { p.left += n }
func (p *purse) Borrow(n int64, awaited bool) bool { return p.Hold(n, awaited) }
func (p *purse) Repay(n int64)                     { p.Drop(n) }
func (p *purse) Return(n int64)                    { p.Drop(n) }

// TestRepairSlicesGiveWay: a peer whose chunk is refused sends it again and
// again. Repair slices that are held for chunks after it are dropped at once.
func TestRepairSlicesGiveWay(t *testing.T) {
	whole := func(m *Machine, id uint16) (came int) {
		for i := range SlicesPerPart {
			s := chunk.Slice{ChunkID: id, Index: i, Count: SlicesPerPart, Data: make([]byte, Size)}
			require.NoError(t, m.Receive(netsim.Epoch, config.AppendSlice([]byte{protocol}, s)))
		}
		return len(m.in.drain())
	}
	account := &purse{ReceiverBytes + 40<<10}
	m := New(protocol, account)
	fill := func(id uint16) {
		for refused := m.in.refused; m.in.refused == refused; id++ {
			r := repair{id: id, count: SlicesPerPart, total: 1, last: 1, shard: make([]byte, Size)}
			require.NoError(t, m.Receive(netsim.Epoch, r.append(nil)))
		}
	}
	fill(1)
	require.Equal(t, 1, whole(m, 0), "they came before the records of a receiver")
	fill(2)
	require.Zero(t, whole(m, 2), "it is not waited for")
	require.NotZero(t, m.in.restorer.count)
	require.Equal(t, 1, whole(m, 1))
	require.Zero(t, m.in.restorer.count)
	require.EqualValues(t, 40<<10, account.left)
}

func TestIdleMachineGivesUpItsMemory(t *testing.T) {
	path := netsim.Config{Delay: time.Millisecond}
	a, b := newSide(parts(50, 32_000)...), newSide()
	require.Less(t, unsafe.Sizeof(*a.Machine), uintptr(1500), "every connection has two")
	p, err := run(a, b, 50, netsim.PairConfig{AtoB: path, BtoA: path})
	require.NoError(t, err)
	require.NotZero(t, a.out.flight.Cap())
	err = p.Run(time.Minute, func() bool { return false })
	require.True(t, errors.Is(err, netsim.ErrIdle), "%v", err)
	require.Zero(t, a.out.flight.Cap())
	require.Zero(t, a.out.chunks.Cap())
	a.parts = parts(3, 20_000)
	require.NoError(t, a.Advance(p.Now()))
	require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == 53 && a.out.idle() }))
}

func TestSlicesAllocateNothingInSteadyState(t *testing.T) {
	a, b := New(protocol, newRoom(8<<20)), New(protocol, newRoom(8<<20))
	now, message := netsim.Epoch, content(SlicesPerPart*Size) // other chunks lie in no page
	var buf [1500]byte
	round := func() {
		now = now.Add(10 * time.Millisecond)
		require.NoError(t, a.Send(message, memory{}))
		for more := true; more; {
			var packet, ack []byte
			packet, _, more = a.AppendPacket(now, buf[:0], 1243)
			if more {
				_ = b.Receive(now, packet)
			}
			now = now.Add(time.Millisecond)
			if ack, _, _ = b.AppendPacket(now, buf[:0], 1243); len(ack) > 0 {
				_ = a.Receive(now, ack)
				more = true
			}
		}
		b.in.recycle(b.in.drain())
	}
	for range 2 * Pipeline {
		round()
	}
	require.True(t, a.out.idle())
	require.Zero(t, testing.AllocsPerRun(100, round))
}

// FuzzMachine passes arbitrary datagrams to a machine that sends and receives.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(3))
	f.Fuzz(func(t *testing.T, script []byte, parts uint8) {
		const allowance = 100_000
		m, now := New(protocol, newRoom(allowance)), netsim.Epoch
		m.Withhold(func(n int) int { return int(parts) % n })
		for range parts % 8 {
			require.NoError(t, m.Send(content(5000), memory{}))
		}
		for len(script) >= 6 {
			op := script[:6]
			script = script[6:]
			now = now.Add(time.Duration(op[1]) * time.Millisecond)
			slice := chunk.Slice{ChunkID: uint16(int8(op[2])), Index: int(op[3]), Count: int(op[4]) + 1, Data: make([]byte, Size)}
			switch op[0] % 6 {
			case 0:
				if slice.Index == slice.Count-1 {
					slice.Data = slice.Data[:1+int(op[5])]
				}
				if slice.Index < slice.Count {
					_ = m.Receive(now, config.AppendSlice([]byte{protocol}, slice))
				}
			case 1:
				a := chunk.Ack{ChunkID: slice.ChunkID, Count: slice.Count}
				a.Acked[0] = uint64(op[3]) << (op[5] % 56)
				_ = m.Receive(now, config.AppendAck([]byte{protocol}, a))
			case 2:
				_ = m.Receive(now, append([]byte{protocol}, op...))
			case 3: // as a link does: until there is nothing more
				for more := true; more; {
					var packet []byte
					var number uint64
					if packet, number, more = m.AppendPacket(now, nil, 1243); more {
						require.LessOrEqual(t, len(packet), Datagram)
						if op[2]%4 == 0 {
							m.Unsent(number)
							break
						}
					}
				}
			case 4:
				m.in.recycle(m.in.drain())
			case 5:
				require.NoError(t, m.Advance(now))
				next, ok := m.NextTimeout()
				ready := false
				for more := true; more; ready = ready || more {
					_, _, more = m.AppendPacket(now, nil, 1243)
				}
				if ok && !next.After(now) {
					require.True(t, ready, "a timeout at %v, now is %v, and nothing is ready", next, now)
				}
			}
			require.GreaterOrEqual(t, m.in.memory.account.(*room).left, int64(-256*Size))
			require.GreaterOrEqual(t, m.out.flight.bytes, 0)
			require.GreaterOrEqual(t, m.out.unsent, 0)
		}
	})
}

func TestSlicesWithoutMemoryAreRefused(t *testing.T) {
	m := New(protocol, full{newRoom(1 << 20)})
	s := chunk.Slice{Count: 1, Data: []byte{1}}
	require.NoError(t, m.Receive(netsim.Epoch, config.AppendSlice([]byte{protocol}, s)))
	require.EqualValues(t, 1, m.Stats().Refused)
	require.False(t, m.Wake())
	require.Empty(t, m.Take())
}

// TestReleaseWhileAllIsDiscarded: the race detector sees it if Release reads what Discard writes.
func TestReleaseWhileAllIsDiscarded(t *testing.T) {
	m := New(protocol, newRoom(1<<20))
	s := chunk.Slice{Count: 1, Data: []byte{1}}
	require.NoError(t, m.Receive(netsim.Epoch, config.AppendSlice([]byte{protocol}, s)))
	whole := m.Take()
	require.Len(t, whole, 1)
	released := make(chan struct{})
	go func() {
		defer close(released)
		m.Release(whole[0])
	}()
	m.Discard()
	<-released
	require.NotNil(t, m.in.memory.account)
}

// TestAcksLeaveAgain: the ack of a received slice is sent again if it was lost,
// and on another path without fates.
func TestAcksLeaveAgain(t *testing.T) {
	m := New(protocol, newRoom(1<<20))
	now := netsim.Epoch
	require.NoError(t, m.Receive(now, config.AppendSlice([]byte{protocol}, chunk.Slice{Count: 1, Data: []byte{1}})))
	_, number, ok := m.AppendPacket(now, nil, Datagram)
	require.True(t, ok)
	_, _, ok = m.AppendPacket(now, nil, Datagram)
	require.False(t, ok)

	m.Unsent(number)
	_, again, ok := m.AppendPacket(now, nil, Datagram)
	require.True(t, ok)
	require.Equal(t, number, again)

	m.SetPath(now, recovery.Path{Epoch: 1})
	_, again, ok = m.AppendPacket(now, nil, Datagram)
	require.True(t, ok)
	require.Equal(t, number, again)

	m.Discard()
	m.Unsent(number)
	m.SetPath(now, recovery.Path{Epoch: 2})
	_, _, ok = m.AppendPacket(now, nil, Datagram)
	require.False(t, ok)
}

// TestFatedPathHasNoTimersOfControl: the carrier reports the fates of slices in flight.
func TestFatedPathHasNoTimersOfControl(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	m.SetPath(now, recovery.Path{Epoch: 1, Fates: true, RTT: 100 * time.Millisecond})
	now = now.Add(time.Minute)
	require.NoError(t, m.Advance(now))
	require.NoError(t, m.Send(content(Size), memory{}))
	_, _, ok := m.AppendPacket(now, nil, Datagram)
	require.True(t, ok)
	_, ok = m.NextTimeout()
	require.False(t, ok)
}

// TestMovedAcksAndRoundTrips: a path without fates has its own pace of acks,
// and its round trip is unknown until a slice measures it or Assume sets it.
func TestMovedAcksAndRoundTrips(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	require.True(t, m.Unmeasured())
	for epoch, path := range []recovery.Path{{Fates: true}, {}} {
		path.Epoch = uint32(epoch + 1)
		m.Changed()
		m.SetPath(now, path)
		require.True(t, m.Changed(), "a packet may leave")
		require.Equal(t, !path.Fates, m.Unmeasured())
	}
	require.NoError(t, m.Receive(now, config.AppendSlice([]byte{protocol}, chunk.Slice{Count: 2, Data: content(Size)})))
	at, ok := m.NextTimeout()
	require.True(t, ok)
	require.Equal(t, now.Add(ackDelay), at)
	m.Assume(100*time.Millisecond, time.Millisecond)
	require.False(t, m.Unmeasured())
}

// TestWatchWakesOnce: the owner of a machine that takes messages is woken once;
// how much may wait on a path with fates is what it carries in time.
func TestWatchWakesOnce(t *testing.T) {
	m := New(protocol, newRoom(1<<20))
	m.SetPath(netsim.Epoch, recovery.Path{Epoch: 1, Fates: true, Rate: 1e6})
	require.NoError(t, m.Send(content(80_000), memory{}))
	require.True(t, m.CanSend(100*time.Millisecond))
	require.False(t, m.CanSend(10*time.Millisecond))

	m.Watch(10 * time.Millisecond)
	require.False(t, m.Wake())
	for !m.CanSend(10 * time.Millisecond) {
		_, _, ok := m.AppendPacket(netsim.Epoch, nil, Datagram)
		require.True(t, ok)
	}
	require.True(t, m.Wake())
	_, _, ok := m.AppendPacket(netsim.Epoch, nil, Datagram)
	require.True(t, ok)
	require.False(t, m.Wake())
}
