package netsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBottleneckSteps(t *testing.T) {
	b := newBottleneck(8_000_000, 3000) // a byte takes 1 us
	offer := func(at time.Duration, bytes int, want time.Duration) {
		t.Helper()
		depart, ok := b.offer(Epoch.Add(at), bytes)
		require.Equal(t, want >= 0, ok)
		if ok {
			require.Equal(t, want, depart.Sub(Epoch))
		}
	}
	t.Logf("# an idle bottleneck sends at once, also what is larger than its queue")
	offer(0, 5000, 5*time.Millisecond)
	t.Logf("# while more than the queue holds waits, all is dropped")
	offer(time.Millisecond, 1, -1)
	t.Logf("# 1,000 B are left on the wire: 2,000 B fit, 2,001 do not")
	offer(4*time.Millisecond, 2001, -1)
	offer(4*time.Millisecond, 2000, 7*time.Millisecond)
	offer(4*time.Millisecond, 1, -1)
	require.Equal(t, 3000, b.backlog(Epoch.Add(4*time.Millisecond)))
	require.Equal(t, Epoch.Add(6*time.Millisecond), b.below(Epoch, 1000))
	t.Logf("# after a pause it starts afresh")
	offer(time.Second, 1000, time.Second+time.Millisecond)
	require.Equal(t, 0, b.backlog(Epoch.Add(2*time.Second)))
	require.Equal(t, Epoch.Add(time.Hour), b.below(Epoch.Add(time.Hour), 0))
}

// The parts of a nanosecond add up: a bottleneck holds its rate exactly however odd it is.
func TestBottleneckKeepsFractions(t *testing.T) {
	b := newBottleneck(999_999_937, maxQueue)
	var depart time.Time
	for range 100_000 {
		var ok bool
		depart, ok = b.offer(Epoch, 1)
		require.True(t, ok)
	}
	require.Equal(t, b.drain(100_000)-1, depart.Sub(Epoch), "drain rounds up, offer down")
}

func TestBottleneckOff(t *testing.T) {
	b := newBottleneck(0, 1)
	for range 1000 {
		depart, ok := b.offer(Epoch, 1000)
		require.True(t, ok)
		require.Equal(t, Epoch, depart)
	}
	require.Zero(t, b.backlog(Epoch))
	require.Equal(t, Epoch, b.below(Epoch, 0))
}
