package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestWorldKeepsItsReceiveBudget: many peers at once send the smallest calls
// possible, as fast as they may, to a world that no longer ticks, until it accepts no
// more. All of them together increase the heap by no more than Config.ReceiveBudget.
func TestWorldKeepsItsReceiveBudget(t *testing.T) {
	peers := testkit.Brief(8, 16)
	budget := peers << 19 // half of what their limits would add up to
	config := Config{ReceiveBudget: budget, ReceiveLimit: 1 << 20, MaxConns: peers, Bunch: bunch.Config{Overflow: bunch.OverflowError}}
	inNet(t, peers, config, func(n *network) {
		a := n.spawn(-1, AlwaysRelevant())
		call := encoded(t, shout.m, "")
		flood := func() {
			for i, c := range n.ends {
				channel := n.mirror(i, a).openings[0].channel
				c.link.Lock()
				var err error
				for err == nil {
					err = c.machine.Send(channel, bunch.Reliable, call)
				}
				c.link.Unlock()
				require.ErrorIs(t, err, bunch.ErrReliableBufferFull)
			}
		}
		for range 15 { // limits grow with use
			flood()
			n.tick(1)
			n.server.take()
		}
		n.tick(30)
		n.server.take()
		require.LessOrEqual(t, n.server.lobby.memory.Reserved(), budget)
		require.Greater(t, n.server.lobby.memory.Reserved(), budget/2+budget/8, "some have grown")

		base := testkit.Heap()
		for range 20 {
			flood()
			time.Sleep(100 * time.Millisecond)
		}
		waiting := 0
		for _, c := range n.conns {
			c.link.Lock()
			waiting += c.machine.Ready()
			c.link.Unlock()
		}
		rise := testkit.Heap() - base
		t.Logf("%d calls of %d peers wait: %d KiB of heap, %d KiB reserved, budget %d KiB", waiting, peers, rise>>10, n.server.lobby.memory.Reserved()>>10, budget>>10)
		require.Greater(t, waiting, peers*3125)
		require.LessOrEqual(t, rise, budget)
	})
}
