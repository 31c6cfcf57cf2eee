package scenes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A start ends if the first eight round trips of a round are all longer; a
// single longer one is jitter, and so is a ninth.
func TestRenoStart(t *testing.T) {
	r, now := newReno(), time.Duration(0)
	round := func(rtts ...time.Duration) bool {
		now += 50 * ms
		for _, rtt := range rtts {
			r.acked(ack{now: now, sent: now - 10*ms, rtt: rtt, latest: true, before: 32})
		}
		return r.slow
	}
	const short, long = 50 * ms, 60 * ms
	require.True(t, round(short, long, long, long, long, long, long, long))
	require.True(t, round(long, long, long, long, long, long, long, short, long))
	require.EqualValues(t, 32+17, r.cwnd)
	require.False(t, round(long, long, long, long, long, long, long, long))
}

// A spurious loss restores the window, once all losses of the same event have proved spurious.
func TestRenoUndo(t *testing.T) {
	r := newReno()
	r.lost(100*ms, 40*ms, 0)
	r.lost(100*ms, 41*ms, 0)
	require.InDelta(t, 32*renoBeta, r.window(), 1e-9)
	r.spurious(40 * ms)
	require.Less(t, r.window(), 32.)
	r.spurious(41 * ms)
	require.EqualValues(t, 32, r.window())
	require.True(t, r.slow)
}
