package rpc

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// requireOneCopy: copies follow each other, and each hears what was sent to it before its end.
func requireOneCopy(t *testing.T, heard []string, names []string) {
	t.Helper()
	var want []string
	for i, name := range names {
		want = append(want, "open "+name, "tell "+name)
		if i < len(names)-1 {
			want = append(want, "close Relevancy")
		}
	}
	require.Equal(t, want, heard)
}

// reopen closes the actor for the client and opens it again, under a new name
// in its state, and calls it.
func reopen(t *testing.T, a *Actor, c *Conn, i int) string {
	a.CloseTo(c)
	*a.text() = fmt.Sprint("copy ", i)
	require.NoError(t, a.OpenTo(c))
	require.NoError(t, tell.Call(a, *a.text()))
	return *a.text()
}

// TestReopenedActorHasOneCopy: before, the second copy existed before the first
// had ended, even on a perfect link, because there is no order between channels.
func TestReopenedActorHasOneCopy(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.named(0, "copy 0")
		require.NoError(t, tell.Call(a, "copy 0"))
		names := []string{"copy 0"}
		for i := range 50 {
			names = append(names, reopen(t, a, n.conns[0], 1+i))
			if i%3 == 0 {
				n.tick(1)
			}
		}
		n.tick(300)
		requireOneCopy(t, n.clients[0].take(), names)
		require.EqualValues(t, 1, n.clients[0].actors.alive.Load())
		require.NoError(t, n.server.Destroy(a))
		n.tick(3)
		require.Equal(t, []string{"close Destroyed"}, n.clients[0].take())
	})
}

func TestReopenedActorHasOneCopyOverBadPaths(t *testing.T) {
	random := testkit.Rand(t)
	for range 5 {
		path := netsim.Config{
			Delay: time.Duration(1+random.IntN(80)) * time.Millisecond, Loss: 0.2 * random.Float64(),
			Reorder: 0.3, ReorderDelay: 50 * time.Millisecond, Duplicate: 0.05, Seed: random.Uint64(),
		}
		overQUIC(t, path, Config{}, func(n *network) {
			a := n.named(0, "copy 0")
			require.NoError(t, tell.Call(a, "copy 0"))
			names := []string{"copy 0"}
			for i := range 30 {
				names = append(names, reopen(t, a, n.conns[0], 1+i))
				n.tick(random.IntN(4))
			}
			for range 100 {
				n.tick(30)
			}
			requireOneCopy(t, n.clients[0].take(), names)
		})
	}
}

// TestChannelsOfClosedActorsAreForgotten: actors open and close for a client,
// and most never open again.
func TestChannelsOfClosedActorsAreForgotten(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		for range 300 {
			a, err := n.server.Spawn(hero, nil)
			require.NoError(t, err)
			require.NoError(t, a.OpenTo(n.conns[0]))
			a.CloseTo(n.conns[0])
			n.tick(1)
		}
		require.LessOrEqual(t, len(n.conns[0].shown.closedChannels.byRef), minSweep)
		require.NoError(t, n.conns[0].Err())
	})
}
