package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatsRead is how the numbers read.
func TestStatsRead(t *testing.T) {
	s := Stats{
		Sending: 2, Waiting: 1, Receiving: 3, Lanes: 32, PeakOut: 120, Slots: 256,
		Slices: 12_345, SlicesResent: 67, SlicesSealed: 12_000, RepairSlices: 40, SlicesRestored: 12, SlicesRefused: 1, Late: 2, Unstored: 3,
	}
	require.Equal(t, `
Transfers         2 sending, 1 waiting, 3 receiving
Lanes             32 open, at most 120 of 256 entries out
Slices            12,345 sent, 67 of them again, 12,000 sealed, 40 repair slices, 12 restored
Drops             slices refused 1, late 2, not stored 3
`, "\n"+s.String())
}

func TestProgressReads(t *testing.T) {
	require.Equal(t, "2,048 sent, 1,024 of 4,096 acked (25.0 %), 512 resumed", Progress{Sent: 2048, Acked: 1024, Total: 4096, Resumed: 512}.String())
	require.Equal(t, "7 sent, 0 acked", Progress{Sent: 7, Total: -1}.String())
	require.Equal(t, "0 sent, 0 of 0 acked", Progress{}.String())
}
