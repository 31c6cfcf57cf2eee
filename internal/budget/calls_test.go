package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucket(t *testing.T) {
	var l Bucket
	now := time.Unix(1000, 0)
	allowed := func(rate float64) (n int) {
		for l.Allow(rate, now, now) {
			n++
		}
		return n
	}
	require.Equal(t, 5, allowed(5), "one second's worth at once")
	now = now.Add(400 * time.Millisecond)
	require.Equal(t, 2, allowed(5))
	now = now.Add(-time.Hour)
	require.Zero(t, allowed(5), "a clock that runs back gives nothing")
	now = now.Add(400 * time.Millisecond)
	require.Equal(t, 2, allowed(5), "and goes on from there")
	now = now.Add(2 * time.Hour)
	require.Equal(t, 5, allowed(5))

	l = Bucket{}
	require.Equal(t, 1, allowed(0.5), "at least one call")
	now = now.Add(time.Second)
	require.Zero(t, allowed(0.5))
	now = now.Add(time.Second)
	require.Equal(t, 1, allowed(0.5))
}

// TestBucketOfCallsThatWaited: they take the tokens of the time at which they
// arrived, in whatever order they are handled, and there are never more than these.
func TestBucketOfCallsThatWaited(t *testing.T) {
	var l Bucket
	came := time.Unix(1000, 0)
	now := came.Add(10 * time.Second)
	for l.Allow(5, came, now) {
	}
	for range 20 {
		came = came.Add(200 * time.Millisecond)
		require.True(t, l.Allow(5, came, now))
		require.False(t, l.Allow(5, came, now))
		require.False(t, l.Allow(5, came.Add(-100*time.Millisecond), now))
	}
}

func TestThrottle(t *testing.T) {
	var th Throttle[string]
	now := time.Unix(1000, 0)
	exceeds := func(m string, flush uint64) bool { return th.Count(m, 2, flush, now, 100*time.Millisecond) }
	require.False(t, exceeds("a", 1))
	require.False(t, exceeds("a", 1))
	require.True(t, exceeds("a", 1))
	require.False(t, exceeds("b", 1), "each method by itself")
	now = now.Add(50 * time.Millisecond)
	require.True(t, exceeds("a", 2), "another Flush, within the period")
	now = now.Add(50 * time.Millisecond)
	require.False(t, exceeds("a", 3))
	require.False(t, exceeds("a", 3))
	now = now.Add(100 * time.Millisecond)
	require.True(t, exceeds("a", 3), "one Flush, however long it takes")
	now = now.Add(-time.Hour)
	require.False(t, exceeds("a", 4), "a clock that goes back begins anew")
	require.False(t, exceeds("a", 4))
	require.True(t, exceeds("a", 5))
}
