package rpc

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHandlersOutliveTheirConnection: who asks, leaves and comes again had as many handlers run each time. They count for the identity until
// they return, and not for others.
func TestHandlersOutliveTheirConnection(t *testing.T) {
	config := Config{
		Classes: []*Class{clerk}, MaxRequests: 2,
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
	}
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
			_, err := n.connect(w)
			require.NoError(t, err)
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
		run := []int32{visit("ann"), visit("ann"), visit("ann"), visit("bob")}
		close(goOn)
		n.tick(3)
		require.Equal(t, []int32{2, 2, 2, 4}, run, "ann's first two still run; bob has as many of his own")
		require.Zero(t, running.Load())
		goOn = make(chan struct{})
		again := visit("ann")
		close(goOn)
		n.tick(3)
		require.EqualValues(t, 2, again, "there is room again")
	})
}
