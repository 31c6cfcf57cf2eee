package recovery

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRTT(t *testing.T) {
	var r RTT
	require.Equal(t, initialRTT, r.Current())
	require.Equal(t, 2*initialRTT+40*ms, r.PTO(40*ms))

	t.Log("# RFC 9002, section 5.3: the first sample sets all; the wait comes off only when the minimum allows")
	r.Update(0, 100*ms, 30*ms)
	require.Equal(t, 100*ms, r.Smoothed)
	require.Equal(t, 50*ms, r.Variance)
	require.Equal(t, 100*ms, r.Min)

	r.Update(10*ms, 140*ms, 40*ms)
	require.Equal(t, 140*ms, r.Latest)
	require.Equal(t, 100*ms, r.Adjusted)
	require.Equal(t, 100*ms, r.Smoothed)
	require.Equal(t, 37500*time.Microsecond, r.Variance)

	t.Log("# a wait that would go below the minimum leaves that: by a microsecond, for it is rounded, or by much")
	r.Update(20*ms, 120*ms, 40*ms)
	require.Equal(t, 100*ms, r.Adjusted)
	require.Equal(t, 100*ms, r.Smoothed)

	t.Log("# a lower sample is the new minimum, and its time")
	r.Update(30*ms, 80*ms, 0)
	require.Equal(t, 80*ms, r.Min)
	require.Equal(t, 30*ms, r.minAt)
	require.Equal(t, 80*ms, r.MinEver)

	t.Log("# no sample is zero")
	r = RTT{}
	r.Update(0, 0, 0)
	require.True(t, r.Known())
}

func TestPTOHasAFloor(t *testing.T) {
	r := RTT{Smoothed: 10 * ms, Variance: 100 * time.Microsecond}
	require.Equal(t, 10*ms+2*ms+40*ms, r.PTO(40*ms), "srtt + 2 ms + ack delay")
	r.Variance = 5 * ms
	require.Equal(t, 10*ms+20*ms+40*ms, r.PTO(40*ms), "srtt + 4 var + ack delay")
}

func TestPTOHasACeiling(t *testing.T) {
	r := RTT{Smoothed: 10 * time.Second, Variance: 40 * time.Second}
	require.Equal(t, time.Minute+ms, r.PTO(ms))
	require.Equal(t, time.Minute+ms, r.Backoff(5, ms))
}

func TestBackoff(t *testing.T) {
	r := RTT{Smoothed: 50 * ms, Variance: 5 * ms}
	for timeouts, want := range []time.Duration{110, 220, 440, 880, 1000, 1000} {
		require.Equal(t, want*ms, r.Backoff(timeouts, 40*ms))
	}
	require.Equal(t, time.Second, r.Backoff(math.MaxInt, 40*ms))
	r.Smoothed = 600 * ms
	require.Equal(t, 1800*ms, r.Backoff(5, 40*ms), "3 round trips of a long path")
	r.Variance = time.Second
	require.Equal(t, 4640*ms, r.Backoff(5, 40*ms), "and no less than the first")
	r = RTT{}
	for timeouts, want := range map[int]time.Duration{0: 240, evenProbes: 240, evenProbes + 1: 480} {
		require.Equal(t, want*ms, r.Backoff(timeouts, 40*ms), "while no round trip is known, many Hellos leave in little time")
	}
}

func TestAssume(t *testing.T) {
	var r RTT
	r.Assume(330*time.Millisecond, 20*time.Millisecond)
	require.True(t, r.Known())
	require.Equal(t, 330*time.Millisecond, r.Current())
	require.Equal(t, 410*time.Millisecond, r.PTO(0))
	r.Update(6*time.Second, 310*time.Millisecond, 0)
	require.Equal(t, 310*time.Millisecond, r.Min)
	require.Equal(t, 327500*time.Microsecond, r.Smoothed)
}

func TestMinIsOfNow(t *testing.T) {
	var r RTT
	r.Update(time.Second, 6*time.Millisecond, 0)
	r.Update(11*time.Second, 60*time.Millisecond, 0)
	require.Equal(t, 6*time.Millisecond, r.Min)
	r.Update(22*time.Second, 60*time.Millisecond, 0)
	require.Equal(t, 60*time.Millisecond, r.Min, "nothing was measured in 10 s")
	require.Equal(t, 6*time.Millisecond, r.MinEver)
}

// TestRecent: a batch is full with 8 samples, but not within a round trip.
func TestRecent(t *testing.T) {
	var r RTT
	for i := range time.Duration(recentSamples) {
		require.Zero(t, r.Rounds)
		r.Update(i*20*ms, 100*ms+(i-3).Abs()*ms, 0)
	}
	require.Equal(t, 1, r.Rounds)
	require.Equal(t, 100*ms, r.Recent)
	r.Assume(100*ms, 0)
	for i := range time.Duration(recentSamples) + 12 {
		r.Update(i*5*ms, 100*ms, 0)
		require.Zero(t, r.Rounds, "sample %d", i)
	}
	r.Update(100*ms, 100*ms, 0)
	require.Equal(t, 1, r.Rounds)
}

// TestOutageIsNoRoundTrip: what stood for 20 s on a path and then arrived made
// probes wait for 20 s more.
func TestOutageIsNoRoundTrip(t *testing.T) {
	var r RTT
	now := time.Second
	for range 20 {
		r.Update(now, 50*ms, 0)
		now += 50 * ms
	}
	now += 20 * time.Second
	r.Held(now, 0)
	for wait := 20 * time.Second; wait > 0; wait -= time.Second {
		r.Update(now, wait, 0)
		require.Less(t, r.PTO(0), 600*ms)
	}
	require.Equal(t, time.Second, r.Latest)
	require.Equal(t, 50*ms, r.Min)
	r.Update(now, 120*ms, 0)
	require.Equal(t, 120*ms, r.Adjusted, "what waited for less counts for no more")

	t.Log("# a path that has become so long that each ack comes after probe timeouts is learnt all the same")
	r = RTT{}
	r.Update(now, 6*ms, 0)
	for range 10 {
		now += 600 * ms
		r.Held(now, 0)
		r.Update(now, 600*ms, 0)
	}
	require.Greater(t, r.PTO(0), 600*ms)
}

// TestOutageBeforeTheFirstRoundTrip: an outage of 5 s in the first round trip was taken for that
// round trip, and everything that waits for some of them waited for seconds.
func TestOutageBeforeTheFirstRoundTrip(t *testing.T) {
	var r RTT
	now := 5 * time.Second
	r.Held(now, 0)
	r.Update(now, 5*time.Second, 0)
	r.Update(now, 4*time.Second, 0)
	require.Equal(t, heldTrips*initialRTT, r.Smoothed)
	require.Less(t, r.PTO(0), 1300*ms)

	t.Log("# a packet that was sent after it tells more than those")
	now += 150 * ms
	r.Update(now, 150*ms, 0)
	require.Equal(t, 150*ms, r.Smoothed)
	require.Equal(t, 150*ms, r.Min)
	r.Update(now, 230*ms, 0)
	require.Equal(t, 160*ms, r.Smoothed)

	t.Log("# a path that is so long that each ack comes after probe timeouts is learnt all the same")
	r = RTT{}
	for range 3 {
		now += 3 * time.Second
		r.Held(now, 0)
		r.Update(now, 3*time.Second, 0)
	}
	require.Greater(t, r.PTO(0), 3*time.Second)
}

// TestALongPathLooksLikeAnOutage has a first round trip of 600 ms, which is longer than the time
// after which we assume an outage. It was cut to 400 ms, and the minimum stayed there.
func TestALongPathLooksLikeAnOutage(t *testing.T) {
	var r RTT
	at := 600 * time.Millisecond
	r.Held(at, 0)
	r.Update(at, 600*time.Millisecond, 0)
	r.Update(2*at, 600*time.Millisecond, 0)
	require.Equal(t, 600*time.Millisecond, r.Min)
	require.Equal(t, 600*time.Millisecond, r.MinEver)
	require.Equal(t, 600*time.Millisecond, r.Smoothed)
}
