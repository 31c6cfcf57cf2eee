package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/job"
)

func TestStall(t *testing.T) {
	var w watch
	start := time.Now()
	w.note(start.Add(time.Second), 10*time.Millisecond)
	require.Zero(t, w.longest(start), "timers are late")
	w.note(start.Add(2*time.Second), 40*time.Millisecond)
	w.note(start.Add(3*time.Second), 30*time.Millisecond)
	require.Equal(t, 40*time.Millisecond, w.longest(start))
	require.Equal(t, 30*time.Millisecond, w.longest(start.Add(2500*time.Millisecond)))
	require.Zero(t, w.longest(start.Add(4*time.Second)))
}

func TestDisturbance(t *testing.T) {
	short := job.Job{Scenario: "blob", Clock: job.Relay, RTT: 20 * time.Millisecond, Rate: 100e6, Size: 256 << 10}
	long := job.Job{Scenario: "blob", Clock: job.Relay, RTT: 20 * time.Millisecond, Rate: 10e6, Size: 32 << 20}
	spoilt := func(j job.Job, stall time.Duration, stolen float64) bool { return disturbance{stall, stolen}.of(j) > 1 }
	require.True(t, spoilt(short, 30*time.Millisecond, 0))
	require.False(t, spoilt(short, 0, 0.08))
	require.True(t, spoilt(short, 0, 0.12))
	require.False(t, spoilt(long, time.Second, 0))
	require.True(t, spoilt(long, 2*time.Second, 0))
	require.True(t, spoilt(long, 0, 0.12))
}
