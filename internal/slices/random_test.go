package slices

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// program is two machines under everything that a driver may do to them: it
// switches paths, takes packets back, reports fates late, and runs out of rate;
// its path loses, reorders, duplicates and invents packets.
type program struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	ends   [2]*programEnd
	events []event
	calm   bool // nothing bad happens any more
	loss   float64

	// Of this program, in percent; the size in bytes.
	moves, refusals, sends, size int
}

type programEnd struct {
	*Machine
	sent, got [][]byte
	fates     bool
	epoch     uint32
	untold    map[uint64]bool // numbers whose fate was not told yet
	loans     int             // blocks not freed
}

// Free implements Block.
func (e *programEnd) Free() { e.loans-- }

// event is something that happens to one end.
type event struct {
	at     time.Time
	end    int
	packet []byte // that arrives; nil is a fate
	number uint64
	told   bool
}

func newProgram(t *testing.T, random *rand.Rand) *program {
	either := func(a, b int) int { return []int{a, b}[random.IntN(2)] }
	p := &program{
		t: t, random: random, now: netsim.Epoch, loss: random.Float64() * 0.4,
		moves: either(0, 3), refusals: either(3, 40), sends: either(2, 10), size: either(3*Size, partBytes),
	}
	for i := range p.ends {
		p.ends[i] = &programEnd{Machine: New(protocol, newRoom(4<<20)), untold: map[uint64]bool{}}
		p.ends[i].Withhold(often(random))
	}
	return p
}

func (p *program) chance(percent int) bool { return !p.calm && p.random.IntN(100) < percent }

func (p *program) later(most time.Duration) time.Time {
	return p.now.Add(time.Millisecond + time.Duration(p.random.Int64N(int64(most))))
}

// drive runs the timers of an end that are due, sends everything that may be
// sent, and checks that its driver would not spin.
func (p *program) drive(i int) {
	for turn := 0; ; turn++ {
		require.Less(p.t, turn, 10, "it spins")
		p.pump(i)
		if at, ok := p.ends[i].NextTimeout(); !ok || at.After(p.now) {
			return
		}
	}
}

func (p *program) pump(i int) {
	e := p.ends[i]
	require.NoError(p.t, e.Advance(p.now))
	for n := 0; ; n++ {
		require.Less(p.t, n, 5000, "no end of packets")
		packet, number, ok := e.AppendPacket(p.now, nil, Datagram)
		if !ok {
			return
		}
		if !p.chance(p.refusals) {
			p.leave(i, packet, number)
			continue
		}
		e.Unsent(number)
		if p.chance(50) {
			return
		}
	}
}

// leave puts a packet on the path.
func (p *program) leave(i int, packet []byte, number uint64) {
	e, arrives := p.ends[i], p.calm || p.random.Float64() >= p.loss
	if arrives {
		for again := true; again; again = p.chance(5) {
			p.events = append(p.events, event{at: p.later(50 * time.Millisecond), end: 1 - i, packet: packet})
		}
	}
	if e.fates {
		if number < repairNumber {
			e.untold[number] = true
		}
		p.events = append(p.events, event{at: p.later(150 * time.Millisecond), end: i, number: number, told: arrives})
	}
}

// step does what happens next.
func (p *program) step() bool {
	best, at := -1, time.Time{}
	for i, e := range p.events {
		if best < 0 || e.at.Before(at) {
			best, at = i, e.at
		}
	}
	end := -1
	for i, e := range p.ends {
		if next, ok := e.NextTimeout(); ok && (best < 0 && end < 0 || next.Before(at)) {
			best, end, at = -1, i, next
		}
	}
	if best < 0 && end < 0 {
		return false
	}
	if at.After(p.now) {
		p.now = at
	}
	if best >= 0 {
		e := p.events[best]
		p.events[best] = p.events[len(p.events)-1]
		p.events = p.events[:len(p.events)-1]
		end = e.end
		if e.packet != nil {
			require.NoError(p.t, p.ends[end].Receive(p.now, e.packet))
		} else {
			p.ends[end].Fate(p.now, e.number, e.told)
			delete(p.ends[end].untold, e.number)
		}
		if p.chance(20) {
			return true // the driver is late
		}
	}
	p.disturb(end)
	p.drive(end)
	return true
}

func (p *program) disturb(i int) {
	e := p.ends[i]
	if p.chance(p.moves) {
		p.move(e, e.fates == (p.random.IntN(3) == 0)) // or another address
	}
	if p.chance(5) {
		e.Hold(false, p.chance(50))
	}
	if p.chance(3) {
		p.loss = []float64{0, p.random.Float64(), 1}[p.random.IntN(3)]
	}
	if p.chance(20) || p.calm {
		p.take(e)
	}
	if p.chance(10) {
		e.SetNoMore(p.chance(50))
	}
	if p.chance(10) {
		require.NoError(p.t, e.Receive(p.now, p.noise()))
	}
	if p.chance(p.sends) && !e.out.full() {
		p.send(e, 1+p.random.IntN(p.size))
	}
}

// noise is a datagram that no honest peer would send.
func (p *program) noise() []byte {
	switch p.random.IntN(3) {
	case 0:
		return append([]byte{protocol}, content(p.random.IntN(60))...)
	case 1:
		return config.AppendAck([]byte{protocol}, chunk.Ack{ChunkID: uint16(p.random.Uint32()), Count: 200})
	}
	return append([]byte{repairByte}, content(repairBytes-1-p.random.IntN(2))...)[:1+p.random.IntN(repairBytes)]
}

func (p *program) send(e *programEnd, size int) {
	message := content(size)
	message[0] = byte(len(e.sent))
	e.sent = append(e.sent, message)
	e.loans++
	require.NoError(p.t, e.Send(message, e))
}

func (p *program) take(e *programEnd) {
	whole := e.Take()
	for _, m := range whole {
		e.got = append(e.got, append([]byte(nil), m...))
		e.Release(m)
	}
	e.GiveBack(whole)
}

func (p *program) move(e *programEnd, fates bool) {
	if !fates && !p.chance(20) { // otherwise fates come when the path is another
		for _, number := range slices.Sorted(maps.Keys(e.untold)) {
			e.Fate(p.now, number, false)
		}
		clear(e.untold)
	}
	e.fates = fates
	e.epoch += uint32(p.random.IntN(2))
	e.SetPath(p.now, recovery.Path{Epoch: e.epoch, Fates: fates, RTT: time.Duration(p.random.IntN(80)) * time.Millisecond, Rate: p.random.Float64() * 1e6, Loss: p.random.Float64()})
	if !fates {
		e.SetWindow(p.random.IntN(100_000))
	}
}

// TestRandomPrograms: whatever drivers do, nothing spins, waits for ever or is
// lost, and all memory is given back. Nor is a wait of minutes taken for a round
// trip, as with seeds 88, 143 and 702.
func TestRandomPrograms(t *testing.T) {
	random := testkit.Rand(t)
	for range 10 {
		p := newProgram(t, random)
		for i, e := range p.ends {
			p.send(e, 1+random.IntN(p.size))
			p.drive(i)
		}
		for range 600 {
			if !p.step() {
				break
			}
		}
		for _, e := range p.ends {
			require.Less(t, e.control.gate.Smoothed, 10*time.Second)
		}
		p.calm = true
		p.finish()
	}
}

func (p *program) finish() {
	end := p.now.Add(5 * time.Minute)
	for i, e := range p.ends {
		e.Hold(false, false)
		p.drive(i)
	}
	for p.now.Before(end) && p.step() {
	}
	for i, e := range p.ends {
		other := p.ends[1-i]
		p.take(other)
		require.True(p.t, e.out.idle(), "%d messages are not acked; fates %v", e.out.chunks.Len(), e.fates)
		require.Equal(p.t, len(e.sent), len(other.got))
		require.Equal(p.t, e.sent, other.got)
		require.Zero(p.t, e.loans)
		require.Zero(p.t, e.InFlight())
		require.Zero(p.t, e.Queued())
	}
	for _, e := range p.ends {
		e.active = p.now
		require.NoError(p.t, e.Advance(p.now.Add(TrimAfter)))
		r := e.in.memory.account.(*room)
		require.EqualValues(p.t, 4<<20, r.left)
		require.EqualValues(p.t, ReceiverBytes+e.in.restorer.count*repairCost, r.borrowed)
	}
}
