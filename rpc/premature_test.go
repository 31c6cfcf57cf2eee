package rpc

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// TestServerOpensBeforeJoin: a client, too, keeps nothing for channels before it has joined.
func TestServerOpensBeforeJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := linktest.Pipe()
		machine, err := bunch.NewConn(time.Now(), bunch.Config{})
		require.NoError(t, err)
		p := &rawPeer{t: t, machine: machine, link: link.New(far, link.Config{}, machine)}
		p.openAndSend()
		_, err = newTestWorld(t, Config{}).Connect(context.Background(), plug{near})
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, BunchPrematureChannel, closed.Code)
		require.Contains(t, closed.Reason, "channel 2: the peer may not open channels")
		require.Equal(t, uint64(BunchPrematureChannel), p.closed().Code)
	})
}

// TestClientNamesAChannelOfItsOwn: after Join, an entry of a channel without an open ends the
// connection as well: the machine knows that clients open none, and keeps nothing for it.
func TestClientNamesAChannelOfItsOwn(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		c := n.ends[0]
		c.link.Lock()
		for range 5 {
			channel, err := c.machine.Open(bunch.Normal)
			require.NoError(t, err)
			require.NoError(t, c.machine.Send(channel, bunch.Unreliable, []byte("x")))
		}
		c.link.Unlock()
		n.tick(4)
		var closed *CloseError
		require.ErrorAs(t, n.conns[0].Err(), &closed)
		require.Equal(t, BunchWrongChannel, closed.Code, closed.Reason)
	})
}

// TestOpensRightAfterJoin: whatever is lost or reordered, an honest server's opens are
// never refused by a client, because the server sends them after the client's Join.
func TestOpensRightAfterJoin(t *testing.T) {
	for lost := range int64(40) {
		inNet(t, 0, Config{}, func(n *network) {
			_, err := n.server.Spawn(hero, nil, AlwaysRelevant())
			require.NoError(t, err)
			w := newTestWorld(t, Config{})
			near, far := linktest.Pipe()
			near.SetDelay(testDelay)
			var packet atomic.Int64
			drop := func([]byte) bool { return packet.Add(1) == lost }
			near.SetDrop(drop)
			far.SetDrop(drop)
			_, err = n.server.Attach(plug{far})
			require.NoError(t, err)
			c, err := w.Connect(context.Background(), plug{near})
			require.NoError(t, err)
			n.clients, n.ends = append(n.clients, w), append(n.ends, c)
			for len(w.heard) == 0 {
				n.tick(1)
			}
			require.NoError(t, c.Err())
		})
	}
}
