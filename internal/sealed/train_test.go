package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// TestStartAfterATrainKeepsTheQueueShort transfers over narrow and short paths, whose rate the
// train has shown. To double that rate would fill queues of up to 90 ms there and save no time.
func TestStartAfterATrainKeepsTheQueueShort(t *testing.T) {
	for _, path := range []struct {
		rate int64
		rtt  time.Duration
		most time.Duration // longest queue
	}{
		{2e6, 50 * ms, 45 * ms}, {5e6, 40 * ms, 35 * ms}, {10e6, 20 * ms, 25 * ms}, {10e6, 30 * ms, 25 * ms}, {50e6, 4 * ms, 6 * ms},
	} {
		const size, packets = 1136, 900
		link := netsim.Config{Delay: path.rtt / 2, Rate: path.rate, Queue: 256 << 10}
		a, b := newPieces(size, packets, 0), newPieces(size, 0, packets)
		a.hold = true
		pair, client, _ := connect(t, a, b, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
		require.NoError(t, pair.RunFor(3*time.Second))
		a.hold = false
		client.Wake()
		longest := time.Duration(0)
		require.NoError(t, pair.Run(time.Minute, func() bool {
			latest, _, _ := client.Controller().RTT()
			longest = max(longest, latest)
			return a.delivered()
		}))
		require.Less(t, longest-path.rtt, path.most, "%d bit/s, %v", path.rate, path.rtt)
		require.Zero(t, client.Stats().Lost)
	}
}

// TestTrainThatCameWhole: only a train without a loss shows how many packets may be sent together.
func TestTrainThatCameWhole(t *testing.T) {
	for _, lost := range []int{0, 1} {
		tr := train{inFlight: trainPackets, started: true}
		for i := range trainPackets {
			_, ok := tr.takeResult()
			require.False(t, ok, "after %d", i)
			if i < lost {
				tr.lost()
				continue
			}
			tr.acked(&record{size: 1200}, uint64(i), time.Second+time.Duration((i*7)%trainPackets)*time.Microsecond, 0) // in any order
		}
		shown, ok := tr.takeResult()
		require.True(t, ok)
		require.Equal(t, lost == 0, shown.Whole)
		if shown.Whole {
			require.Equal(t, (trainPackets-1)*time.Microsecond, shown.Span)
		}
		_, ok = tr.takeResult()
		require.False(t, ok, "it is told once")
	}
}

// TestTrainOfWhichHalfIsLate: packets that counted as lost and arrive show that
// the path has carried them, too, and the train's result is reported again.
func TestTrainOfWhichHalfIsLate(t *testing.T) {
	tr, r := train{inFlight: trainPackets, started: true}, &record{size: 1200}
	_, ok := tr.addLate(r, 0)
	require.False(t, ok, "nothing was shown yet")
	for i := range trainPackets {
		if i%2 == 0 {
			tr.acked(r, uint64(i), time.Second+time.Duration(i)*time.Millisecond, 0)
		} else {
			tr.lost()
		}
	}
	shown, ok := tr.takeResult()
	require.True(t, ok)
	require.Equal(t, (trainPackets/2-1)*1200, shown.Bytes)
	for range trainPackets / 2 {
		shown, ok = tr.addLate(r, 0)
		require.True(t, ok)
	}
	require.Equal(t, (trainPackets-1)*1200, shown.Bytes)
	require.Equal(t, (trainPackets-2)*time.Millisecond, shown.Span, "of those that came in time")
}

// onTheWay has a open with a train, and returns its packets, none of which has arrived.
func onTheWay(t *testing.T) (s *step, train [][]byte) {
	s = newStep(t, 0, func(c *SessionConfig) { c.NoTrain = false })
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	packets := s.build(s.a)
	train = packets[len(packets)-trainPackets:]
	s.deliver(s.b, packets[:len(packets)-trainPackets]...)
	return s, train
}

// arrive has packets of a arrive a millisecond apart, and b's answers at once.
func (s *step) arrive(packets ...[]byte) {
	for _, p := range packets {
		s.now = s.now.Add(ms)
		s.deliver(s.b, p)
		s.deliver(s.a, s.build(s.b)...)
	}
}

// TestTrainOfAnotherPath: what a train has shown of a path does not count for
// another one, even if it arrives late, and a train in flight is sent again.
func TestTrainOfAnotherPath(t *testing.T) {
	s, train := onTheWay(t)
	s.a.Moved(s.now)
	s.arrive(train...)
	require.Equal(t, Open, s.a.State())
	require.Zero(t, s.a.control.Estimate())
	require.Equal(t, trainPackets, s.a.train.unsent)

	s, train = onTheWay(t)
	var late [][]byte
	for i, p := range train {
		if i%2 == 0 {
			late = append(late, p)
			continue
		}
		s.arrive(p)
	}
	for range 4 {
		s.exchange(10 * ms)
	}
	require.NotZero(t, s.a.control.Estimate(), "half of it was enough")
	s.a.Moved(s.now)
	require.Zero(t, s.a.control.Estimate())
	s.arrive(late...)
	require.NotZero(t, s.a.Stats().Spurious)
	require.Zero(t, s.a.control.Estimate())
}

// TestTrainThatWasRepeated: late packets of the first train do not count for the second.
func TestTrainThatWasRepeated(t *testing.T) {
	tr, r := train{inFlight: trainPackets, started: true}, &record{size: 1200}
	for range trainPackets {
		tr.lost()
	}
	tr.repeat(100)
	require.Equal(t, trainPackets, tr.unsent)
	tr.unsent, tr.inFlight = 0, trainPackets
	for i := range uint64(trainPackets) {
		tr.acked(r, 100+i, time.Second+time.Duration(i)*time.Millisecond, 0)
	}
	shown, ok := tr.takeResult()
	require.True(t, ok)
	require.Equal(t, (trainPackets-1)*1200, shown.Bytes)
	_, ok = tr.addLate(r, 99)
	require.False(t, ok)
}

// TestTrainInterruptedByAMove: a train of which a part was sent when the path
// changes begins again, however little of it was left to send.
func TestTrainInterruptedByAMove(t *testing.T) {
	for left := 1; left < trainPackets; left++ {
		tr := train{unsent: left, inFlight: trainPackets - left, started: true}
		tr.moved(uint64(tr.inFlight))
		require.Equal(t, trainPackets, tr.unsent)
		for n := range uint64(tr.inFlight) { // over the path before
			tr.acked(&record{size: 1200}, n, time.Second, 0)
		}
		first := tr.first
		tr.inFlight, tr.unsent = tr.unsent, 0
		for n := range uint64(trainPackets) {
			tr.acked(&record{size: 1200}, first+n, time.Second+time.Duration(n)*time.Millisecond, 0)
		}
		shown, ok := tr.takeResult()
		require.True(t, ok)
		require.True(t, shown.Whole)
	}
}

// TestThinTrain: on a path that may be slow a train is of small packets, and so
// are pings while the carrier opens. A full one follows where the path is fast
// or its jitter hides how fast it is, and payloads do not wait for that.
func TestThinTrain(t *testing.T) {
	for _, c := range []struct {
		rate   int64
		jitter time.Duration
		full   int // packets above SafePacket's size that leave before there is bulk
	}{{64e3, 0, 0}, {256e3, 0, 0}, {2e6, 0, 0}, {100e6, 0, trainPackets}, {100e6, 10 * ms, trainPackets}} {
		configure := func(config *SessionConfig) { config.RTT = nearRTT + ms }
		a, b := newPieces(1000, 40, 0), newPieces(1000, 0, 40)
		a.hold = true
		client, server := ends(t, a, b, configure)
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		full, small := 0, 0
		path := netsim.Config{Delay: 25 * ms, Rate: c.rate, Jitter: c.jitter, Seed: 1} // a few seeds in a thousand spread all packets evenly, or gather them
		there := path
		there.Lose = func(_ uint64, p []byte) bool {
			if len(p) > thinPacket {
				full++
			} else {
				small++
			}
			return false
		}
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: there, BtoA: path, Max: SafePacket})
		require.NoError(t, pair.RunFor(3*time.Second))
		require.Equal(t, Open, client.State())
		require.Equal(t, c.full, full, "%d bit/s, jitter %v", c.rate, c.jitter)
		require.Greater(t, small, trainPackets)
		if c.jitter == 0 {
			require.InEpsilon(t, float64(c.rate)/8, client.Controller().Estimate(), 0.1)
		}
		a.hold = false
		client.Wake()
		require.NoError(t, pair.Run(time.Minute, a.delivered))
	}
}

// TestFullTrainBehindAThinOne: payloads wait for it only if the thin one
// arrived too fast to show a rate, or the path has changed.
func TestFullTrainBehindAThinOne(t *testing.T) {
	thin := func(gap time.Duration) *train {
		tr := &train{inFlight: trainPackets, started: true, thin: true}
		for n := range uint64(trainPackets) {
			tr.acked(&record{size: 128}, n, time.Second+time.Duration(n)*gap, 50*ms)
		}
		shown, ok := tr.takeResult()
		require.True(t, ok)
		require.False(t, shown.Whole)
		require.Zero(t, shown.Trip)
		tr.followUp(20)
		return tr
	}
	slow := thin(ms)
	require.Zero(t, slow.unsent)
	_, ok := slow.addLate(&record{size: 128}, 3)
	require.True(t, ok)

	fast := thin(20 * time.Microsecond)
	require.Equal(t, trainPackets, fast.unsent)
	require.True(t, fast.running())
	require.False(t, fast.holdsPayloads())
	require.False(t, fast.thin)
	_, ok = fast.addLate(&record{size: 128}, 3)
	require.False(t, ok, "that was of the thin one")
	fast.moved(30)
	require.True(t, fast.holdsPayloads())

	require.True(t, thin(time.Microsecond).holdsPayloads())
}

// TestLossOfATrainIsMeasured loses two packets of a train. The first transfer then knows that the
// path loses packets, and repairs its end accordingly.
func TestLossOfATrainIsMeasured(t *testing.T) {
	s := newStep(t, 10, func(c *SessionConfig) { c.NoTrain = false })
	s.up.hold = true
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	sent := 0
	for range 40 {
		a, b := s.build(s.a), s.build(s.b)
		s.now = s.now.Add(10 * ms)
		s.deliver(s.a, b...)
		for _, p := range a {
			if len(p) == SafePacket {
				if sent++; sent%8 == 4 {
					continue
				}
			}
			s.deliver(s.b, p)
		}
	}
	require.GreaterOrEqual(t, sent, trainPackets)
	require.GreaterOrEqual(t, s.a.Controller().LossOf(), trainPackets)
	require.InDelta(t, 2./trainPackets, s.a.Controller().Loss(), 0.05)
}

// TestOvertakenPacketsOfATrainAreNotLost acks half of a train without arrival times, as a peer does
// for packets that others have overtaken. Only the packet that never arrived is lost.
func TestOvertakenPacketsOfATrainAreNotLost(t *testing.T) {
	tr := train{inFlight: trainPackets, started: true}
	for i := range trainPackets - 1 {
		at := time.Duration(0)
		if i%2 == 0 {
			at = time.Second + time.Duration(i)*time.Microsecond
		}
		tr.acked(&record{size: 1200}, uint64(i), at, 0)
	}
	tr.lost()
	_, ok := tr.takeResult()
	require.True(t, ok)
	require.Equal(t, trainPackets-1, tr.delivered)
}
