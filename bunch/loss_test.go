package bunch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// lossTest is one end of a connection whose peer's packets are written by the test. It sends
// one message of one entry in each packet.
type lossTest struct {
	*testing.T
	*Conn
	at      time.Time
	channel uint64
	acks    uint32 // number of the peer's next packet
}

func newLossTest(t *testing.T, config Config) *lossTest {
	config.Client = true
	c, err := NewConn(epoch, config)
	require.NoError(t, err)
	ch, err := c.Open(Normal)
	require.NoError(t, err)
	return &lossTest{T: t, Conn: c, at: epoch, channel: ch}
}

// sendBulk opens a channel of bulk and sends a message on it.
func (l *lossTest) sendBulk(size int) (channel uint64) {
	channel, err := l.Open(Bulk)
	require.NoError(l, err)
	require.NoError(l, l.Send(channel, Reliable, pattern(size, 0)))
	return channel
}

func (l *lossTest) wait(d time.Duration) {
	l.at = l.at.Add(d)
	require.NoError(l, l.Advance(l.at))
}

// packets builds all packets that can be sent now and returns their number.
func (l *lossTest) packets() (n int) {
	for ; ; n++ {
		if _, _, ok := l.AppendPacket(l.at, nil, 1404); !ok {
			return n
		}
		require.Less(l, n, 1000)
	}
}

// sendPackets sends n packets with one entry each.
func (l *lossTest) sendPackets(n int) {
	for range n {
		require.NoError(l, l.Send(l.channel, Reliable, pattern(1000, 0)))
		require.Equal(l, 1, l.packets())
	}
}

// ack makes the connection receive an ack of the packets from low to high.
func (l *lossTest) ack(low, high uint32) error {
	h := packetHeader{flags: flagAcks, number: l.acks, largest: high, nruns: 1}
	h.runs[0] = uint64(high-low) + 1
	l.acks++
	return l.Receive(l.at, appendPacketHeader(nil, &h))
}

func (l *lossTest) mustAck(low, high uint32) {
	require.NoError(l, l.ack(low, high))
	checkConn(l, l.Conn)
}

// roundTrip makes the peer acknowledge the first packet after 50 ms.
func (l *lossTest) roundTrip() {
	l.sendPackets(1)
	l.wait(50 * ms)
	l.mustAck(0, 0)
}

func (l *lossTest) fate(n uint64) fate { return l.sent.At(n).fate }

func TestPacketThreshold(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(5)
	l.wait(50 * ms)
	t.Log("# RFC 9002, section 6.1.1: two later packets say nothing yet, the third does")
	l.mustAck(1, 2)
	require.Equal(t, inFlight, l.fate(0))
	l.mustAck(3, 3)
	require.Equal(t, lost, l.fate(0))
	require.Equal(t, inFlight, l.fate(4))
	require.Equal(t, uint64(1), l.Lost())
	require.Equal(t, 1, l.packets(), "it is sent again")
	require.Equal(t, uint64(1), l.Stats().BunchesResent)
	require.Equal(t, 5, l.channels.open[l.channel].outstanding(), "the head keeps what follows it")
	l.mustAck(5, 5)
	out, _ := l.Reliable(l.channel)
	require.Equal(t, 1, out)
}

func TestTimeThreshold(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	require.Equal(t, 50*ms, l.congestion.Smoothed)
	l.sendPackets(1)
	l.wait(1 * ms)
	l.sendPackets(1)
	l.wait(50 * ms)
	l.mustAck(2, 2)
	t.Log("# RFC 9002, section 6.1.2: 9/8 of the RTT after it left")
	at, ok := l.NextTimeout()
	require.True(t, ok)
	require.Equal(t, 56250*time.Microsecond, at.Sub(l.at)+51*ms)
	l.wait(at.Sub(l.at) - 1)
	require.Equal(t, inFlight, l.fate(1))
	l.wait(1)
	require.Equal(t, lost, l.fate(1))
}

// TestTimeThresholdOfALongerRoundTrip: RFC 9002, section 6.1.2, uses the latest round trip if
// it exceeds the mean.
func TestTimeThresholdOfALongerRoundTrip(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(2)
	l.wait(80 * ms)
	l.mustAck(2, 2)
	require.Less(t, l.congestion.Smoothed, 60*ms)
	l.wait(10*ms - 1)
	require.Equal(t, inFlight, l.fate(1))
	l.wait(1)
	require.Equal(t, lost, l.fate(1))
}

func TestSpuriousLossTurnsThePacketThresholdOff(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(4)
	l.wait(50 * ms)
	l.mustAck(1, 3)
	require.Equal(t, lost, l.fate(0))
	l.wait(1 * ms)
	l.mustAck(0, 3)
	require.Equal(t, uint64(1), l.Stats().SpuriousLosses)
	require.True(t, l.Drained(), "a late ack frees the entries all the same")
	require.Zero(t, l.packets(), "and nothing is sent again")

	t.Log("# reordering no longer costs resends, time does: RTT + 2/8 RTT")
	l.sendPackets(5)
	l.wait(50 * ms)
	l.mustAck(5, 8)
	require.Equal(t, inFlight, l.fate(4))
	require.Zero(t, l.packets())
	l.wait(50*ms*2/8 - 1)
	require.Equal(t, inFlight, l.fate(4))
	l.wait(1)
	require.Equal(t, lost, l.fate(4))
}

// TestLateAckFreesEntries: the record of a lost packet is kept for 3 PTOs.
func TestLateAckFreesEntries(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		freed bool
	}{{0, true}, {300 * ms, true}, {time.Second, false}} {
		l := newLossTest(t, Config{})
		l.sendPackets(4)
		l.wait(50 * ms)
		l.mustAck(1, 3)
		require.Equal(t, lost, l.fate(0))
		require.Equal(t, 3*l.pto(), l.sent.At(0).lostUntil-50*ms)
		l.wait(c.after)
		l.mustAck(0, 0)
		require.Equal(t, c.freed, l.Drained(), c.after)
	}
}

// TestRTTThatRises: when the round trip becomes ten times as long, all packets are declared
// lost at first, and only their late acks show what has happened.
func TestRTTThatRises(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	send := func(n int) {
		for range n {
			p.send(0, ch, Reliable, pattern(1000, 1))
			p.run(20 * ms)
			p.take(1)
		}
	}
	send(20)
	require.InDelta(t, 50*ms, p.ends[0].Stats().SmoothedRTT, float64(5*ms))
	p.delay = 250 * ms
	send(150)
	require.Greater(t, p.ends[0].Stats().SmoothedRTT, 450*ms)
	lost := p.ends[0].Lost()
	send(150)
	require.Equal(t, lost, p.ends[0].Lost(), "it knows the path now")
	p.run(time.Minute)
	p.settled()
}

func TestProbeTimeout(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(3)
	pto := 50*ms + 4*25*ms + 40*ms
	require.Equal(t, pto, l.pto(), "srtt + 4 var + the peer's ack delay")
	for i, want := range []time.Duration{pto, 2 * pto, 4 * pto, time.Second, time.Second, time.Second} {
		at, ok := l.NextTimeout()
		require.True(t, ok)
		require.Equal(t, min(want, time.Second), at.Sub(l.at), "probe %d", i)
		l.wait(want - 1)
		require.Zero(t, l.packets())
		l.wait(1)
		require.Equal(t, 2, l.packets(), "two packets a probe")
		checkConn(t, l.Conn)
	}
	require.Equal(t, 6, l.loss.ptos)
	require.Zero(t, l.Lost(), "silence alone loses nothing")
	l.mustAck(1, 1)
	require.Zero(t, l.loss.ptos)
}

func TestProbeTimeoutIsCappedAt3RTT(t *testing.T) {
	l := newLossTest(t, Config{})
	l.congestion.RTT = recovery.RTT{Latest: 600 * ms, Smoothed: 600 * ms, Variance: 100 * ms, Min: 600 * ms}
	l.sendPackets(1)
	for _, want := range []time.Duration{1040 * ms, 1800 * ms, 1800 * ms} {
		at, ok := l.NextTimeout()
		require.True(t, ok)
		require.Equal(t, want, at.Sub(l.at))
		l.wait(want)
		l.packets()
	}
	l.congestion.Variance = time.Second
	at, _ := l.NextTimeout()
	require.Equal(t, 4640*ms, at.Sub(l.at), "but never below the first")
}

// TestProbesFitAPathThatShrank: from the second probe timeout on, all packets are small, and
// the first two ask for an ack.
func TestProbesFitAPathThatShrank(t *testing.T) {
	l := newLossTest(t, Config{})
	require.NoError(t, l.Send(l.channel, Reliable, pattern(10_000, 1)))
	l.packets()
	sizes := func() (sizes []int) {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		for {
			b, _, ok := l.AppendPacket(l.at, nil, 1404)
			if !ok {
				return sizes
			}
			require.Equal(t, len(sizes) < probePackets, b[1]&flagAckNow != 0)
			sizes = append(sizes, len(b))
		}
	}
	require.Greater(t, sizes()[0], 1163)
	for _, size := range sizes() {
		require.LessOrEqual(t, size, 1163)
	}
}

func TestTailLoss(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, []byte("first"))
	p.run(time.Second)
	p.take(1)
	p.drop = func(from int, _ []byte) bool { return from == 0 }
	p.send(0, ch, Reliable, []byte("tail"))
	p.flush()
	p.drop = nil
	start := p.now
	for p.ends[1].Ready() == 0 {
		require.True(t, p.step(start.Add(time.Second)))
	}
	require.Equal(t, "tail", string(p.take(1)[0].Payload))
	require.LessOrEqual(t, p.now.Sub(start), 25*ms+p.ends[0].pto())
	p.run(time.Second)
	p.settled()
}

func TestAcksOfPacketsThatWereNeverSentClose(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high uint32
	}{{"the next", 1, 1}, {"far ahead", 0, 500}, {"half a circle ahead", 1 << 30, 1 << 30}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLossTest(t, Config{})
			l.sendPackets(1)
			requireCode(t, AckSequenceMismatch, l.ack(c.low, c.high))
			require.Error(t, l.Err())
		})
	}
	t.Run("none was sent", func(t *testing.T) {
		l := newLossTest(t, Config{})
		requireCode(t, AckSequenceMismatch, l.ack(0, 0))
	})
	t.Run("below zero", func(t *testing.T) {
		l := newLossTest(t, Config{})
		l.sendPackets(2)
		h := packetHeader{flags: flagAcks, largest: 1, nruns: 3, runs: [maxAckRuns]uint64{1, 1, 1}}
		requireCode(t, AckSequenceMismatch, l.Receive(l.at, appendPacketHeader(nil, &h)))
	})
}

func requireCode(t testing.TB, code Code, err error) {
	t.Helper()
	var own *Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, code, own.Code, err.Error())
	n, reason := own.CloseCode()
	require.Equal(t, uint64(code), n)
	require.Contains(t, own.Error(), code.String())
	require.NotEmpty(t, reason)
	require.LessOrEqual(t, len(reason), 256)
}

// TestIdleTimeout: the timeout starts with the first packet that isn't acknowledged.
func TestIdleTimeout(t *testing.T) {
	l := newLossTest(t, Config{})
	l.wait(time.Hour)
	require.NoError(t, l.Err(), "silence with nothing to answer is no timeout")
	l.sendPackets(1)
	start := l.at
	var err error
	for err == nil {
		l.packets()
		at, ok := l.NextTimeout()
		require.True(t, ok)
		l.at = at
		err = l.Advance(l.at)
	}
	requireCode(t, ConnectionTimeout, err)
	require.Equal(t, 30*time.Second, l.at.Sub(start))
	require.True(t, l.Wake())
	_, ok := l.NextTimeout()
	require.False(t, ok)
	require.ErrorIs(t, l.Send(l.channel, Reliable, nil), err)
}

// TestLateAcksKeepAConnectionAlive: late acks of lost packets count as answers too.
func TestLateAcksKeepAConnectionAlive(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(5)
	l.wait(20 * time.Second)
	l.mustAck(4, 4)
	l.wait(20 * time.Second)
	l.mustAck(3, 4)
	l.packets()
	l.wait(20 * time.Second)
	require.NoError(t, l.Err())
}

// TestProbesGoRound: consecutive timeouts repeat the bunches in flight in turn, and each
// repeats something.
func TestProbesGoRound(t *testing.T) {
	l := newLossTest(t, Config{IdleTimeout: time.Hour})
	l.roundTrip()
	l.sendPackets(10) // packets 1 to 10 with sequences 1 to 10
	for round := range 300 {
		at, ok := l.NextTimeout()
		require.True(t, ok)
		l.wait(at.Sub(l.at))
		for i := range 2 {
			b, _, ok := l.AppendPacket(l.at, nil, 1404)
			require.True(t, ok)
			require.Equal(t, []string{fmt.Sprintf("1/%d", 1+(2*round+i)%10)}, bunchesOf(t, b), "timeout %d", round)
		}
		require.Zero(t, l.packets())
		checkConn(t, l.Conn)
	}
}

// TestProbesBeginWithTheOldest: after each ack, probes begin with the oldest bunch again.
func TestProbesBeginWithTheOldest(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(10)
	for _, want := range []string{"1/1", "1/2"} {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		b, _, ok := l.AppendPacket(l.at, nil, 1404)
		require.True(t, ok)
		require.Equal(t, []string{want}, bunchesOf(t, b))
		require.Equal(t, 1, l.packets())
		l.mustAck(1, 1)
	}
}

// TestProbesPassTheRate: a probe repeats bulk even if the owner holds it back.
func TestProbesPassTheRate(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	bulk := l.sendBulk(1000)
	require.Equal(t, 1, l.packets())
	l.Hold(true, true)
	at, _ := l.NextTimeout()
	l.wait(at.Sub(l.at))
	b, _, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	require.Equal(t, []string{fmt.Sprintf("%d/0", bulk)}, bunchesOf(t, b))
}

// TestManyChannelsOpenAtOnce opens 4,000 channels, as a server that spawns as many actors in
// one tick, at 30% loss. Entries whose open was lost have to wait for it, but never exceed the
// limit, which the owner raises as it ticks.
func TestManyChannelsOpenAtOnce(t *testing.T) {
	p := newPair(t, Config{})
	p.drop = func(int, []byte) bool { return p.rand.IntN(10) < 3 }
	const actors = 4000
	p.large = true
	for i := range actors {
		ch := p.open(1, Normal)
		p.send(1, ch, Reliable, pattern(30, i))
		p.send(1, ch, Reliable, pattern(1200, i))
		p.send(1, ch, Unreliable, pattern(100, i))
	}
	opened, long := 0, 0
	for end := p.now.Add(2 * time.Minute); long < actors && p.now.Before(end); {
		for tick := p.now.Add(33 * ms); p.step(tick); {
		}
		if c := p.ends[0]; c.ReceiveLimited() {
			c.SetReceiveLimit(min(4<<20, 2*int(c.flow.capacity)))
		}
		for _, m := range p.take(0) {
			switch {
			case m.Open:
				opened++
			case m.Delivery == Reliable:
				require.Len(t, m.Payload, 1200)
				long++
			}
		}
	}
	t.Logf("after %v", p.now.Sub(epoch))
	checkConn(t, p.ends[0])
	require.Equal(t, actors, opened)
	require.Equal(t, actors, long)
	p.drop = nil
	p.run(time10)
	p.settled()
}

// TestLeastRoundTripIsBelowTheMean: while the minimum is new and has few samples, which include
// an ack delay, Stats doesn't report more than the mean.
func TestLeastRoundTripIsBelowTheMean(t *testing.T) {
	c, err := NewConn(epoch, Config{})
	require.NoError(t, err)
	c.congestion.Update(0, 120*ms, 0)
	c.congestion.Update(11*time.Second, 160*ms, 40*ms)
	require.Equal(t, 160*ms, c.congestion.Min)
	s := c.Stats()
	require.Equal(t, 125*ms, s.SmoothedRTT)
	require.Equal(t, 125*ms, s.MinRTT)
	require.Equal(t, 160*ms, s.LatestRTT)
}

// TestLossesEndAtTheFirstThatIsNotLost: a packet that was sent after one that isn't lost yet
// isn't lost either, so an ack mustn't examine all packets in flight. That would take 137 µs
// for 4,000 packets and an ack of ten bytes.
func TestLossesEndAtTheFirstThatIsNotLost(t *testing.T) {
	l := newLossTest(t, Config{})
	for range 8 {
		l.sendPackets(1)
		l.wait(ms)
	}
	first, _ := l.sent.firstInFlight()
	l.congestion.Assume(100*ms, 0)
	l.loss.Spurious(0, ms)
	l.loss.Largest = first + 8
	l.sent.At(first + 6).at = -time.Hour // which does not happen: who looks at it finds it lost
	l.detectLosses(l.at.Sub(l.start))
	require.Zero(t, l.Stats().PacketsLost)
	l.sent.At(first).at = -time.Hour
	l.detectLosses(l.at.Sub(l.start))
	require.EqualValues(t, 1, l.Stats().PacketsLost)
}

// TestAcksAgainLookAtNothing: an ack that repeats earlier acks mustn't examine the records of
// all packets that it covers. That would take 15 µs for 2,000 packets and an ack of 15 bytes,
// and a peer can make us keep as many records by not acknowledging an old packet.
func TestAcksAgainLookAtNothing(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(40)
	for n := uint32(1); n < 20; n++ {
		l.mustAck(n, n)
	}
	l.mustAck(1, 39)
	require.Zero(t, l.sent.Oldest, "it is lost, and may still be acknowledged")
	for n := uint64(1); n < 39; n++ {
		l.sent.At(n).fate = skipped // which does not happen: who looks at it finds a peer that invents acks
	}
	require.NoError(t, l.ack(1, 39))
	require.NoError(t, l.ack(5, 39))
	l.sent.At(38).fate = acked
	require.NoError(t, l.ack(2, 38))
	require.Equal(t, AckSequenceMismatch, l.ack(0, 37).(*Error).Code)
}

// TestOldLossesShowNoHole: large packets that were sent before a black hole was found are
// declared lost one after another. They mustn't count afterwards, or the first large packet
// that is sent again and lost by chance would show the hole again.
func TestOldLossesShowNoHole(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	next := uint32(1)
	leave := func(size int) uint32 {
		b, n, ok := l.AppendPacket(l.at, nil, size)
		require.True(t, ok)
		require.Equal(t, size > minDatagram, len(b) > minDatagram)
		require.Equal(t, next, uint32(n))
		next++
		return uint32(n)
	}
	large := func() {
		for _, size := range []int{700, 600} {
			require.NoError(t, l.Send(l.channel, Reliable, pattern(size, 0)))
		}
		leave(1404)
	}
	for range 5 {
		large()
	}
	require.NoError(t, l.Send(l.channel, Reliable, pattern(5000, 0)))
	small := leave(minDatagram)
	for range 3 {
		leave(minDatagram)
	}
	l.wait(50 * ms)
	l.mustAck(small, small)
	require.True(t, l.BlackHole())
	l.mustAck(small+1, small+1)
	require.False(t, l.BlackHole())
	l.mustAck(small+2, small+2)
	require.Equal(t, lost, l.fate(uint64(small-1)))
	require.False(t, l.BlackHole())

	for n, holes := range []bool{false, false, true} {
		large()
		for range 4 {
			require.NoError(t, l.Send(l.channel, Reliable, pattern(1000, 0)))
			small = leave(minDatagram)
		}
		l.wait(time.Second)
		l.mustAck(small, small)
		require.Equal(t, holes, l.BlackHole(), "loss %d after the hole was known", n)
	}
}

// TestAcksOfWhatIsForgotten: an ack may repeat packets whose records were dropped, even if no
// records are left.
func TestAcksOfWhatIsForgotten(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.wait(2 * trimAfter)
	require.Zero(t, l.sent.Cap())
	l.mustAck(0, 0)
}

// TestAckDelayIsBelieved: the peer's ack delay counts up to the agreed maximum. More could hide
// that the round trip has become longer.
func TestAckDelayIsBelieved(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{16 * ms: 134 * ms, 100 * ms: 110 * ms} {
		l := newLossTest(t, Config{})
		l.roundTrip()
		l.sendPackets(1)
		l.wait(150 * ms)
		h := packetHeader{flags: flagAcks, number: l.acks, largest: 1, nruns: 1, delay: uint16(delay / (ackDelayUnit * time.Microsecond))}
		h.runs[0] = 1
		require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &h)))
		require.InDelta(t, (7*50*ms+want)/8, l.congestion.Smoothed, float64(ms))
	}
}

// TestLostLimitIsToldAgain: a lost limit is sent again, unless a newer one was sent in the
// meantime.
func TestLostLimitIsToldAgain(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	for n := range uint64(2) {
		l.SetReceiveLimit(1 << (20 + n))
		require.Equal(t, 1, l.packets())
		require.True(t, l.sent.At(1+n).limit)
	}
	l.sendPackets(3)
	l.wait(50 * ms)
	l.mustAck(4, 4)
	require.Equal(t, lost, l.fate(1))
	require.False(t, l.flow.updateDue)
	l.mustAck(5, 5)
	require.Equal(t, lost, l.fate(2))
	require.True(t, l.flow.updateDue)
}

// TestSparseAcksCauseFewResends: a peer that acknowledges one packet in 64, as if the path lost
// the others, could make us send each message 64 times if retransmissions weren't limited.
func TestSparseAcksCauseFewResends(t *testing.T) {
	l := newLossTest(t, Config{})
	channels := []uint64{l.channel}
	for range 15 {
		channel, err := l.Open(Normal)
		require.NoError(t, err)
		channels = append(channels, channel)
	}
	messages := 0
	for l.Send(channels[messages%len(channels)], Reliable, pattern(200, 0)) == nil {
		if messages++; messages%len(channels) > 0 {
			continue
		}
		for range 4 {
			l.packets()
			l.wait(50 * ms)
			if n := (l.sent.Next - 1) / 64 * 64; l.sent.Has(n) && l.fate(n) != skipped {
				require.NoError(t, l.ack(uint32(n), uint32(n)))
			}
		}
	}
	require.Greater(t, messages, 200*len(channels), "it ends as every peer that does not keep up")
	sent, fair := int(l.Stats().PayloadSent), 220*messages
	require.Less(t, sent, fair+fair/5+maxResendDebt)
}

// TestLossyPathsMayResend: even if half of all packets are lost in both directions, or four of
// five in one, all messages arrive and the limit on retransmissions never matters, not even for
// calls that consist mostly of headers.
func TestLossyPathsMayResend(t *testing.T) {
	random := testkit.Rand(t)
	for _, row := range []struct {
		lost    [2]float64 // of what each end sends
		payload int
	}{{[2]float64{0.5, 0.5}, 500}, {[2]float64{0.8, 0}, 500}, {[2]float64{0.8, 0}, 4}} {
		p := newPair(t, Config{})
		channel := p.opened(Normal)
		p.drop = func(from int, _ []byte) bool { return random.Float64() < row.lost[from] }
		sent, received := 0, 0
		for range 3000 {
			if out, size := p.ends[0].Reliable(channel); out < size-10 {
				require.NoError(t, p.ends[0].Send(channel, Reliable, pattern(row.payload, sent)))
				sent++
			}
			p.run(10 * ms)
			received += len(p.take(1))
			require.False(t, p.ends[0].resends.exceeded)
		}
		require.Greater(t, sent, 1000, row)
		p.drop = nil
		for range 10 {
			p.run(time.Second)
			received += len(p.take(1))
		}
		require.Equal(t, sent, received)
		p.settled()
	}
}

// TestDebtLeavesAPacketInAProbeTimeout: lost play is eventually sent again, even if the peer
// has acknowledged hardly anything and nothing else is sent.
func TestDebtLeavesAPacketInAProbeTimeout(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(5)
	l.resends.add(l.now, maxResendDebt)
	l.wait(50 * ms)
	for n := uint64(1); n <= 5; n++ {
		l.losePacket(l.now, n, l.sent.At(n))
	}
	require.Zero(t, l.packets())
	at, ok := l.NextTimeout()
	require.True(t, ok)
	require.LessOrEqual(t, at.Sub(l.at), l.pto())
	l.wait(at.Sub(l.at))
	require.Equal(t, 1, l.packets())
	require.True(t, l.resends.exceeded)
	n := uint32(l.sent.Next - 1)
	for range 100 {
		l.mustAck(n, n)
		l.wait(l.pto())
		if l.packets(); l.sent.packetsInFlight == 0 {
			break
		}
		n = uint32(l.sent.Next - 1)
	}
	out, _ := l.Reliable(l.channel)
	require.Zero(t, out)
}
