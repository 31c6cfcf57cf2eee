package drops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCounters(t *testing.T) {
	var c Counters
	now := time.Unix(1000, 0)
	_, ok := c.Blame(NotOwner, now)
	require.True(t, ok)
	_, ok = c.Blame(NotOwner, now)
	require.False(t, ok, "within the same second")
	_, ok = c.Blame(Closed, now)
	require.False(t, ok, "nobody's mistake")
	_, ok = c.Blame(Invalid, now)
	require.True(t, ok, "each reason has a second of its own")
	hidden, ok := c.Blame(NotOwner, now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 1, hidden)
	c.Add(Ended, 7)
	require.EqualValues(t, 3, c.Of(NotOwner))
	require.EqualValues(t, 1, c.Of(Closed))
	require.EqualValues(t, 7, c.Of(Ended))
}
