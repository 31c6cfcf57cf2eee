package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLargeOnesComeBackOneByOne: after a black hole few large datagrams are
// sent to show whether it is still there, and not all.
func TestLargeOnesComeBackOneByOne(t *testing.T) {
	var m mtu
	now := time.Unix(1e9, 0)
	m.update(1404)
	larger := func(d time.Duration) (n int) { // that leave within d, where each is as large as it may be
		for end := now.Add(d); now.Before(end); now = now.Add(time.Millisecond) {
			size := m.limitNow(now)
			m.sent(now, size)
			if size > SafeDatagram {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1000, larger(time.Second))
	require.Equal(t, holeHold, m.blackHole(now))
	require.Zero(t, larger(holeHold))
	require.Equal(t, 4, larger(time.Second))
	require.Equal(t, 2*holeHold, m.blackHole(now), "found again between two of them")
	require.Zero(t, m.blackHole(now), "an old report")
	require.Zero(t, larger(2*holeHold))
	require.Equal(t, holeTrials, larger((holeTrials-1)*trialPause+1))
	require.Equal(t, 1000, larger(time.Second), "they pass again")
}
