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
			packets, _ := tr.complete()
			require.Zero(t, packets, "after %d", i)
			if i < lost {
				tr.lose()
				continue
			}
			tr.ack(&record{size: 1200}, time.Second+time.Duration((i*7)%trainPackets)*time.Microsecond, 0) // in any order
		}
		packets, span := tr.complete()
		if lost > 0 {
			require.Zero(t, packets)
			continue
		}
		require.Equal(t, trainPackets, packets)
		require.Equal(t, (trainPackets-1)*time.Microsecond, span)
		tr.measured()
		packets, _ = tr.complete()
		require.Zero(t, packets, "it is told once")
	}
}
