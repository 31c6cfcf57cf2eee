package scenes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestRoamersLeaveOthersTheirPart plays a transfer whose address changes
// several times a second beside one that stays. Each path was abandoned before
// its losses could show, and the next one began with a flight of 32 packets:
// four times what a slow link carries, of which the other had 0.02.
func TestRoamersLeaveOthersTheirPart(t *testing.T) {
	seed, sum, n := testkit.Seed(t), 0.0, 0
	for _, rate := range []int64{1e6, 2e6} {
		for _, rtt := range []time.Duration{20 * ms, 50 * ms} {
			for _, every := range []time.Duration{20 * ms, 50 * ms, 150 * ms} {
				s := Path(rate, rtt, 0, 1)
				s.Flows = []Flow{{Begin: second, Moves: 2 * second, Roams: every}, {Begin: second}}
				s.For = 15 * second
				left := Run(s, seed).Flows[1].Rate(5*second, s.For) / float64(rate)
				t.Logf("%d Mbit/s, %v, each %v: %.2f are left", rate/1e6, rtt, every, left)
				require.Greater(t, left, 0.1, "seed %d", seed)
				sum, n = sum+left, n+1
			}
		}
	}
	require.Greater(t, sum/float64(n), 0.3, "seed %d", seed)
}
