package pace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/testkit"
)

// A liar is a controller whose peer reports times of arrival by a clock that
// runs faster or slower than ours, or stands still.
type liar struct {
	*pace.Controller
	speed float64
}

func (l liar) Acked(now time.Time, s pace.Sample, size int, arrival time.Time) {
	zero := remote(netsim.Epoch)
	l.Controller.Acked(now, s, size, zero.Add(time.Duration(float64(arrival.Sub(zero))*l.speed)))
}

// TestFalseTimes: a peer that reports false times of arrival has its own path filled
// for a moment only. By a clock at a tenth of the speed 60 to 70 % of all packets were
// lost, permanently; by one that stands still 99 % for two seconds, at 1.3 Gbit/s.
func TestFalseTimes(t *testing.T) {
	drawn := testkit.Seed(t)
	for i, speed := range []float64{0, 0.001, 0.1, 0.5, 0.9, 1.1, 2, 1000} {
		for j, rate := range []int64{1e6, 10e6, 50e6} {
			l, seed := link{rate, 50 * ms, 0}, drawn+uint64(3*i+j)
			w := l.world(seed)
			c := l.joined(1 / max(speed, 1e-6))
			b := newBulk(0, endless, liar{c, speed}, netsim.Epoch)
			w.flows = []flow{b}
			w.until(3*time.Second, w.done)
			first := float64(b.bytes*8) / float64(rate) / 3
			sent, received := b.bytes, b.received
			w.until(13*time.Second, w.done)
			lost := 1 - float64(b.received-received)/payload*sealed/float64(b.bytes-sent)
			t.Logf("speed %v, %v bit/s: %.2f times the rate in 3 s, then %.2f lost", speed, rate, first, lost)
			require.Less(t, first, 1.5+3e6/float64(rate), "seed %d", seed)
			require.Less(t, lost, 0.1, "seed %d", seed)
		}
	}
}

// TestClocksThatAreSetRight: a clock that is being corrected is slow or fast by up to a twelfth,
// for minutes. Its transfer has the link, with no more than a short queue, and no more than its
// part beside another. Before such clocks were corrected for, slow ones kept 60 to 160 ms and
// left 0.02 to 0.3 to the other, and fast ones had a quarter of a link that lost a hundredth.
func TestClocksThatAreSetRight(t *testing.T) {
	drawn := testkit.Seed(t)
	for i, speed := range []float64{0.9, 0.95, 0.98, 0.99, 0.998, 1.01, 1.08} {
		seed := drawn + uint64(i)
		for _, loss := range []float64{0, 0.01} {
			l := link{10e6, 50 * ms, loss}
			part, queue := l.alone(liar{l.joined(1), speed}, seed)
			t.Logf("speed %v, %v lost: alone %.2f of the link and %v of queue", speed, loss, part, queue)
			require.Greater(t, part, 0.4, "seed %d", seed)
			require.Less(t, queue, 60*ms, "seed %d", seed)
		}
		l := link{10e6, 50 * ms, 0}
		other := l.beside(speed, seed)
		t.Logf("speed %v: the other's part %.2f", speed, other)
		require.Greater(t, other, 0.1, "seed %d", seed)
	}
}

// jumper is a controller whose peer's clock jumps once, as that of a machine that was suspended.
type jumper struct {
	*pace.Controller
	at, by time.Duration
}

func (j jumper) Acked(now time.Time, s pace.Sample, size int, arrival time.Time) {
	if arrival.After(remote(netsim.Epoch).Add(j.at)) {
		arrival = arrival.Add(j.by)
	}
	j.Controller.Acked(now, s, size, arrival)
}

// TestClocksThatJump: two seconds after a clock has jumped a transfer has the link again, and no
// more than a short queue. A clock that jumped back kept the queue at 20 to 30 ms until a Dip.
func TestClocksThatJump(t *testing.T) {
	seed := testkit.Seed(t)
	for _, by := range []time.Duration{-10 * time.Second, -100 * ms, 20 * ms, time.Second} {
		l := link{10e6, 50 * ms, 0}
		part, queue := l.alone(jumper{l.joined(1), 3 * time.Second, by}, seed)
		t.Logf("%v: %.2f of the link and %v of queue", by, part, queue)
		require.Greater(t, part, 0.8, "seed %d", seed)
		require.Less(t, queue, 25*ms, "seed %d", seed)
	}
}

// TestPathThatChangesAfterAJump: once a clock that jumped ahead has been corrected,
// arrivals count again. For as long as it had jumped, it was not noticed that a path
// became faster (0.18 of it was used), and one that became slower had a full queue.
func TestPathThatChangesAfterAJump(t *testing.T) {
	seed := testkit.Seed(t)
	for _, rates := range [][2]int64{{2e6, 10e6}, {10e6, 2e6}} {
		s := newStage(link{rates[0], 50 * ms, 0}, seed)
		s.bulk.ctl = jumper{s.ctl, 3 * time.Second, time.Minute}
		s.at(6*time.Second, func() { s.there.rate = float64(rates[1]) })
		s.goodput(10 * time.Second)
		q := watchQueue(s.world, 10*ms)
		part := s.goodput(20*time.Second) * 1e6 / float64(rates[1]) / useful
		t.Logf("%v: %.2f of the link and %v of queue", rates, part, q.mean())
		require.Greater(t, part, 0.8, "seed %d", seed)
		require.Less(t, q.mean(), 40*ms, "seed %d", seed)
	}
}

// alone returns what part of the link a transfer has after 5 s, and the mean queue.
func (l link) alone(g governor, seed uint64) (part float64, queue time.Duration) {
	w := l.world(seed)
	a := newBulk(0, endless, g, netsim.Epoch)
	w.flows = []flow{a}
	w.until(5*time.Second, w.done)
	began, n := a.received, 0
	w.each, w.watch = 10*ms, func(time.Duration) { queue, n = queue+w.there.backlog(w.now), n+1 }
	w.until(25*time.Second, w.done)
	return float64(a.received-began) * 8 / 20 / float64(l.rate), queue / time.Duration(n)
}

// beside returns what part of the link another transfer has beside a liar that
// begins a second later.
func (l link) beside(speed float64, seed uint64) float64 {
	w := l.world(seed)
	other := newBulk(0, endless, l.joined(1), netsim.Epoch)
	w.flows = []flow{other, newBulk(1, endless, liar{l.joined(1), speed}, netsim.Epoch.Add(time.Second))}
	w.until(5*time.Second, w.done)
	began := other.received
	w.until(35*time.Second, w.done)
	return float64(other.received-began) * 8 / 30 / float64(l.rate)
}

// TestFirstAckDelayIsNotBelieved: a peer that says with the first ack that it
// was held back for all of the round trip would have a path of no length.
func TestFirstAckDelayIsNotBelieved(t *testing.T) {
	s := newSteps(t)
	flight := s.send(4)
	for _, p := range flight {
		s.pass(40 * ms)
		s.AckDelay(40 * ms)
		s.ack(p, 20*ms)
	}
	_, _, least := s.RTT()
	require.GreaterOrEqual(t, least, 40*ms)
}
