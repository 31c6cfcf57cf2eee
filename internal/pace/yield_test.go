package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tested is a yielding that is fed with rounds of 50 ms and 100 packets, a given number of which
// are lost.
type tested struct {
	yielding
	t     instant
	round int64
}

func newTested() *tested {
	y := &tested{t: 1}
	y.end(y.t, 0)
	return y
}

func (y *tested) rounds(n, lost int) {
	for range n {
		y.fates.lost += lost
		y.fates.acked += 100 - lost
		y.roundOver(y.round)
		y.t, y.round = y.t+50*ms, y.round+1
	}
}

// begins begins a test if there are enough losses, as checkYield does.
func (y *tested) begins() bool {
	if !y.due(y.t, 50*ms/70) {
		return false
	}
	y.share = y.now().share()
	return true
}

func TestYieldTestsWhatSeemsRandom(t *testing.T) {
	y := newTested()
	y.rounds(100, 1)
	require.False(t, y.begins(), "the path is too new")
	y.rounds(40, 1)
	require.True(t, y.begins())
	require.InDelta(t, 0.01, y.share, 1e-9)

	y = newTested()
	y.rounds(150, 0)
	require.False(t, y.begins(), "nothing is lost")
	y.rounds(2, 16)
	require.False(t, y.begins(), "so little is lost that nobody could wait for it")
	require.Zero(t, y.share)
}

// The fates of packets sent at the previous rate become known for some more rounds, and don't
// count.
func TestYieldCountsWhatLeftInIt(t *testing.T) {
	y := newTested()
	y.rounds(140, 1)
	require.True(t, y.begins())
	y.begin(y.t, y.round)
	y.rounds(decidedRounds, 1)
	require.Zero(t, y.now())
	y.rounds(17, 0)
	require.Equal(t, tally{acked: 1600}, y.now(), "the round in which the first are decided counts for neither")
	require.InDelta(t, 16, y.expected(), 0.1)
}

// A run of lost packets counts as one loss. Otherwise no Yield could show that losses stopped on a
// path that loses a thousandth of its packets in runs of 20.
func TestYieldCountsARunOnce(t *testing.T) {
	y := newTested()
	y.lost(false)
	y.lost(true)
	y.lost(true)
	require.Equal(t, 1, y.fates.lost)
}

func TestLossesComeAgainOrNot(t *testing.T) {
	y := newTested()
	y.rounds(140, 1)
	require.True(t, y.begins())
	y.gone = true
	y.begin(y.t, y.round)
	y.rounds(20, 0)
	require.False(t, y.back())
	require.False(t, y.overdue(y.t, 50*ms), "a look may make them")
	y.rounds(1, 6)
	require.True(t, y.back())

	y.begin(y.t, y.round)
	y.rounds(41, 0)
	require.False(t, y.back())
	require.True(t, y.overdue(y.t, 50*ms))
	y.took = 2 * time.Second
	y.end(y.t, y.round)
	require.False(t, y.gone)
	require.EqualValues(t, y.t+32*time.Second, y.next)
}

// Whatever interrupts a Yield ends the test, because otherwise the packets of the Yield would count
// as sent at the full rate.
func TestYieldThatIsInterrupted(t *testing.T) {
	for _, to := range []State{Drain, Dark} {
		y := newTested()
		y.gone = true
		y.stateChanged(Yield, to, y.t, y.round)
		require.False(t, y.gone, to)
	}
	y := newTested()
	y.gone = true
	y.stateChanged(Yield, Cruise, y.t, y.round)
	require.True(t, y.gone)
	require.False(t, y.shown)
}

// Losses from before the rate grew show nothing about the new rate.
func TestYieldWaitsWhereThePathChanges(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.rates.set(0, 1e6)
	require.False(t, c.checkYield(1))
	c.yielding.next, c.yielding.shown, c.yielding.fates = 1, true, tally{lost: 20, acked: 1000}
	require.True(t, c.checkYield(2))
	c.rates.set(0, 2e6)
	require.False(t, c.checkYield(3))
}
