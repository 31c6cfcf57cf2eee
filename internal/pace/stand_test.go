package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// TestStand checks what is a stand and what a slow path.
func TestStand(t *testing.T) {
	s := stand{threshold: 12 * ms}
	t.Logf("# a packet that is a little late")
	s.note(100*ms, 12*ms)
	require.False(t, s.heldUp(90*ms))

	t.Logf("# one that is much later, and what came behind it")
	s.note(150*ms, 40*ms)
	s.note(151*ms, -ms)
	require.True(t, s.heldUp(149*ms), "was to be there before")
	require.False(t, s.heldUp(150*ms))

	t.Logf("# one after the other: the path is slow")
	s.note(200*ms, 20*ms)
	s.note(230*ms, 20*ms)
	require.True(t, s.heldUp(229*ms))
	s.note(260*ms, 20*ms)
	require.False(t, s.heldUp(199*ms))

	t.Logf("# nobody looks for any")
	s = stand{}
	s.note(300*ms, time.Second)
	require.False(t, s.heldUp(299*ms))
}

// What a stand of the path has held up shows no queue and no rate.
func TestAStandIsNoQueue(t *testing.T) {
	const size = 1000
	c := New(Config{Packet: size})
	at := func(i instant) time.Time { return netsim.Epoch.Add(i) }
	c.rates.set(0, 1e6)
	c.enter(Cruise, 0)
	send := func(from instant) (flight []Sample) {
		for i := range instant(50) {
			flight = append(flight, c.Sent(at(from+i*ms), size, 50*size))
		}
		return flight
	}
	first, second := send(0), send(50*ms)
	for i, s := range first {
		c.Acked(at(instant(50+i)*ms), s, size, at(instant(25+i)*ms))
		c.Feedback(at(instant(50+i)*ms), 50*size)
	}
	rate, recent := c.Estimate(), c.recent
	t.Logf("# the second flight waits for 100 ms and then comes at ten times the rate")
	for i, s := range second {
		now := 200*ms + instant(i)*ms/10
		c.Acked(at(now), s, size, at(now-25*ms))
		c.Feedback(at(now), (49-i)*size)
		require.Zero(t, c.queue)
		require.Equal(t, Cruise, c.State())
	}
	require.GreaterOrEqual(t, c.Estimate(), rate)
	require.Equal(t, recent, c.recent)
	require.Less(t, c.gap, 2*ms, "nor is it how long acks take to come")
}

// A path that stood still for so long that it counted as dark continues at its
// rate once what was in flight arrives; one that was dark at half of it.
func TestAfterADarkStand(t *testing.T) {
	const size = 1000
	for _, stood := range []bool{true, false} {
		c := New(Config{Packet: size})
		at := func(i instant) time.Time { return netsim.Epoch.Add(i) }
		early := c.Sent(at(0), size, 0)
		c.Acked(at(50*ms), early, size, at(25*ms))
		c.Feedback(at(50*ms), 0)
		c.rates.set(0, 1e6)
		c.carried.set(0, 1e6)
		c.enter(Cruise, 50*ms)
		held := c.Sent(at(51*ms), size, size)
		c.Next(at(2*time.Second), size, size)
		require.Equal(t, Dark, c.State())
		probe := c.Sent(at(2*time.Second), size, size)
		if !stood {
			held = probe
		}
		c.Acked(at(3*time.Second), held, size, at(3*time.Second-25*ms))
		c.Feedback(at(3*time.Second), 0)
		if stood {
			require.NotEqual(t, Start, c.State())
			require.EqualValues(t, 1e6, c.Estimate())
		} else {
			require.Equal(t, Start, c.State())
			require.EqualValues(t, 0.5e6, c.Estimate())
		}
	}
}
