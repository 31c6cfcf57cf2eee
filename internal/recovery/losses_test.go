package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLossesByOrder(t *testing.T) {
	l := Losses{Largest: 10}
	l.Begin(0, 80*ms)
	require.True(t, l.Check(100*ms, 6, 50*ms), "the third after it was acked")
	require.Zero(t, l.Next)
	require.False(t, l.Check(100*ms, 7, 50*ms))
	l.Spurious(0, 0)
	l.Begin(0, 80*ms)
	require.False(t, l.Check(100*ms, 6, 50*ms))
}

func TestLossesOfWhatIsAboveTheLargest(t *testing.T) {
	l := Losses{Largest: 10}
	l.Begin(0, 80*ms)
	require.False(t, l.Check(139*ms, 12, 50*ms))
	require.Equal(t, 140*ms, l.Next)
	require.True(t, l.Check(140*ms, 12, 50*ms))
}

func TestLossesByTime(t *testing.T) {
	l := Losses{Largest: 2}
	for _, extra := range []time.Duration{10, 20, 40, 80, 80} {
		due := 50*ms + 80*ms + extra*ms
		l.Begin(0, 80*ms)
		require.False(t, l.Check(due-1, 0, 50*ms), "%v", extra)
		require.Equal(t, due, l.Next)
		require.False(t, l.Check(50*ms, 1, 49*ms+ms/2))
		require.Equal(t, due-ms/2, l.Next, "the earliest")
		require.True(t, l.Check(due, 0, 50*ms))
		l.Spurious(0, 0)
	}
	l.Begin(0, 100*time.Microsecond)
	require.False(t, l.Check(ms-1, 0, 0))
	require.Equal(t, ms, l.Next)
}

// TestLossesWaitForTheLate: where every other packet is late by a round trip on
// either way, a threshold of two round trips is too little.
func TestLossesWaitForTheLate(t *testing.T) {
	l, s := Losses{Largest: 2}, time.Second
	delay := func(now, rtt time.Duration) time.Duration {
		l.Begin(now, rtt)
		l.Check(now, 0, now)
		return l.Next - now
	}
	l.Spurious(s, 120*ms)
	require.Equal(t, 135*ms, delay(s, 40*ms))
	require.Equal(t, 80*ms, delay(s, 20*ms), "four round trips at most")
	l.Spurious(9*s, 64*ms)
	require.Equal(t, 135*ms, delay(10*s, 40*ms))
	l.Spurious(12*s, 64*ms)
	require.Equal(t, 135*ms, delay(20*s, 40*ms))
	require.Equal(t, 80*ms, delay(40*s, 40*ms), "it is forgotten, but not that packets overtake each other")
}

// TestLongestIsOfLately: a duration counts for lateLife at least, and at most for twice that.
func TestLongestIsOfLately(t *testing.T) {
	var l longest
	l.add(0, 100*ms)
	l.add(lateLife+time.Second, 50*ms)
	require.Equal(t, 100*ms, l.value(2*lateLife))
	require.Equal(t, 50*ms, l.value(2*lateLife+2*time.Second))
	require.Equal(t, 50*ms, l.value(3*lateLife))
	require.Zero(t, l.value(3*lateLife+3*time.Second))
}
