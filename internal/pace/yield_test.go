package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tested plays rounds of 100 packets in 50 ms each at one rate, of which so
// many are lost, each independently.
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

func (y *tested) suspected() bool { return y.suspect(y.t, 50*ms/70) }

func TestYieldTestsWhatSeemsRandom(t *testing.T) {
	y := newTested()
	y.rounds(100, 1)
	require.False(t, y.suspected(), "the path is too new")
	y.rounds(40, 1)
	require.True(t, y.suspected())
	require.InDelta(t, 0.01, y.share, 1e-9)

	y = newTested()
	y.rounds(150, 0)
	require.False(t, y.suspected(), "nothing is lost")
	y.rounds(2, 16)
	require.False(t, y.suspected(), "so little is lost that nobody could wait for it")
	require.Zero(t, y.share)
}

// Packets sent at the rate from before are still decided for some rounds.
func TestYieldCountsWhatLeftInIt(t *testing.T) {
	y := newTested()
	y.rounds(140, 1)
	require.True(t, y.suspected())
	y.begin(y.t, y.round)
	y.rounds(decidedRounds, 1)
	require.Zero(t, y.now())
	y.rounds(17, 0)
	require.Equal(t, tally{acked: 1600}, y.now(), "the round in which the first are decided counts for neither")
	require.InDelta(t, 16, y.expected(), 0.1)
}

// A run of lost packets is one loss: on a path that loses a thousandth in runs
// of 20 no Yield would show fewer.
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
	require.True(t, y.suspected())
	y.gone = true
	y.begin(y.t, y.round)
	y.rounds(20, 0)
	back, late := y.back(y.t, 50*ms)
	require.False(t, back)
	require.False(t, late, "a look may make them")
	y.rounds(1, 6)
	back, _ = y.back(y.t, 50*ms)
	require.True(t, back)

	y.begin(y.t, y.round)
	y.rounds(41, 0)
	back, late = y.back(y.t, 50*ms)
	require.False(t, back)
	require.True(t, late)
	y.took = 2 * time.Second
	y.end(y.t, y.round)
	require.False(t, y.gone)
	require.EqualValues(t, y.t+32*time.Second, y.next)
}

// Whatever interrupts a Yield ends the test: otherwise its packets would count
// as packets of the full rate.
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

// If a rate has grown, the losses from before show nothing about it.
func TestYieldWaitsWhereThePathChanges(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.rates.set(0, 1e6)
	require.False(t, c.checkYield(1))
	c.yielding.next, c.yielding.shown, c.yielding.fates = 1, true, tally{lost: 20, acked: 1000}
	require.True(t, c.checkYield(2))
	c.rates.set(0, 2e6)
	require.False(t, c.checkYield(3))
}
