package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clocked feeds a peerClock of a path of 20 ms there and 30 ms back, with a packet each 10 ms.
type clocked struct {
	peerClock
	now         instant
	speed       float64       // of the peer's clock
	told        float64       // what that shows, in nanoseconds
	there, back time.Duration // queues
}

func (c *clocked) run(seconds float64, each func(at float64)) {
	for i := range int(seconds * 100) {
		each(float64(i) / 100)
		c.now += 10 * ms
		c.told += c.speed * 10e6
		arrived := time.Unix(1000, int64(c.told)+int64(float64(20*ms+c.there)*c.speed))
		c.arrival(c.now+50*ms+c.there+c.back, c.now, arrived)
	}
}

// skew returns by how much the corrected clock goes wrong in a second.
func (c *clocked) skew() time.Duration {
	a := c.corrected(instant(c.told))
	return c.corrected(instant(c.told+c.speed*1e9)) - a - time.Second
}

func TestPeerClock(t *testing.T) {
	calm := func(float64) {}
	for _, speed := range []float64{0.1, 0.5, 0.9, 0.99, 0.999, 1, 1.001, 1.01, 1.1, 2} {
		c := clocked{speed: speed}
		c.run(12, calm)
		require.Less(t, c.skew().Abs(), 2*time.Millisecond, "speed %v", speed)
		c.speed = 1
		c.run(12, calm)
		require.Less(t, c.skew().Abs(), 2*time.Millisecond, "speed %v, and then right", speed)
	}
	c := clocked{speed: 0.9998}
	c.run(100, calm)
	require.NotZero(t, c.peerClock.speed, "a bad crystal, after a minute and a half")
	require.Less(t, c.skew().Abs(), 100*time.Microsecond)
}

// TestSpeedIsRightAtOnce: what is seen twice is corrected completely. The speed
// of a clock that runs twice as fast was set to a sixteenth, and that hid half
// a second of queue for about ten seconds.
func TestSpeedIsRightAtOnce(t *testing.T) {
	for _, speed := range []float64{0.2, 0.5, 0.9, 1.1, 1.5, 2, 8} {
		c := clocked{speed: speed}
		c.run(3, func(float64) {})
		require.Less(t, c.skew().Abs(), 10*time.Millisecond, "speed %v", speed)
	}
}

// TestQueuesAreNoClock: a queue on one of the ways, or on both, that grows or
// drains, does not change a clock.
func TestQueuesAreNoClock(t *testing.T) {
	ramp := func(at float64, most time.Duration) time.Duration { return time.Duration(at / 5 * float64(most)) }
	c := clocked{speed: 1}
	c.run(5, func(at float64) { c.back = ramp(at, 400*ms) })
	c.run(5, func(at float64) { c.there = ramp(at, 300*ms) })
	c.run(5, func(at float64) { c.back = 400*ms - ramp(at, 400*ms) })
	c.run(5, func(at float64) { c.there = 300*ms - ramp(at, 300*ms) })
	c.run(5, func(at float64) { c.back, c.there = ramp(at, 100*ms), ramp(at, 200*ms) })
	require.Zero(t, c.peerClock.speed)
}

// TestClockIsNotCorrectedForEver: a queue that drains on one way while one
// builds up on the other makes a clock wrong, and it is soon right again.
func TestClockIsNotCorrectedForEver(t *testing.T) {
	c := clocked{speed: 1, there: 100 * ms}
	c.run(2, func(float64) {})
	c.run(3, func(float64) { c.there, c.back = 0, 100*ms })
	require.NotZero(t, c.peerClock.speed)
	c.run(5, func(float64) {})
	require.Less(t, c.skew().Abs(), time.Millisecond)
}

// TestUploadIsNoClock: twice the way there becomes a little shorter, and the
// second time a long upload begins on the way back. All of its queue was taken
// for the clock's lag, and the clock went wrong by 300 ms a second.
func TestUploadIsNoClock(t *testing.T) {
	c := clocked{speed: 1, there: 30 * ms}
	c.run(2, func(float64) {})
	c.run(1.5, func(float64) { c.there, c.back = 20*ms, 20*ms })
	c.run(0.8, func(float64) { c.there, c.back = 10*ms, 320*ms })
	require.NotZero(t, c.peerClock.speed)
	require.Less(t, c.skew().Abs(), 80*ms)
}

// TestClockThatTellsAnything: no reported time, however far away, causes an overflow.
func TestClockThatTellsAnything(t *testing.T) {
	var p peerClock
	for i := range 10_000 {
		now := instant(i) * 10 * ms
		told := time.Unix(int64(i%7-3)*1e10, int64(i%2)*1e9)
		a, _ := p.arrival(now+50*ms, now, told)
		require.LessOrEqual(t, a.Abs(), furthest)
		require.False(t, p.speed != p.speed || p.speed < 0)
	}
}
