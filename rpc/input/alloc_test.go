//go:build !race

package input

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestAllocationsOfATick: an input's whole way, both ends and the emulated
// network together, takes no more allocations than a pair of RPCs without this
// package, one each way, and the slice that the message is decoded into.
func TestAllocationsOfATick(t *testing.T) {
	boxes(t, 1, func(net *rpctest.Network, _ *rpc.Binding[*box], _ []*rpc.Conn, own []*box) {
		p, doing := own[0].pushes, func(time.Time) {}
		read := func(tick uint64) push { return push{1} }
		net.OnTick(func(now time.Time) { doing(now) })
		run := func(what func(now time.Time)) float64 {
			doing = what
			net.Advance(2 * time.Second)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			net.Advance(10 * time.Second)
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs-before.Mallocs) / 600
		}
		bare := run(func(time.Time) { _ = pushes.inputs.Call(own[0].actor, batch[push]{}) }) // and its answer
		with := run(func(now time.Time) { _ = p.Tick(now, read) })
		t.Logf("%.1f allocations a tick, of which a pair of calls has %.1f", with, bare)
		require.Greater(t, p.Stats().Tick, uint64(600))
		require.EqualValues(t, 1, p.Stats().Begun)
		require.LessOrEqual(t, with, bare+3)
	})
}
