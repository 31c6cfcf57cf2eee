package rpc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/budget"
)

// TestHandlersOutliveTheirConnection: handlers count for the identity until
// they return, even if the asker disconnects. Before, a client that asked, left
// and returned could run as many handlers again each time.
func TestHandlersOutliveTheirConnection(t *testing.T) {
	config := Config{
		Classes: []*Class{clerk}, MaxRequests: 2,
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
	}
	comesAgain(t, config, [2]string{"ann", "bob"}, func(n *network, _ string, w *testWorld) {
		_, err := n.connect(w)
		require.NoError(t, err)
	})
}

// TestHandlersOutliveTheirNamelessConnection: without an identity handlers count
// for the address, and all clients of it that have no identity count together.
func TestHandlersOutliveTheirNamelessConnection(t *testing.T) {
	config := Config{Classes: []*Class{clerk}, MaxRequests: 2}
	for name, hosts := range map[string][2]string{
		"IPv4":       {"192.0.2.1", "192.0.2.2"},
		"IPv6":       {"2001:db8::1", "2001:db8:0:1::1"},
		"no address": {"", "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			comesAgain(t, config, hosts, func(n *network, from string, w *testWorld) {
				var addr net.Addr
				if from != "" {
					addr = host(from)
				}
				c, err := n.connectFrom(addr, w)
				require.NoError(t, err)
				n.clients, n.ends = append(n.clients, w), append(n.ends, c)
			})
		})
	}
}

// comesAgain has two clients ask, leave and come again while the handlers of their questions run.
func comesAgain(t *testing.T, config Config, who [2]string, connect func(n *network, who string, w *testWorld)) {
	inNet(t, 0, config, func(n *network) {
		goOn, running := make(chan struct{}), new(atomic.Int32)
		b := Bind(n.server.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
		OnRequest(b, clerkAsk, func(_ *clerkObject, call *Call, _ int) (string, error) {
			goOn := goOn
			clerkAsk.Go(call, func(context.Context) (string, error) {
				defer running.Add(-1)
				running.Add(1)
				<-goOn
				return "late", nil
			})
			return "", nil
		})
		visit := func(name string) int32 {
			w := newTestWorld(t, Config{Classes: config.Classes, Token: []byte(name)})
			Bind(w.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
			connect(n, name, w)
			n.tick(3)
			n.conns = append(n.conns, n.server.joined[len(n.conns)])
			i := len(n.conns) - 1
			a, err := n.server.Spawn(clerk, n.conns[i])
			require.NoError(t, err)
			n.tick(3)
			for range 3 {
				require.NoError(t, clerkAsk.Then(n.mirror(i, a), 1, func(string, error) {}))
			}
			n.tick(3)
			n.ends[i].Close(0, "bye")
			n.tick(3)
			require.Error(t, n.conns[i].Err())
			return running.Load()
		}
		run := []int32{visit(who[0]), visit(who[0]), visit(who[0]), visit(who[1])}
		close(goOn)
		n.tick(3)
		require.Equal(t, []int32{2, 2, 2, 4}, run, "the first two still run; the other has as many of its own")
		require.Zero(t, running.Load())
		goOn = make(chan struct{})
		again := visit(who[0])
		close(goOn)
		n.tick(3)
		require.EqualValues(t, 2, again, "there is room again")
	})
}

// TestPartyOfAServer: on a client, jobs that a connection leaves behind count for the
// server's address, because the identity is the client's own, which other servers know, too.
func TestPartyOfAServer(t *testing.T) {
	config := Config{Authenticate: func(context.Context, []byte) (string, error) { return "ann", nil }}
	inNet(t, 1, config, func(n *network) {
		require.Equal(t, "ann", n.ends[0].Identity())
		require.Equal(t, budget.Party{Identity: "ann"}, n.conns[0].party())
		require.Zero(t, n.ends[0].party())
	})
}
