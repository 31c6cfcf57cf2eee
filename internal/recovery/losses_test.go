package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLossesByOrder(t *testing.T) {
	l := Losses{Largest: 10}
	l.Begin(80 * ms)
	require.True(t, l.Lost(100*ms, 6, 50*ms), "the third after it was acked")
	require.Zero(t, l.Next)
	require.False(t, l.Lost(100*ms, 7, 50*ms))
	l.Spurious()
	l.Begin(80 * ms)
	require.False(t, l.Lost(100*ms, 6, 50*ms))
}

func TestLossesOfWhatIsAboveTheLargest(t *testing.T) {
	l := Losses{Largest: 10}
	l.Begin(80 * ms)
	require.False(t, l.Lost(139*ms, 12, 50*ms))
	require.Equal(t, 140*ms, l.Next)
	require.True(t, l.Lost(140*ms, 12, 50*ms))
}

func TestLossesByTime(t *testing.T) {
	l := Losses{Largest: 2}
	for _, extra := range []time.Duration{10, 20, 40, 80, 80} {
		due := 50*ms + 80*ms + extra*ms
		l.Begin(80 * ms)
		require.False(t, l.Lost(due-1, 0, 50*ms), "%v", extra)
		require.Equal(t, due, l.Next)
		require.False(t, l.Lost(50*ms, 1, 49*ms+ms/2))
		require.Equal(t, due-ms/2, l.Next, "the earliest")
		require.True(t, l.Lost(due, 0, 50*ms))
		l.Spurious()
	}
	l.Begin(100 * time.Microsecond)
	require.False(t, l.Lost(ms-1, 0, 0))
	require.Equal(t, ms, l.Next)
}
