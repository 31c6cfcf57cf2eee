package sealed

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/internal/udp"
)

// allowance is what a peer may make a carrier hold, beside what the connection's
// receive limit counts: half for packets that wait, half for what it is to be told.
const allowance = 512 << 10

// TestHostileFlood: packets arrive faster than they are opened. The packets that wait or
// are being opened are bounded, and so is their memory, which is freed after the flood.
func TestHostileFlood(t *testing.T) {
	r := testkit.Rand(t)
	for _, size := range []int{Overhead + 1, 200, FullPacket, blockBytes / 2, JumboPacket, 0} {
		before, most := testkit.Heap(), 0
		b := newInbox(func(bool) {})
		b.setRemote(udp.AddrPort(here))
		put := func(n int) {
			for range n {
				length := size
				if length == 0 {
					length = Overhead + 1 + r.IntN(FullPacket-Overhead)
				}
				b.put(time.Now(), udp.AddrPort(here), make([]byte, length))
			}
		}
		for range 5 {
			put(r.IntN(20_000))
			waits := b.take()
			put(r.IntN(20_000))
			most = max(most, testkit.Heap()-before)
			b.release(waits)
		}
		require.Less(t, most, allowance, "packets of %d bytes", size)
		t.Logf("packets of %d bytes: %d KiB at most", size, most>>10)
		b.release(b.take())
		require.Zero(t, b.heldBytes)
		require.Less(t, testkit.Heap()-before, 64<<10)
		runtime.KeepAlive(b)
	}
}

// TestNoInboxBorrowsAll: an inbox that is flooded leaves room for others.
func TestNoInboxBorrowsAll(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	flood := func(id ID) (b *inbox, taken uint64) {
		b = newInbox(func(bool) {})
		b.allBorrowed = &s.borrowed
		b.setRemote(udp.AddrPort(here))
		require.NoError(t, s.register(b, id))
		p := append([]byte(sealedFor(id, "x")), make([]byte, FullPacket-Overhead)...)
		tooLong := append(p[:len(p):len(p)], make([]byte, JumboPacket-FullPacket+1)...)
		before := s.routed.Load()
		for range 5_000 {
			s.route(time.Now(), udp.AddrPort(here), p)
			s.route(time.Now(), udp.AddrPort(here), tooLong)
		}
		require.EqualValues(t, 5_000, s.routed.Load()-before, "what is too long is none")
		return b, 5_000 - b.droppedFull.Load()
	}
	first, one := flood(ID{1})
	second, two := flood(ID{2})
	perBlock := len(block{}.records) / (FullPacket + inboxHeader)
	require.InDelta(t, (inboxBytes+maxBorrowed/2)/blockBytes*perBlock, one, 100)
	require.InDelta(t, (inboxBytes+maxBorrowed/4)/blockBytes*perBlock, two, 100)
	require.LessOrEqual(t, s.borrowed.Load(), int64(maxBorrowed))
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
}

// TestGuessedIDs: of packets with unknown ids the newest are kept for a moment:
// a limited number for each socket, whoever sends them.
func TestGuessedIDs(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	p := append([]byte(sealedFor(ID{}, "x")), make([]byte, FullPacket-Overhead)...)
	before := testkit.Heap()
	for i := range 100_000 {
		binary.BigEndian.PutUint64(p[1:], uint64(i)*0x9e3779b97f4a7c15)
		s.route(time.Time{}, udp.AddrPort(here), p)
	}
	require.EqualValues(t, 100_000, s.unknown.Load())
	require.Less(t, testkit.Heap()-before, 1<<20)
	require.Empty(t, s.inboxes)
	require.NoError(t, s.register(newInbox(func(bool) {}), ID{1}))
	require.Less(t, testkit.Heap()-before, 64<<10, "the moment is over")
	runtime.KeepAlive(s)
}

// hostile is a peer with the keys that sends what it likes.
type hostile struct {
	*step
	number uint64
}

func newHostile(t *testing.T) *hostile {
	s := newStep(t, 0, nil).open()
	return &hostile{s, s.b.records.Next}
}

// send has the victim receive sealed frames, and take its turn.
func (h *hostile) send(frames []byte) error {
	h.number++
	p, err := h.b.sealer.seal(append(appendHeader(make([]byte, 0, JumboPacket), ID{}, h.number), frames...), h.number)
	require.NoError(h, err)
	err = h.a.Receive(h.now, p)
	_ = h.a.Advance(h.now)
	for {
		if _, _, ok := h.a.AppendPacket(h.now, make([]byte, 0, FullPacket), FullPacket); !ok {
			return err
		}
	}
}

// TestHostileFrames sends whatever is legal as fast as a core can seal, and
// acks nothing: the victim's memory stays bounded.
func TestHostileFrames(t *testing.T) {
	r := testkit.Rand(t)
	data := binary.BigEndian.AppendUint16([]byte{frameData}, 1200)
	for name, frames := range map[string]func() []byte{
		"pings":              func() []byte { return []byte{framePing} },
		"trains":             func() []byte { return []byte{frameTrain, byte(r.IntN(2))} },
		"data":               func() []byte { return append(data[:3:3], make([]byte, 1200)...) },
		"payloads":           func() []byte { return append([]byte{frameData, 0, 1, 9}, make([]byte, r.IntN(1000))...) },
		"a packet of pings":  func() []byte { return bytes.Repeat([]byte{framePing}, maxFrames) },
		"a packet of trains": func() []byte { return bytes.Repeat([]byte{frameTrain, 0}, maxFrames) },
		"a jumbo packet of payloads": func() []byte {
			return bytes.Repeat(append(binary.BigEndian.AppendUint16([]byte{frameData}, 1100), make([]byte, 1100)...), maxPayloads)
		},
		"old acks": func() []byte {
			f := report{largest: 0, nruns: 1}
			f.runs[0] = 1
			return append(f.appendFrame(nil), framePing)
		},
	} {
		h := newHostile(t)
		h.a.source, h.a.rttGuess = sinkOnly{}, time.Microsecond // a path so short that every packet may bring a report
		before, held := testkit.Heap(), 0
		for range 50_000 {
			h.now = h.now.Add(20 * time.Microsecond)
			require.NoError(t, h.send(frames()), name)
			held = max(held, h.a.records.Cap())
		}
		grown := testkit.Heap() - before
		require.Less(t, grown, allowance, name)
		require.LessOrEqual(t, held, 2*maxAckOptional, name)
		t.Logf("%s: %d KiB, %d records, %v", name, grown>>10, held, h.a.State())
		require.NotEqual(t, Closed, h.a.State())
	}
}

// TestAbsurdTimes: feedback on packets in flight, with random clocks, delays and distances of
// the whole range. Nothing panics or becomes infinite, and afterwards an honest peer is served.
func TestAbsurdTimes(t *testing.T) {
	r := testkit.Rand(t)
	for range 20 {
		h := newHostile(t)
		for range 300 {
			h.up.total++
			h.up.acked = append(h.up.acked, false)
			h.a.Wake()
			require.NoError(t, h.send([]byte{framePing}))
			require.NoError(t, h.send(absurd(r, h.a.records.Next-1).appendFrame(nil)))
			h.now = h.now.Add(time.Duration(r.Int64N(int64(5 * ms))))
			c := h.a.Controller()
			for _, rate := range []float64{c.Rate(), c.Estimate(), float64(c.Window()), c.Loss()} {
				require.False(t, math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0, "%v", rate)
			}
		}
		require.Empty(t, h.up.faults)
	}
}

// absurd acks the largest number alone, or all of a run.
func absurd(r *rand.Rand, largest uint64) *report {
	f := &report{largest: uint32(largest), nruns: 1, delay: time.Duration(r.Uint32()) * clockUnit, clock: r.Uint64() & clockMask}
	f.runs[0], f.ndeltas = 1, r.IntN(maxDeltas)
	for i := range f.ndeltas {
		f.deltas[i] = []int64{longestDelta, -longestDelta, r.Int64N(1000), 0}[r.IntN(4)]
	}
	return f
}

// TestClockAtItsEnd: a peer may advance its clock to the end of a time.Duration,
// by half of the range of 48 bits at a time, and then send an arrival beyond it.
// The time for which it then seemed to have held the ack back overflowed, and
// after the next change of paths a probe was due at each turn.
func TestClockAtItsEnd(t *testing.T) {
	h := newHostile(t)
	f := &report{largest: uint32(h.a.records.Next - 1), nruns: 1}
	f.runs[0] = 1
	const end = uint64(math.MaxInt64/clockUnit) - 1
	for h.a.peerClock < end {
		f.clock = min(h.a.peerClock+clockMask/2, end) & clockMask
		require.NoError(t, h.send(f.appendFrame(nil)))
	}
	h.a.liveness.probesDue = 1
	require.NoError(t, h.send([]byte{framePing}))
	probe := h.a.records.Next - 1
	h.now = h.now.Add(3 * ms)
	require.NoError(t, h.send([]byte{framePing}))
	require.Equal(t, probe+2, h.a.records.Next)

	f.largest, f.runs[0], f.delay = uint32(probe+1), 2, 5*ms
	f.ndeltas, f.deltas[0] = 1, -longestDelta
	require.NoError(t, h.send(f.appendFrame(nil)))
	require.Equal(t, acked, h.a.records.At(probe).fate)
	h.a.Moved(h.now)
	h.up.total, h.up.acked = 1, []bool{false}
	h.a.Wake()
	packets := 0
	for range 100 {
		packets += len(h.build(h.a))
	}
	require.LessOrEqual(t, packets, 2)
	require.LessOrEqual(t, h.a.rttGuess, 3*ms)
}

// TestHugeAckRanges: runs that reach as far as a number goes are refused, or
// cost what is remembered and no more.
func TestHugeAckRanges(t *testing.T) {
	for name, runs := range map[string][]uint64{
		"all there are": {1 << 62}, "beyond the first": {3, 1 << 61}, "in turn": {1, 1 << 62, 1 << 62, 1 << 62},
	} {
		h := newHostile(t)
		var why *Error
		require.ErrorAs(t, h.forge(h.a.records.Next-1, runs...), &why, name)
		require.True(t, why.Violation, name)
	}
	h := newHostile(t)
	h.at(h.a, h.b, 1<<30) // so that a range may span a billion numbers
	h.a.train, h.a.mtu = train{}, pathMTU{}
	require.NoError(t, h.send([]byte{framePing}))
	last := h.a.records.Next - 1
	require.NoError(t, h.forge(last, last-1), "and takes no time")
}

// deafPieces is a source that sends, and accepts every payload.
type deafPieces struct{ *pieces }

func (deafPieces) Receive(time.Time, []byte) {}

// FuzzHostile has a peer with the keys send packets of the fuzzer's frames while
// payloads are in flight. At worst the session ends with an error that says why.
func FuzzHostile(f *testing.F) {
	fb := report{nruns: 1}
	fb.runs[0] = 1
	f.Add(append([]byte{5, 30}, fb.appendFrame([]byte{framePing})...))
	f.Add([]byte{200, 2, frameTrain, 3, 0, 5, frameData, 0, 2, 7, 7, 255, 1, framePing})
	f.Fuzz(func(t *testing.T, program []byte) {
		h := newHostile(t)
		h.a.source = deafPieces{newPieces(500, 50, 0)}
		h.a.Wake()
		for len(program) > 2 && len(program) < 4000 {
			n := min(1+int(program[1]), len(program)-2)
			h.now = h.now.Add(time.Duration(program[0]) * ms / 4)
			frames := program[2 : 2+n]
			program = program[2+n:]
			if err := h.send(frames); err != nil {
				require.Equal(t, Closed, h.a.State())
				return
			}
			require.LessOrEqual(t, h.a.records.Cap(), 2*maxAckOptional)
		}
	})
}

// FuzzDatagram takes anybody's datagram the whole way, with the header of a packet
// for this end or without: what is not sealed with the keys changes nothing.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{firstSealed, 1, 2, 3}, false)
	f.Add([]byte("frames and a tag that is wrong, 16 bytes"), true)
	f.Fuzz(func(t *testing.T, packet []byte, addressed bool) {
		h := newHostile(t)
		s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
		box := newInbox(func(bool) {})
		box.setRemote(udp.AddrPort(here))
		if id := s.issue(box); addressed {
			packet = append(appendHeader(nil, id, h.number+1), packet...)
		}
		if len(packet) > 1<<15 || !isSealed(packet) {
			return
		}
		before := h.a.opener.window
		s.route(time.Now(), udp.AddrPort(here), packet)
		for waits := box.take(); waits.more(); {
			_, p := box.next(&waits)
			require.NoError(t, h.a.Receive(h.now, p))
			require.Equal(t, uint64(1), h.a.Stats().Dropped())
		}
		require.Equal(t, before, h.a.opener.window)
	})
}

// TestOneFeedbackAPacket: each costs a walk over what is remembered, and a
// packet has room for a hundred.
func TestOneFeedbackAPacket(t *testing.T) {
	h := newHostile(t)
	f := report{largest: 0, nruns: 1}
	f.runs[0] = 1
	require.NoError(t, h.send(f.appendFrame(nil)))
	var ended *Error
	require.ErrorAs(t, h.send(f.appendFrame(f.appendFrame(nil))), &ended)
	require.True(t, ended.Violation)
	require.ErrorContains(t, ended, "more than one feedback frame")
}

// TestSixteenFramesAPacket: a jumbo packet has room for 8,900 pings, which took
// as long as 25 ordinary packets.
func TestSixteenFramesAPacket(t *testing.T) {
	h := newHostile(t)
	pings := bytes.Repeat([]byte{framePing}, maxFrames)
	require.NoError(t, h.send(pings))
	require.NoError(t, h.send(append(pings[:maxFrames-1:maxFrames-1], make([]byte, 1000)...)), "padding is one frame")
	var ended *Error
	require.ErrorAs(t, h.send(append(pings, framePing)), &ended)
	require.True(t, ended.Violation)
	require.ErrorContains(t, ended, "frames")
}

// TestEightPayloadsAPacket: each is a walk of its own to a machine.
func TestEightPayloadsAPacket(t *testing.T) {
	h := newHostile(t)
	h.a.source = sinkOnly{}
	one := []byte{framePlay, 0, 1, 9}
	require.NoError(t, h.send(bytes.Repeat(one, maxPayloads)))
	var ended *Error
	require.ErrorAs(t, h.send(bytes.Repeat(one, maxPayloads+1)), &ended)
	require.True(t, ended.Violation)
}

// TestClockThatRunsAway: a peer whose clock advances with each feedback by as
// much as its 48 bits allow passes the end of int64 in 65 of them. Nothing
// becomes infinite, and no more is sent than the peer acks.
func TestClockThatRunsAway(t *testing.T) {
	for name, step := range map[string]uint64{"ahead": 1<<47 - 1, "back": 1<<47 + 1} {
		h, clock := newHostile(t), uint64(0)
		for range 500 {
			h.up.total++
			h.up.acked = append(h.up.acked, false)
			h.a.Wake()
			require.NoError(t, h.send([]byte{framePing}), name)
			f := &report{largest: uint32(h.a.records.Next - 1), nruns: 1, clock: clock}
			f.runs[0] = 1
			clock = (clock + step) & clockMask
			require.NoError(t, h.send(f.appendFrame(nil)), name)
			h.now = h.now.Add(5 * ms)
			c := h.a.Controller()
			for _, rate := range []float64{c.Rate(), c.Estimate(), float64(c.Window()), c.Loss()} {
				require.False(t, math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0, "%s: %v", name, rate)
			}
			require.Less(t, c.Window(), 1<<20, name)
			_, ok := h.a.NextTimeout()
			require.True(t, ok, name)
		}
		t.Logf("%s: rate %.0f, window %d, clock %d, %v", name, h.a.control.Rate(), h.a.control.Window(), h.a.peerClock, h.a.State())
		require.Empty(t, h.up.faults, name)
	}
}

// TestOptimistsAreSoonFound: a peer that acks every packet that was sent,
// whether it arrives or not, acks a skipped number within the next thousand.
func TestOptimistsAreSoonFound(t *testing.T) {
	random := testkit.Rand(t)
	for range 20 {
		s := newStep(t, 0, func(c *SessionConfig) { c.Seed[0], c.Seed[1] = byte(random.Uint32()), byte(random.Uint32()) }).open()
		h := &hostile{s, s.b.records.Next}
		h.up.total, h.up.acked = 5000, make([]bool, 5000)
		h.a.Wake()
		begin := h.a.records.Next
		for told := begin; h.a.State() != Closed; {
			h.now = h.now.Add(5 * ms)
			require.NoError(t, h.send([]byte{framePing}), "it has what may leave sent")
			if next := h.a.records.Next; next > told {
				f := report{largest: uint32(next - 1), nruns: 1}
				f.runs[0], told = next-told, next
				_ = h.send(f.appendFrame(nil))
			}
		}
		require.Less(t, h.a.records.Next-begin, uint64(2*meanSkip+2*maxRuns))
		var ended *Error
		require.ErrorAs(t, h.a.Err(), &ended)
		require.ErrorContains(t, ended, "skipped")
	}
}
