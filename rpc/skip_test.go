package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
)

// TestPacketNumbersAreLeftOut: a peer does not know which numbers are skipped,
// so acks that it invents are detected.
func TestPacketNumbersAreLeftOut(t *testing.T) {
	leftOut := func() (numbers []uint64) {
		next := uint64(0)
		trace := func(e bunch.Event) { // under the link's lock of the only connection
			if e.Kind != "sent" {
				return
			}
			for ; next < e.Number; next++ {
				numbers = append(numbers, next)
			}
			next = e.Number + 1
		}
		inNet(t, 0, Config{Bunch: bunch.Config{Trace: trace}}, func(n *network) {
			n.join(Config{})
			a := n.spawn(0)
			for range 2000 {
				require.NoError(t, hit.Call(a, 1))
				n.tick(1)
			}
			require.Empty(t, n.server.left)
		})
		return numbers
	}
	first, second := leftOut(), leftOut()
	require.GreaterOrEqual(t, len(first), 2, "two in a row lie less than 1,000 apart")
	require.NotEqual(t, first, second)
}
