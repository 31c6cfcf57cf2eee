package sealed

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// bulky are pieces that say how many wait.
type bulky struct{ *pieces }

func (b bulky) Waiting() int { return (b.total - b.next) * b.size }

// TestStartersAreCounted: a session counts while it starts with something to
// send, and not when all that has arrived, the start is over, or it has ended.
func TestStartersAreCounted(t *testing.T) {
	const piece = 1024
	run := func(total int, link netsim.Config, until func(client *Session, a bulky) bool) (*atomic.Int32, *Session, int32) {
		var siblings Siblings
		most := int32(0)
		a, b := bulky{newPieces(piece, total, 0)}, newPieces(piece, 0, total)
		client, server := ends(t, a, b, func(c *SessionConfig) { c.Siblings = &siblings })
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
		require.NoError(t, pair.Run(time.Minute, func() bool {
			most = max(most, siblings.starting.Load())
			return until(client, a)
		}))
		return &siblings.starting, client, most
	}
	slow := netsim.Config{Delay: 25 * ms, Rate: 20e6}
	arrived := func(_ *Session, a bulky) bool { return a.delivered() }

	starting, _, most := run(40, slow, arrived)
	require.EqualValues(t, 1, most)
	require.Zero(t, starting.Load(), "all has arrived")

	starting, _, most = run(4, slow, arrived)
	require.Zero(t, most, "a few packets are no start")
	require.Zero(t, starting.Load())

	starting, _, most = run(4000, slow, func(c *Session, _ bulky) bool { return c.Controller().State() == pace.Cruise })
	require.EqualValues(t, 1, most)
	require.Zero(t, starting.Load(), "the start is over")

	starting, client, _ := run(4000, slow, func(c *Session, a bulky) bool { return a.ackedN > 0 && c.Controller().State() == pace.Start })
	require.EqualValues(t, 1, starting.Load())
	client.Close()
	require.Zero(t, starting.Load(), "it has ended")
}

// busy are calls and pieces that say how many wait.
type busy struct{ *ticks }

func (b busy) Waiting() int { return (b.pieces.total - b.pieces.next) * b.size }

// TestWhoPlaysIsNoStarterForEver: a few packets of bulk do not end a start, and there
// is always play in flight beside them. A hundred players who had once received a few
// KB made every later transfer of their server begin with a hundredth.
func TestWhoPlaysIsNoStarterForEver(t *testing.T) {
	var siblings Siblings
	a, b := newTicks(time.Second/60, 20, 0), newTicks(time.Second/60, 0, 20)
	client, server := ends(t, busy{a}, busy{b}, func(c *SessionConfig) {
		if c.Client {
			c.Siblings = &siblings
		}
	})
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	link := netsim.Config{Delay: 25 * ms, Rate: 20e6}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
	_ = pair.Run(20*time.Second, func() bool { return false })
	require.True(t, a.pieces.delivered())
	require.Zero(t, siblings.starting.Load())
}
