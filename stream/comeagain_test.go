package stream

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// What a store was asked for outlives its connection: who began transfers, left and came again had the store asked once more each time. It
// counts for the identity until the store answers, and not for others.
func TestComingAgainAsksNoStoreWithoutEnd(t *testing.T) {
	store := &slowStore{memoryStore: newMemoryStore(), looks: time.Minute}
	who := "ann"
	login := rpc.Config{Authenticate: func(context.Context, []byte) (string, error) { return who, nil }}
	inNetwork(t, setup{server: Config{Store: store}, rpc: login}, func(n *network) {
		collect(n.server.streams)
		begin := func() {
			for range 4 {
				_, err := save.Start(n.client.peer, strings.NewReader("save"), 4, Key("k"))
				require.NoError(n, err)
			}
			time.Sleep(time.Second) // their headers are there
		}
		again := func() {
			n.client.peer.conn.Close(0, "again")
			time.Sleep(time.Second)
			n.connect()
		}
		for range 6 {
			begin()
			again()
		}
		most := store.most.Load()
		who = "bob"
		again()
		begin()
		more := store.most.Load()
		time.Sleep(5 * time.Minute)
		require.EqualValues(n, 8, most, "twice as many as a peer may have transfers")
		require.EqualValues(n, 12, more, "bob has as many of his own")
		require.Zero(n, store.open.Load())
		who = "ann"
		again()
		store.looks = 0
		require.NoError(n, save.Send(n.ctx, n.client.peer, strings.NewReader("save"), 4, Key("k")))
	})
}
