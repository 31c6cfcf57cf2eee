package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// TestSlicesOverASlowNearPath: over 1 Mbit/s a packet takes 10 ms, and the path a hundredth of that: round trips become a hundred times as
// long as soon as there is a queue, and slices over QUIC take them as they are.
func TestSlicesOverASlowNearPath(t *testing.T) {
	const size = 512 << 10
	for _, queue := range []int{6000, 12_000, 20_000, 64 << 10} {
		path := netsim.Config{Rate: 1e6, Queue: queue, Delay: 100 * time.Microsecond, Seed: testkit.Seed(t)}
		synctest.Test(t, func(t *testing.T) {
			near, far := netsim.Pipe(path, netsim.Config{Delay: path.Delay})
			l, leave := joinQUIC(t, near, far, rpc.Config{}, func(_, _ *rpc.World) {})
			got, begin := collect(l.server), time.Now()
			require.NoError(t, save.Send(t.Context(), l.toServer, generated(size), size, Via(Slices{})))
			require.NoError(t, (<-got).err)
			took, stats := time.Since(begin), l.toServer.Stats()
			t.Logf("queue %d: %v, %d slices, %d again", queue, took.Round(time.Millisecond), stats.Slices, stats.SlicesResent)
			require.Less(t, took, 8*time.Second, "4.2 s is ideal")
			require.Less(t, stats.SlicesResent, stats.Slices/3)
			leave()
			time.Sleep(time.Minute)
			_, _ = near.Close(), far.Close()
		})
	}
}
