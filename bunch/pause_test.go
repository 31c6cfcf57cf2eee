package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOwnPauseIsNoRoundTrip: a process that was suspended for 12 s, like one in the background
// of a phone, finds old acks in its socket. If their age counted as a round trip, a call that
// is lost afterwards would be sent again only after 13 s.
func TestOwnPauseIsNoRoundTrip(t *testing.T) {
	for _, timerFirst := range []bool{false, true} {
		l := newLossTest(t, Config{})
		for n := range uint32(20) {
			l.sendPackets(1)
			l.wait(50 * ms)
			l.mustAck(n, n)
		}
		l.sendPackets(3)
		l.at = l.at.Add(12 * time.Second)
		if timerFirst {
			require.NoError(t, l.Advance(l.at))
			l.packets()
		}
		for n := range uint32(3) {
			l.mustAck(20+n, 20+n)
		}
		require.Less(t, l.pto(), 600*ms, "the timer comes first: %v", timerFirst)
		require.Less(t, l.Stats().SmoothedRTT, 200*ms)

		l.sendPackets(1)
		at, ok := l.NextTimeout()
		require.True(t, ok)
		require.Less(t, at.Sub(l.at), 600*ms)
	}
}
