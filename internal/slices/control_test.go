package slices

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// conversation is a machine whose peer a test plays.
type conversation struct {
	*testing.T
	*Machine
	now time.Time
}

func newConversation(t *testing.T) *conversation {
	return &conversation{T: t, Machine: New(protocol, newRoom(1<<20)), now: netsim.Epoch}
}

// pass advances the time.
func (c *conversation) pass(d time.Duration) {
	c.now = c.now.Add(d)
	require.NoError(c, c.Advance(c.now))
}

// timeout advances to the next timer and runs it.
func (c *conversation) timeout() {
	at, ok := c.NextTimeout()
	require.True(c, ok)
	c.pass(at.Sub(c.now))
}

// darken lets probes time out until there is an outage.
func (c *conversation) darken() {
	for c.control.timeouts < outageTimeouts {
		c.leave()
		c.timeout()
	}
}

// give sends a message of so many slices.
func (c *conversation) give(slices int) { require.NoError(c, c.Send(content(slices*Size), memory{})) }

// leave sends all slices that may be sent, and returns chunk and index of each.
func (c *conversation) leave() (all [][2]int) {
	for {
		packet, _, ok := c.AppendPacket(c.now, nil, Datagram)
		if !ok {
			return all
		}
		p, err := config.Parse(packet[1:])
		require.NoError(c, err)
		all = append(all, [2]int{int(p.Slice.ChunkID), p.Slice.Index})
	}
}

// ack says that slices of a chunk are there.
func (c *conversation) ack(id uint16, count int, there ...int) {
	a := chunk.Ack{ChunkID: id, Count: count}
	for _, i := range there {
		a.Acked.Set(i)
	}
	require.NoError(c, c.Receive(c.now, config.AppendAck([]byte{protocol}, a)))
}

// fly measures a round trip with chunk 0, and sends chunk 1, of so many slices.
func (c *conversation) fly(rtt time.Duration, slices int) {
	c.give(2)
	require.Len(c, c.leave(), 2)
	c.pass(rtt)
	c.ack(0, 2, 0, 1)
	c.give(slices)
	require.Len(c, c.leave(), slices)
}

func TestThresholdHoldsWithinAChunk(t *testing.T) {
	c := newConversation(t)
	c.give(5)
	c.give(5)
	require.Len(t, c.leave(), 10)
	c.pass(50 * time.Millisecond)

	t.Log("# the second chunk is there whole: the acks of the first may be lost")
	c.ack(1, 5, 0, 1, 2, 3, 4)
	require.Zero(t, c.Lost())
	require.Empty(t, c.leave())

	t.Log("# of the first, three later slices are there")
	c.ack(0, 5, 1, 2, 3, 4)
	require.EqualValues(t, 1, c.Lost())
	require.Equal(t, [][2]int{{0, 0}}, c.leave())
	require.False(t, c.out.idle())
	c.ack(0, 5, 0, 1, 2, 3, 4)
	require.True(t, c.out.idle())
}

func TestTimeThresholdCountsThePeersDelay(t *testing.T) {
	c := newConversation(t)
	c.give(3)
	require.Len(t, c.leave(), 3)
	c.pass(40 * time.Millisecond)
	c.ack(0, 3, 1, 2)
	require.Zero(t, c.Lost(), "two later ones may have overtaken it")
	at, ok := c.NextTimeout()
	require.True(t, ok)
	require.Equal(t, (40*time.Millisecond+ackDelay)*9/8, at.Sub(netsim.Epoch))
	c.pass(at.Sub(c.now))
	require.Equal(t, [][2]int{{0, 0}}, c.leave())
	require.EqualValues(t, 1, c.Lost())
}

// TestSpuriousLossIsLearntThoughTheSliceHasLeftAgain: lost slices are sent
// first, so a slice has nearly always been sent again when its late ack arrives.
func TestSpuriousLossIsLearntThoughTheSliceHasLeftAgain(t *testing.T) {
	c := newConversation(t)
	c.give(9)
	require.Len(t, c.leave(), 9)
	c.pass(40 * time.Millisecond)
	c.ack(0, 9, 1, 2, 3, 4)
	require.Equal(t, [][2]int{{0, 0}}, c.leave())
	c.pass(time.Millisecond)
	c.ack(0, 9, 0, 1, 2, 3, 4)
	require.EqualValues(t, 1, c.Lost())

	t.Log("# from now on many later ones lose none before its time, which is 10/8 of the round trip")
	c.ack(0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	c.give(9)
	require.Len(t, c.leave(), 9)
	sent := c.now
	c.pass(40 * time.Millisecond)
	c.ack(1, 9, 1, 2, 3, 4, 5, 6, 7, 8)
	require.EqualValues(t, 1, c.Lost())
	c.pass((c.control.gate.Smoothed+ackDelay)*10/8 - c.now.Sub(sent) - time.Millisecond)
	require.Empty(t, c.leave())
	c.pass(2 * time.Millisecond)
	require.NotEmpty(t, c.leave())
}

// TestLossThatIsRepairedIsNotSpurious: a round trip after a slice was sent
// again, its ack is for that sending.
func TestLossThatIsRepairedIsNotSpurious(t *testing.T) {
	c := newConversation(t)
	for id := range uint16(2) {
		c.give(9)
		require.Len(t, c.leave(), 9)
		c.pass(40 * time.Millisecond)
		c.ack(id, 9, 1, 2, 3, 4)
		require.Equal(t, [][2]int{{int(id), 0}}, c.leave(), "three later ones are there")
		c.pass(40 * time.Millisecond)
		c.ack(id, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8)
		require.EqualValues(t, id+1, c.Lost())
	}
}

// TestHeldSlicesWait: the rounds in which the connection's rate holds slices
// back do not end the start of the gate.
func TestHeldSlicesWait(t *testing.T) {
	c := newConversation(t)
	const window = 1 << 20
	c.SetWindow(window)
	c.give(20)
	var there []int
	for i := range 10 {
		c.Hold(false, true)
		require.Empty(t, c.leave())
		c.Hold(false, false)
		_, _, ok := c.AppendPacket(c.now, nil, Datagram)
		require.True(t, ok)
		c.pass(40 * time.Millisecond)
		there = append(there, i)
		c.ack(0, 20, there...)
	}
	require.InDelta(t, window/0.04, c.control.gate.Estimate(), 1)
}

func TestFlightForgetsWhatHasLanded(t *testing.T) {
	var f flight
	for range 10 * firstSendings {
		f.settle(f.At(f.launch(sending{size: Datagram})), arrived)
	}
	require.Equal(t, firstSendings, f.Cap())
	require.Zero(t, f.bytes)
}

func TestProbesGoOnThroughAnOutage(t *testing.T) {
	c := newConversation(t)
	c.give(9)
	require.Len(t, c.leave(), 9)
	for n := range 5 {
		c.timeout()
		require.Len(t, c.leave(), probePackets, "timeout %d", n)
	}
	require.Zero(t, c.Lost(), "silence is not a lost slice")
}

// TestOutageEndsWithAnAckOfWhatWasGivenUp: an ack arrives after the slices were
// declared lost and before a probe was sent. The next slice is sent although
// none is in flight whose timer would allow it.
func TestOutageEndsWithAnAckOfWhatWasGivenUp(t *testing.T) {
	c := newConversation(t)
	c.give(1)
	c.darken()
	c.ack(0, 1, 0)
	require.True(t, c.out.idle())
	require.Empty(t, c.leave())
	c.give(3)
	require.Len(t, c.leave(), 3)
}

// TestProbesThatNeverLeft: nothing waits for their acks.
func TestProbesThatNeverLeft(t *testing.T) {
	c := newConversation(t)
	c.give(2)
	c.darken()
	for range probePackets {
		_, number, ok := c.AppendPacket(c.now, nil, Datagram)
		require.True(t, ok)
		c.Unsent(number)
	}
	c.leave()
	_, ok := c.NextTimeout()
	require.True(t, ok || len(c.leave()) > 0)
}

// TestLongOutage: probes continue however long nothing is received, because the
// path is dark or the peer has no room.
func TestLongOutage(t *testing.T) {
	c := newConversation(t)
	c.give(12)
	for c.now.Sub(netsim.Epoch) < 5*time.Minute {
		left := len(c.leave())
		at, ok := c.NextTimeout()
		require.True(t, ok, "after %v", c.now.Sub(netsim.Epoch))
		require.True(t, left > 0 || at.After(c.now))
		c.pass(max(at.Sub(c.now), 0))
	}
}

// TestResendsTellOfAQueue: over a slow, short path round trips with a queue are a hundred
// times as long as those without. So all slices are sent again before they are acked, and no
// ack shows which sending has arrived. When such acks measured nothing, no round trip with the
// queue was ever measured: of seven slices six were copies, and of up to ninety all but one.
func TestResendsTellOfAQueue(t *testing.T) {
	const needed = 280
	for _, rate := range []int64{200e3, 1e6} {
		for _, queue := range []int{6000, 20_000, 1 << 20} {
			for _, window := range []int{6000, 20_000} {
				near := netsim.Config{Delay: 50 * time.Microsecond}
				there := near
				there.Rate, there.Queue = rate, queue
				a, b := newSide(parts(10, partBytes)...), newSide()
				a.SetWindow(window)
				a.Assume(100*time.Microsecond, 50*time.Microsecond)
				_, err := run(a, b, 10, netsim.PairConfig{AtoB: there, BtoA: near})
				require.NoError(t, err)
				t.Logf("%d bit/s, queue %d, window %d: %d slices", rate, queue, window, a.Stats().Slices)
				require.Less(t, a.Stats().Slices, uint64(5*needed/2))
			}
		}
	}
}

// TestLossesEndAtTheFirstThatIsNotLost: each ack of a slice had all slices in flight
// looked at, 104 µs for 8,000 of them and one of 40 bytes. Behind the first that is
// not lost by time only those of the chunk are, which others of it have overtaken.
func TestLossesEndAtTheFirstThatIsNotLost(t *testing.T) {
	var c control
	var o outbox
	o.since(time.Unix(1, 0))
	for range 2 { // chunk 0 has slices 0 to 5, and chunk 1 has 6 to 11
		require.NoError(t, o.send(content(6*Size), memory{}))
	}
	now := time.Unix(1, 0)
	for range 12 {
		_, _, ok := o.next(now, false)
		require.True(t, ok)
		now = now.Add(50 * time.Millisecond)
	}
	c.reached = 12
	c.gate.Assume(100*time.Millisecond, 0)
	o.flight.At(8).at = 0 // which does not happen: who looks at it finds it lost
	o.flight.At(11).fate = arrived
	lost := func(at time.Duration, id uint16, high uint64) (numbers []uint64) {
		before := make(map[uint64]bool)
		for n := range uint64(12) {
			before[n] = o.flight.At(n).fate == inFlight
		}
		c.detect(at, &o, id, high)
		for n := range uint64(12) {
			if before[n] && o.flight.At(n).fate != inFlight {
				numbers = append(numbers, n)
			}
		}
		return numbers
	}
	require.Equal(t, []uint64{0, 1, 2, 3}, lost(300*time.Millisecond, 0, 0), "by time")
	require.Equal(t, []uint64{6, 7, 8}, lost(300*time.Millisecond, 1, 12), "three of the chunk were acked behind them")
	require.Equal(t, []uint64{4}, lost(350*time.Millisecond, 0, 0))
}

// TestAWholeWindowIsLostOnAPathThatBecameFast: two hundred transfers that began at once measured
// round trips of half a second, and lost what was in flight when most had ended. By then a round
// trip took a millisecond, and an ack so early might be that of a slice's first sending. So nothing
// else counted as lost, and each probe timeout sent two slices of a window, for nine seconds.
func TestAWholeWindowIsLostOnAPathThatBecameFast(t *testing.T) {
	const lost = 20
	c := newConversation(t)
	c.fly(400*time.Millisecond, lost) // none of them arrives

	there, timeouts := map[int]bool{}, 0
	for len(there) < lost {
		c.timeout()
		timeouts++
		again := c.leave()
		c.pass(time.Millisecond)
		var all []int
		for _, s := range again {
			there[s[1]] = true
		}
		for i := range there {
			all = append(all, i)
		}
		c.ack(1, lost, all...)
	}
	require.LessOrEqual(t, timeouts, 2)
}

// TestAStandstillLosesNothing: after a path that was stopped for a probe timeout, the acks
// of earlier sendings arrive in order, the first ones of slices that were sent again.
func TestAStandstillLosesNothing(t *testing.T) {
	const slices = 20
	c := newConversation(t)
	c.fly(40*time.Millisecond, slices)
	c.timeout()
	require.Len(t, c.leave(), probePackets)
	lost := c.Lost()
	var there []int
	for i := range slices {
		there = append(there, i)
		c.ack(1, slices, there...)
		c.pass(100 * time.Microsecond)
	}
	require.Equal(t, lost, c.Lost())
	require.Empty(t, c.leave())
	require.True(t, c.out.idle())
}

// TestOwnPauseIsNoRoundTrip: a process that was stopped for 12 s finds acks that have waited
// in its socket. Their age is no round trip, whether it handles the acks or the timers first.
func TestOwnPauseIsNoRoundTrip(t *testing.T) {
	const slices = 20
	for _, timerFirst := range []bool{false, true} {
		c := newConversation(t)
		c.fly(40*time.Millisecond, slices)
		c.now = c.now.Add(12 * time.Second)
		if timerFirst {
			c.pass(0)
			c.leave()
		}
		var there []int
		for i := range slices {
			there = append(there, i)
			c.ack(1, slices, there...)
		}
		require.Less(t, c.control.gate.PTO(ackDelay), 3*time.Second, "the timer comes first: %v", timerFirst)
		require.LessOrEqual(t, c.control.gate.Smoothed, maxHeldRTT)
	}
}

// TestProbeOfAnEmptyPathEndsAnOutage: a probe after an outage finds no queue, so its round trip is
// a little less than any before it. Its ack was taken for that of an earlier sending. So nothing in
// flight counted as lost, the window stayed full, and only probes were sent for another timeout.
func TestProbeOfAnEmptyPathEndsAnOutage(t *testing.T) {
	const slices = 20
	c := newConversation(t)
	c.fly(40*time.Millisecond, slices)
	c.darken()
	require.Len(t, c.leave(), probePackets)
	c.pass(38 * time.Millisecond)
	c.ack(1, slices, 2, 3)
	require.Greater(t, len(c.leave()), probePackets)
}

// TestOutageLeavesTheLossDetector: the acks of slices that arrived before an outage were lost in
// it. That they come seconds later, after the slices were declared lost, doesn't mean that the path
// reorders packets. It was taken for that, so for 10 s a lost slice counted for four round trips.
func TestOutageLeavesTheLossDetector(t *testing.T) {
	const slices = 20
	c := newConversation(t)
	c.fly(40*time.Millisecond, slices)
	c.timeout() // declares two slices lost, which aren't sent again
	c.pass(3 * time.Second)
	var there []int
	for i := range slices {
		there = append(there, i)
	}
	c.ack(1, slices, there...)
	require.True(t, c.out.idle())

	t.Log("# three later slices still show that one was lost")
	c.give(5)
	require.Len(t, c.leave(), 5)
	c.pass(40 * time.Millisecond)
	lost := c.Lost()
	c.ack(2, 5, 1, 2, 3, 4)
	require.Equal(t, lost+1, c.Lost())
}

// TestOutageAtTheStart: an outage in the first round trips ended the start of the gate for good,
// and slowed loss detection down. On a lossy path the window then grew by less than losses took
// from it, so transfers took three to ten times as long as they had to.
func TestOutageAtTheStart(t *testing.T) {
	for seed := range uint64(8) {
		path := netsim.Config{Delay: 90 * time.Millisecond, Rate: 10e6, Loss: 0.05, Seed: seed}
		sent := parts(100, 32_000)
		a, b := newSide(sent...), newSide()
		p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 235_000})
		require.NoError(t, p.RunFor(120*time.Millisecond))
		p.Dark(3 * time.Second)
		require.NoError(t, p.RunFor(3*time.Second))
		begin := p.Now()
		require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == len(sent) }))
		ideal := 100 * 32_500 * 8 / 10e6 / 0.95
		require.Less(t, p.Now().Sub(begin).Seconds(), 2.3*ideal, "seed %d", seed)
	}
}

// TestOutageInTheFirstRoundTrip: the time of the outage was taken for the round trip, so that
// losses counted as such only after as long, and transfers took up to a minute longer.
func TestOutageInTheFirstRoundTrip(t *testing.T) {
	seed := testkit.Seed(t)
	for i := range uint64(10) {
		path := netsim.Config{Delay: 75 * time.Millisecond, Jitter: 15 * time.Millisecond, Rate: 50e6, Queue: 1 << 20, Loss: 0.1, Seed: seed + i}
		a, b := newSide(parts(100, 32_000)...), newSide()
		p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
		require.NoError(t, p.RunFor(60*time.Millisecond))
		p.Dark(4 * time.Second)
		require.NoError(t, p.RunFor(5500*time.Millisecond))
		require.Less(t, a.control.gate.Smoothed, 500*time.Millisecond)
		require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == 100 }))
		require.Less(t, p.Now().Sub(netsim.Epoch), 12*time.Second)
	}
}

// TestProbesThatMustWait: probes can't be sent while the carrier is blocked, the connection's rate
// is used up, or the driver is stopped. An ack of earlier sendings that arrived later ended no
// outage, since there had been only one timeout and a slice had just been sent. So the wait was
// taken for the round trip, and each later timeout took minutes as well.
func TestProbesThatMustWait(t *testing.T) {
	for _, slices := range []int{probePackets, 20} { // with two, none is left in flight
		c := newConversation(t)
		c.fly(40*time.Millisecond, slices)
		c.timeout()
		if slices == probePackets {
			for range probePackets {
				_, number, ok := c.AppendPacket(c.now, nil, Datagram)
				require.True(t, ok)
				c.Unsent(number)
			}
			c.Hold(false, true)
			require.Empty(t, c.leave())
		}
		c.now = c.now.Add(5 * time.Minute)
		c.Hold(false, false)
		_, _, ok := c.AppendPacket(c.now, nil, Datagram)
		require.True(t, ok)
		c.pass(10 * time.Millisecond)
		c.ack(1, slices, slices-1)
		require.Less(t, c.control.gate.PTO(ackDelay), 3*time.Second, "%d slices", slices)
	}
}

// TestResendsMeasureTheRate: while only slices arrived that had been sent before, no rate was
// measured. So after an outage, in which all that was in flight was lost, the window didn't grow
// until all of that had been sent again. On a slow path with a long queue, where every slice was
// sent twice before its ack came, no rate was ever measured, and that went on for ever.
func TestResendsMeasureTheRate(t *testing.T) {
	const rtt, slices = 40 * time.Millisecond, 28
	c := newConversation(t)
	c.give(2)
	require.Len(t, c.leave(), 2)
	c.give(slices)
	require.Len(t, c.leave(), slices)
	c.pass(rtt)
	c.ack(0, 2, 0, 1)
	before := c.control.gate.Rate()
	require.Positive(t, before)
	c.darken()

	var there []int
	for len(there) < slices {
		for _, s := range c.leave() {
			there = append(there, s[1])
		}
		c.pass(rtt)
		c.ack(1, slices, there...)
	}
	require.True(t, c.out.idle())
	require.Greater(t, c.control.gate.Rate(), 4*before)
}
