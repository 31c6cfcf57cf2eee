package stream

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// What a store was asked for outlives its connection. A client that began transfers, left and
// reconnected once made this end ask the store again each time. Now the work counts for the
// identity until the store answers, or for the address of a client without one, and not for others.
func TestComingAgainAsksNoStoreWithoutEnd(t *testing.T) {
	t.Run("by identity", func(t *testing.T) {
		who := "ann"
		config := rpc.Config{Authenticate: func(context.Context, []byte) (string, error) { return who, nil }}
		testComingAgain(t, config, func(_ *network, name string) { who = name })
	})
	t.Run("by address", func(t *testing.T) {
		addresses := map[string]string{"ann": "192.0.2.1", "bob": "192.0.2.2"}
		testComingAgain(t, rpc.Config{}, func(n *network, name string) { n.from = &net.UDPAddr{IP: net.ParseIP(addresses[name])} })
	})
	t.Run("without an address", func(t *testing.T) {
		addresses := map[string]net.Addr{"bob": &net.UDPAddr{IP: net.IPv6loopback}}
		testComingAgain(t, rpc.Config{}, func(n *network, name string) { n.from = addresses[name] })
	})
}

func testComingAgain(t *testing.T, config rpc.Config, be func(n *network, who string)) {
	store := &slowStore{memoryStore: newMemoryStore(), looks: time.Minute}
	inNetwork(t, setup{server: Config{Store: store}, rpc: config}, func(n *network) {
		collect(n.server.streams)
		begin := func() {
			for range 4 {
				_, err := save.Start(n.client.peer, strings.NewReader("save"), 4, Key("k"))
				require.NoError(n, err)
			}
			time.Sleep(time.Second) // their headers are there
		}
		again := func(who string) {
			be(n, who)
			n.client.peer.conn.Close(0, "again")
			time.Sleep(time.Second)
			n.connect()
		}
		for range 6 {
			again("ann")
			begin()
		}
		most := store.most.Load()
		again("bob")
		begin()
		more := store.most.Load()
		time.Sleep(5 * time.Minute)
		require.EqualValues(n, 8, most, "twice as many as a peer may have transfers")
		require.EqualValues(n, 12, more, "bob has as many of his own")
		require.Zero(n, store.open.Load())
		store.looks = 0
		again("ann")
		require.NoError(n, save.Send(n.ctx, n.client.peer, strings.NewReader("save"), 4, Key("k")))
	})
}
