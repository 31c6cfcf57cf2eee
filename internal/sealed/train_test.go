package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTrainThatCameWhole: only a train of which nothing is lost shows how many packets may leave together.
func TestTrainThatCameWhole(t *testing.T) {
	for _, lost := range []int{0, 1} {
		tr := train{open: trainPackets, sent: true}
		for i := range trainPackets {
			_, ok := tr.measured()
			require.False(t, ok, "after %d", i)
			if i < lost {
				tr.lose()
				continue
			}
			tr.ack(&record{size: 1200}, time.Second+time.Duration((i*7)%trainPackets)*time.Microsecond, 0) // in any order
		}
		shown, ok := tr.measured()
		require.True(t, ok)
		require.Equal(t, lost == 0, shown.Whole)
		if shown.Whole {
			require.Equal(t, (trainPackets-1)*time.Microsecond, shown.Span)
		}
		_, ok = tr.measured()
		require.False(t, ok, "it is told once")
	}
}

// TestTrainOfWhichHalfIsLate: packets that counted as lost and arrive show that the path has carried them, too, and the train is told again.
func TestTrainOfWhichHalfIsLate(t *testing.T) {
	tr, r := train{open: trainPackets, sent: true}, &record{size: 1200}
	_, ok := tr.late(r)
	require.False(t, ok, "nothing was shown yet")
	for i := range trainPackets {
		if i%2 == 0 {
			tr.ack(r, time.Second+time.Duration(i)*time.Millisecond, 0)
		} else {
			tr.lose()
		}
	}
	shown, ok := tr.measured()
	require.True(t, ok)
	require.Equal(t, (trainPackets/2-1)*1200, shown.Bytes)
	for range trainPackets / 2 {
		shown, ok = tr.late(r)
		require.True(t, ok)
	}
	require.Equal(t, (trainPackets-1)*1200, shown.Bytes)
	require.Equal(t, (trainPackets-2)*time.Millisecond, shown.Span, "of those that came in time")
}
