package logs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g Gate
	now := time.Unix(1000, 0)
	for i, want := range []string{"0 true", "0 false", "0 false"} {
		hidden, ok := g.Pass(now.Add(time.Duration(i)))
		require.Equal(t, want, fmt.Sprint(hidden, ok))
	}
	hidden, ok := g.Pass(now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 2, hidden)
}

// TestGatesAreApart: each key has a gate of its own.
func TestGatesAreApart(t *testing.T) {
	gates, now := Gates[string]{}, time.Unix(1000, 0)
	for range 3 {
		gates.Pass("a", now)
	}
	_, ok := gates.Pass("b", now)
	require.True(t, ok)
	hidden, ok := gates.Pass("a", now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 2, hidden)
}

// TestLogJoined: a party that does something again and again has few records in a minute and leaves
// others theirs, and all have no more than fit a disk. Records that are not written are counted.
func TestLogJoined(t *testing.T) {
	var g minuteLimit
	now := time.Unix(1000, 0)
	pass := func(party any) string {
		hidden, ok := g.pass(party, now)
		return fmt.Sprint(hidden, ok)
	}
	for range partyLimit {
		require.Equal(t, "0 true", pass("a"))
	}
	for range 5 {
		require.Equal(t, "0 false", pass("a"))
	}
	require.Equal(t, "5 true", pass("b"))
	for i := range 2 * totalLimit {
		pass(i)
	}
	require.Equal(t, totalLimit, g.total)
	require.Len(t, g.byParty, totalLimit-partyLimit+1)
	now = now.Add(time.Minute)
	require.Equal(t, fmt.Sprint(totalLimit+partyLimit+1, " true"), pass("a"))
	now = now.Add(-time.Hour)
	require.Equal(t, "0 true", pass("a"), "the clock was set back")
}
