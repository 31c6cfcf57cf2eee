package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sharer plays rounds of 100 packets to a controller that shares a path; lost
// returns how many of them are lost, by the window in packets.
type sharer struct {
	*Controller
	t    instant
	lost func(window float64) int
}

func newSharer(lost func(window float64) int) *sharer {
	s := &sharer{Controller: New(Config{Packet: 1000}), t: time.Second, lost: lost}
	s.fastest = 1e9 // so the window never has the whole path
	s.delay.trip(s.t, 50*ms)
	s.rates.set(0, 2e6) // 100 packets a round trip
	s.enterSharing(s.t)
	return s
}

func (s *sharer) packets() float64 { return s.competition.window / 1000 }

// rounds plays rounds until the time or until the controller leaves Compete.
func (s *sharer) rounds(d time.Duration) {
	for end := s.t + d; s.t < end && s.state == Compete; s.t += 50 * ms {
		lost := s.lost(s.packets())
		s.competition.sharing.stretch.fates.lost += lost
		s.competition.sharing.stretch.fates.acked += 100 - lost
		s.competition.sharing.stretch.roundOver(s.round.number)
		s.round.number++
		s.stepShare(s.t, batch{}, true)
	}
}

func TestMoreLossThanUsual(t *testing.T) {
	s := sharing{usual: tally{lost: 4, acked: 396}}
	require.False(t, s.exceeds(tally{lost: 4, acked: 76}))
	require.True(t, s.exceeds(tally{lost: 5, acked: 75}))
	s.usual = tally{acked: 100}
	require.False(t, s.exceeds(tally{lost: 4, acked: 96}), "it is not known that so little is lost")
	s.usual = tally{lost: 40, acked: 3960}
	require.True(t, s.exceeds(tally{lost: 65, acked: 2935}))
}

// If as much is lost whatever the window is, nobody else needs the path: two
// surges show that, and the controller continues with the rate of the goal.
func TestSurgesShowRandomLosses(t *testing.T) {
	s := newSharer(func(float64) int { return 2 })
	s.competition.window = 8e3
	s.rounds(20 * time.Second)
	require.Equal(t, Cruise, s.state)
	require.Less(t, s.t, 15*time.Second)
	require.InDelta(t, wholePath*2e6, s.Estimate(), 1e5)
}

// If no surge has failed, nobody else seems to need the path, so nothing counts as proved for some
// time. Beside others, two surges in a row may show by chance that losses are random.
func TestSurgesShowThatWeAreAlone(t *testing.T) {
	for _, failed := range []bool{false, true} {
		s := newSharer(func(float64) int { return 2 })
		s.competition.window = 8e3
		s.competition.sharing.failed = failed
		s.rounds(20 * time.Second)
		require.Equal(t, Cruise, s.state)
		require.Equal(t, !failed, s.blame.next > s.t+5*time.Second)
	}
}

// If more is lost when the window grows, others need the path.
func TestSurgeThatFails(t *testing.T) {
	s := newSharer(func(window float64) int { return 1 + max(0, int(window)-60) })
	s.competition.window = 30e3
	s.rounds(60 * time.Second)
	require.Equal(t, Compete, s.state)
	require.Equal(t, maxRest, s.competition.sharing.rest)
	require.Zero(t, s.competition.sharing.proofs)
	require.True(t, s.competition.sharing.failed)
}

// If others leave the path just as a surge begins, its losses may seem random.
// The next one is judged by what is lost now.
func TestSurgeThatShowsRandomLossesByChance(t *testing.T) {
	s := newSharer(func(float64) int { return 3 })
	s.competition.window = 20e3
	for s.competition.sharing.proofs == 0 {
		s.rounds(50 * ms)
	}
	require.Equal(t, s.competition.sharing.base, s.competition.window)
	s.lost = func(window float64) int { return int(window) / 30 }
	s.rounds(60 * time.Second)
	require.Equal(t, Compete, s.state)
	require.Zero(t, s.competition.sharing.proofs)
}

// A path that loses nothing has room: surge by surge the window grows to what it holds.
func TestSurgesTakeWhatIsFree(t *testing.T) {
	s := newSharer(func(window float64) int { return max(0, int(window)-800) })
	s.rounds(60 * time.Second)
	require.Equal(t, Compete, s.state)
	require.Greater(t, s.packets(), 400.)
}

// If others leave little of a path, a few packets in a row are all lost now and
// then. Then it is shared as before.
func TestSharingOutlastsSilence(t *testing.T) {
	s := newSharer(func(float64) int { return 0 })
	first, window := s.competition.sharing.first, s.competition.window
	s.fastest = 4e6
	s.enter(Dark, s.t)
	s.wake(s.t+time.Second, Sample{})
	require.Equal(t, Compete, s.state)
	require.True(t, s.competition.sharing.on)
	require.Equal(t, first, s.competition.sharing.first)
	require.InDelta(t, sharingMultiplicative*window, s.competition.window, 1)

	s.enter(Cruise, s.t)
	s.enter(Dark, s.t)
	s.wake(s.t+time.Second, Sample{})
	require.NotEqual(t, Compete, s.state)
}

// A controller with little to send does not use surges to find what a path has:
// the window would grow without limit.
func TestNoSurgeWithoutData(t *testing.T) {
	s := newSharer(func(float64) int { return 0 })
	s.delivery.limited = 1
	window := s.packets()
	s.rounds(60 * time.Second)
	require.Less(t, s.packets(), window+0.6*60*20)

	s = newSharer(func(float64) int { return 0 })
	for !s.competition.sharing.surging {
		s.rounds(50 * ms)
	}
	s.delivery.limited = 1
	s.rounds(50 * ms)
	require.False(t, s.competition.sharing.surging)
	require.Equal(t, s.competition.sharing.base, s.competition.window)
}

// A quarter of the packets is lost, over no queue: the path drops instead of
// queueing, until a queue is seen.
func TestDelugeBeginsSharing(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(time.Second, 50*ms)
	c.rates.set(0, 2e6)
	c.round.fates = tally{lost: 30, acked: 70}
	require.True(t, c.dropsInsteadOfQueueing())
	c.congestion.deepest.note(time.Second, 20*ms)
	require.False(t, c.dropsInsteadOfQueueing(), "a queue was seen")
	c.congestion.deepest.note(20*time.Second, 0)
	require.True(t, c.dropsInsteadOfQueueing())
	c.round.fates = tally{lost: 20, acked: 80}
	require.False(t, c.dropsInsteadOfQueueing(), "weather")
	c.round.fates = tally{lost: 5, acked: 5}
	require.False(t, c.dropsInsteadOfQueueing(), "too few to tell")

	c.enter(Cruise, time.Second)
	c.compete(time.Second)
	c.beginSharing(time.Second)
	c.competition.sharing.byFlood = true
	c.queue = c.delay.target() + 1
	c.stepCompete(2*time.Second, batch{}, false)
	require.Equal(t, Compete, c.state)
	require.False(t, c.competition.sharing.on)
}

// The fates of packets sent with the previous window become known for some more rounds, and don't
// count.
func TestStretchCountsWhatWasSentInIt(t *testing.T) {
	var s sharing
	round := int64(0)
	rounds := func(n, lost int) {
		for range n {
			s.stretch.fates.add(tally{lost: lost, acked: 100 - lost})
			s.stretch.roundOver(round)
			round++
		}
	}
	rounds(10, 1)
	s.usual = tally{lost: 1, acked: 99}
	s.stretch.begin(1, round)
	rounds(decidedRounds, 1)
	require.Zero(t, s.stretch.now())
	rounds(17, 0)
	require.Equal(t, tally{acked: 1600}, s.stretch.now(), "the round in which the first are decided counts for neither")
	require.InDelta(t, 16, s.expected(), 0.1)
}

// A window that has grown to the whole path again shows that nobody else needs it.
func TestSharingAlone(t *testing.T) {
	s := newSharer(func(float64) int { return 0 })
	s.fastest = 2e6
	s.competition.sharing.wasCut = false
	s.competition.window = 100e3
	s.cutWindow(s.t)
	require.EqualValues(t, sharingMultiplicative*100e3, s.competition.window, "the first cut")
	s.competition.window = 100e3
	s.cutWindow(s.t)
	require.EqualValues(t, aloneMultiplicative*100e3, s.competition.window)
	require.False(t, s.sharesWithNobody())
	s.competition.window = 100e3
	require.True(t, s.sharesWithNobody())
	require.NotZero(t, s.competition.seen)
	s.stepShare(s.t+3*time.Second, batch{}, true)
	require.Equal(t, Cruise, s.state)
	require.Zero(t, s.competition.seen, "there was nobody")
	require.EqualValues(t, s.t+9*time.Second, s.blame.next, "twice as long as it took")
	s.enterSharing(s.t + 20*time.Second)
	s.stopSharing(s.t+23*time.Second, true)
	require.EqualValues(t, s.t+35*time.Second, s.blame.next)

	s = newSharer(func(float64) int { return 0 })
	s.fastest = 4e6
	s.competition.window = aloneMultiplicative * 100e3
	s.cutWindow(s.t)
	require.EqualValues(t, sharingMultiplicative*aloneMultiplicative*100e3, s.competition.window)
}
