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

// inRush runs fn with the two ends of each of some connections, which share the
// uplink of their server: over the full stack in virtual time.
func inRush(t *testing.T, clients int, path netsim.Config, fn func(all []loopback)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, rpc.Config{Sealed: true, MaxConnsPerAddress: -1})
		go h.world.Run(h.ctx)
		var sockets []*netsim.PacketConn
		var uplinks []*netsim.Path
		for range clients {
			near, far := netsim.Pipe(path, path)
			sockets, uplinks = append(sockets, near, far), append(uplinks, far.To(near))
			path.Seed++
		}
		netsim.Share(uplinks[0], uplinks[1:]...)
		var all []loopback
		for i := range clients {
			world, client := newWorld(t, h.config, Config{})
			all = append(all, h.join(sockets[2*i], sockets[2*i+1], world, client))
			all[i].awaitSealed(t)
		}
		time.Sleep(time.Second)
		fn(all)
		for _, l := range all {
			_ = l.client.world.Close(h.ctx, 0, "over")
		}
		h.close()
		time.Sleep(time.Minute)
		for _, s := range sockets {
			_ = s.Close()
		}
	})
}

// TestRush: when a match begins, all take the same at once. The train of each
// carrier promised the whole link. Where each transfer began with that, an eighth
// of all packets was lost; where each begins with its part it is a fiftieth.
func TestRush(t *testing.T) { overBackends(t, testRush) }

func testRush(t *testing.T, via Backend) {
	const clients, size = 8, 2 << 20
	path := netsim.Config{Delay: 40 * time.Millisecond, Rate: 50e6, Seed: testkit.Seed(t)}
	inRush(t, clients, path, func(all []loopback) {
		var arrivals []<-chan received
		for _, l := range all {
			arrivals = append(arrivals, collect(l.client))
			_, err := save.Start(l.toClient, generated(size), size, Via(via))
			require.NoError(t, err)
		}
		for _, arrival := range arrivals {
			require.NoError(t, (<-arrival).err)
		}
		var sent, lost uint64
		for _, l := range all {
			s := l.toClient.Conn().Stats().Sealed
			sent, lost = sent+s.PacketsOut, lost+s.PacketsLost
		}
		t.Logf("%d of %d packets lost", lost, sent)
		require.Less(t, lost, sent/16)
	})
}
