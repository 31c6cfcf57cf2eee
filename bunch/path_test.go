package bunch

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestFatesDecide: while the carrier reports fates, packets aren't declared lost because of any
// threshold.
func TestFatesDecide(t *testing.T) {
	l := newLossTest(t, Config{})
	l.SetPath(l.at, Path{Epoch: 1, Fates: true})
	l.sendPackets(6)
	l.wait(50 * ms)
	l.mustAck(2, 5)
	l.wait(10 * ms)
	require.Equal(t, inFlight, l.fate(0), "packets and time overtook it, and it may still come")

	l.Fate(l.at, 0, false)
	require.True(t, l.Changed())
	require.Equal(t, lost, l.fate(0))
	require.Equal(t, 1, l.packets(), "it leaves again at once")

	l.mustAck(0, 0)
	require.Equal(t, uint64(1), l.Stats().SpuriousLosses, "a late ack frees its entry")
	l.Fate(l.at, 0, false)
	l.Fate(l.at, 3, false)
	l.Fate(l.at, 99, true)
	require.Equal(t, acked, l.fate(3), "what is decided stays")
	require.Zero(t, l.packets())
}

// TestProbesBeginAnewOnAnotherPath: the probe timeouts of the old path say nothing about the
// new one.
func TestProbesBeginAnewOnAnotherPath(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(1)
	for range 3 {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		l.packets()
	}
	require.Equal(t, 3, l.loss.ptos)
	l.SetPath(l.at, Path{Epoch: 1})
	require.Zero(t, l.loss.ptos)
}

// TestNothingAckedIsRepeated: an acknowledged piece isn't repeated, even if its entry stays in
// the buffer because an earlier one isn't acknowledged.
func TestNothingAckedIsRepeated(t *testing.T) {
	l := newLossTest(t, Config{})
	l.SetPath(l.at, Path{Epoch: 1, Fates: true, Loss: 0.01, Rate: 1e6, Window: 1e6})
	l.sendPackets(1)
	for n, acked := range []bool{false, true} {
		require.NoError(t, l.Send(l.channel, ReliableUnordered, []byte("small")))
		_, number, ok := l.AppendPacket(l.at, nil, 1404)
		require.True(t, ok)
		require.Equal(t, 1, l.repeats.n)
		if acked {
			l.mustAck(uint32(number), uint32(number))
		}
		require.NoError(t, l.Send(l.channel, Reliable, pattern(300, 0)))
		b, _, ok := l.AppendPacket(l.at, nil, 1404)
		require.True(t, ok)
		require.Len(t, bunchesOf(t, b), map[bool]int{false: 2, true: 1}[acked], "round %d", n)
	}
}

// TestRepeatsKeepToTheBunchesOfAPacket: bunches may be so small that a packet has room for more
// of them than the peer accepts.
func TestRepeatsKeepToTheBunchesOfAPacket(t *testing.T) {
	p, _ := newFatedPair(t, 0.01)
	c, play := p.ends[0], p.open(0, Normal)
	p.send(0, play, Reliable, []byte("once"))
	_, _, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.Equal(t, 1, c.repeats.n)
	for range 300 {
		p.send(0, play, Unreliable, nil)
	}
	b, _, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.Len(t, bunchesOf(t, b), maxBunches)
}

// TestFatesShowNoBlackHole: a carrier that reports fates finds out itself which sizes its path
// allows.
func TestFatesShowNoBlackHole(t *testing.T) {
	for _, tells := range []bool{false, true} {
		l := newLossTest(t, Config{})
		l.SetPath(l.at, Path{Epoch: 1, Fates: tells})
		for range 3 {
			require.NoError(t, l.Send(l.channel, Reliable, pattern(700, 0)))
			require.NoError(t, l.Send(l.channel, ReliableUnordered, pattern(600, 0)))
			require.Equal(t, 1, l.packets())
		}
		l.sendPackets(3)
		l.wait(50 * ms)
		l.mustAck(3, 5)
		for n := range uint64(3) {
			l.Fate(l.at, n, false)
		}
		require.EqualValues(t, 3, l.Lost())
		require.Equal(t, !tells, l.BlackHole())
	}
}

// TestWhatArrivedMustBeKept: if a packet arrives but isn't acknowledged, its content is sent
// again after a second.
func TestWhatArrivedMustBeKept(t *testing.T) {
	l := newLossTest(t, Config{})
	l.SetPath(l.at, Path{Epoch: 1, Fates: true})
	l.sendPackets(1)
	l.wait(50 * ms)
	l.Fate(l.at, 0, true)
	require.Equal(t, inFlight, l.fate(0))
	l.wait(recovery.KeepTime - 1)
	require.Equal(t, inFlight, l.fate(0))
	l.wait(1)
	require.Equal(t, lost, l.fate(0))
	require.NotZero(t, l.packets())
}

// TestMoveSendsNothingAgain: a change of carrier or address doesn't count as a loss, and
// packets on the new path don't overtake those on the old one.
func TestMoveSendsNothingAgain(t *testing.T) {
	for name, to := range map[string]Path{
		"another address": {Epoch: 1},
		"another carrier": {Epoch: 1, Fates: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLossTest(t, Config{})
			l.roundTrip()
			l.sendPackets(4)
			rtt := l.congestion.RTT
			l.wait(10 * ms)
			l.SetPath(l.at, to)
			require.Zero(t, l.packets())
			l.sendPackets(4)
			l.wait(40 * ms)
			l.mustAck(4, 4)
			require.Equal(t, rtt, l.congestion.RTT, "a packet of before gives no sample")
			l.wait(2 * ms)
			l.mustAck(5, 8)
			for n := range uint64(3) {
				require.Equal(t, inFlight, l.fate(1+n))
			}
			require.Zero(t, l.packets())

			t.Log("# what did not arrive in its time leaves again")
			l.wait(200 * ms)
			for n := range uint64(3) {
				require.Equal(t, lost, l.fate(1+n))
			}
			require.NotZero(t, l.packets())
		})
	}
}

// TestCarriersChange lets two ends exchange messages on a path with 20% loss, while each
// changes at random between a carrier that reports fates and one that doesn't.
func TestCarriersChange(t *testing.T) {
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, 5))
	p := newPair(t, Config{})
	p.drop = func(int, []byte) bool { return random.IntN(5) == 0 }
	channels := [2]uint64{p.open(0, Bulk), p.open(1, Normal)}
	next, got := [2]int{}, [2]int{}
	epochs := [2]uint32{}
	const total = 300
	for end := p.now.Add(10 * time.Minute); got != [2]int{total, total}; {
		require.True(t, p.now.Before(end), "%v of %d arrived", got, total)
		for i, c := range p.ends {
			for next[i] < total {
				size := random.IntN(20_000)
				if out, slots := c.Reliable(channels[i]); out+Entries(size) >= slots/2 {
					break
				}
				p.send(i, channels[i], Reliable, pattern(size, next[i]))
				next[i]++
			}
			if random.IntN(20) == 0 {
				p.move(i, &epochs[i], random.IntN(2) == 0)
			}
		}
		p.run(time.Duration(random.IntN(40)) * ms)
		for i := range p.ends {
			for _, m := range p.take(i) {
				require.Equal(t, pattern(len(m.Payload), got[1-i]), m.Payload)
				got[1-i]++
			}
		}
	}
	p.drop = nil
	p.run(10 * time.Second)
	p.settled()
}

// move makes an end send over another carrier. A carrier that reported fates keeps reporting
// those of its packets.
func (p *pair) move(end int, epoch *uint32, fates bool) {
	kept := p.verdicts[:0]
	for _, v := range p.verdicts {
		if v.end != end {
			kept = append(kept, v)
			continue
		}
		p.ends[end].Fate(p.now, v.number, false)
	}
	p.verdicts = kept
	*epoch++
	p.fates[end] = fates
	p.ends[end].SetPath(p.now, Path{Epoch: *epoch, Fates: fates, RTT: 2 * p.delay, Rate: 1e6, Loss: 0.02})
}

// TestTailOfALossyPath: at the end of a transfer, when nothing new is queued, lost content is
// sent in two packets on a path with random loss, and in a third if both are lost. Before the
// end, on a path without loss, and for play, it's sent once.
func TestTailOfALossyPath(t *testing.T) {
	for _, row := range []struct {
		name     string
		priority Priority
		loss     float64
		want     int
	}{
		{"lossy", Bulk, 0.02, 2},
		{"clean", Bulk, 0.001, 1},
		{"play", Normal, 0.02, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := newLossTest(t, Config{})
			ch, err := l.Open(row.priority)
			require.NoError(t, err)
			l.channel = ch
			l.SetPath(l.at, Path{Epoch: 1, Fates: true, Loss: row.loss, Rate: 1e6, Window: 1e6})
			l.sendPackets(6)
			l.Fate(l.at, 2, false)
			require.Equal(t, row.want, l.packets())
			require.EqualValues(t, row.want, l.Stats().BunchesResent)
			for n := range row.want {
				require.Zero(t, l.packets(), "as long as a copy is under way")
				l.Fate(l.at, uint64(6+n), false)
			}
			require.Equal(t, row.want, l.packets())
			l.mustAck(0, uint32(5+2*row.want))
			require.True(t, l.Drained())
		})
	}
	t.Run("before the end", func(t *testing.T) {
		l := newLossTest(t, Config{})
		ch, err := l.Open(Bulk)
		require.NoError(t, err)
		l.channel = ch
		l.SetPath(l.at, Path{Epoch: 1, Fates: true, Loss: 0.02, Rate: 1e6, Window: 1e6})
		l.sendPackets(6)
		require.NoError(t, l.Send(ch, Reliable, pattern(3000, 0)))
		l.Fate(l.at, 2, false)
		l.packets()
		require.EqualValues(t, 1, l.Stats().BunchesResent)
	})
}

// TestPlayIsRepeatedOnALossyPath: if the path loses packets, a small call whose packet is lost
// arrives with the next packet, of bulk or of play. A large call, the ninth call of a tick, and
// a call in a queue of calls alone aren't repeated. No packet is sent only for a repeat.
func TestPlayIsRepeatedOnALossyPath(t *testing.T) {
	for _, row := range []struct {
		name  string
		loss  float64
		queue time.Duration
		size  int
		next  Priority
		comes bool
	}{
		{"beside bulk", 0.01, 0, 50, Bulk, true},
		{"next tick", 0.01, 0, 50, Normal, true},
		{"next tick, in a short queue", 0.01, repeatQueue, 50, Normal, true},
		{"next tick, in a queue", 0.01, repeatQueue + 1, 50, Normal, false},
		{"beside bulk, in a queue", 0.01, repeatQueue + 1, 50, Bulk, true},
		{"clean path", 0.001, 0, 50, Bulk, false},
		{"large call", 0.01, 0, 300, Bulk, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPair(t, Config{})
			play, other := p.open(0, Normal), p.open(0, row.next)
			p.send(0, play, Reliable, []byte("first"))
			p.send(0, other, Reliable, []byte("first"))
			p.run(time.Second)
			p.take(1)
			p.ends[0].SetPath(p.now, Path{Epoch: 1, Fates: true, Loss: row.loss, Rate: 1e6, Window: 1e6})
			p.ends[0].congestion.Recent = p.ends[0].congestion.Min + row.queue

			lost := p.sent[0]
			p.drop = func(from int, _ []byte) bool { return from == 0 && p.sent[0] == lost+1 }
			p.send(0, play, Reliable, pattern(row.size, 0))
			p.flush()
			require.Equal(t, lost+1, p.sent[0], "packets")
			p.now = p.now.Add(time.Millisecond)
			p.flush()
			require.Equal(t, lost+1, p.sent[0], "packets: a repeat alone is no reason for one")
			p.send(0, other, Reliable, pattern(40, 1))
			p.flush()
			require.Equal(t, lost+2, p.sent[0], "packets")
			p.run(p.delay + time.Millisecond)
			came := false
			for _, m := range p.take(1) {
				came = came || m.Channel == play
			}
			require.Equal(t, row.comes, came, "the call whose packet was lost has come with the next one")
			before := p.sent[0]
			p.send(0, other, Reliable, pattern(40, 2))
			p.flush()
			require.Equal(t, before+1, p.sent[0])
			if row.comes {
				require.LessOrEqual(t, p.ends[0].Stats().BunchesResent, uint64(2), "the call once, and what was sent with it")
			}
			p.run(2 * time.Second)
		})
	}
	t.Run("losses that this side has seen", func(t *testing.T) {
		p := newPair(t, Config{})
		ch := p.open(0, Normal)
		lost := map[int]bool{20: true, 60: true}
		p.drop = func(from int, _ []byte) bool { return from == 0 && lost[p.sent[0]] }
		for i := range 100 {
			p.send(0, ch, Reliable, pattern(20, i))
			p.run(33 * ms)
			came := len(p.take(1))
			if p.sent[0] == 60 {
				require.Zero(t, came)
				p.send(0, ch, Reliable, pattern(20, i))
				p.run(p.delay + ms)
				require.Len(t, p.take(1), 2, "the call whose packet was lost and the next one")
			}
		}
		require.Less(t, p.ends[0].Stats().BunchesResent, uint64(100), "none before the first loss")
		p.run(time.Second)
	})
	t.Run("a tick of many", func(t *testing.T) {
		l := newLossTest(t, Config{})
		l.SetPath(l.at, Path{Epoch: 1, Fates: true, Loss: 0.02, Rate: 1e6, Window: 1e6})
		var channels []uint64
		for range 12 {
			ch, err := l.Open(Normal)
			require.NoError(t, err)
			channels = append(channels, ch)
			require.NoError(t, l.Send(ch, Reliable, pattern(20, 0)))
		}
		require.Equal(t, 1, l.packets())
		require.NoError(t, l.Send(channels[0], Reliable, pattern(20, 0)))
		require.Equal(t, 1, l.packets())
		require.EqualValues(t, maxRepeats, l.Stats().BunchesResent)
	})
}
