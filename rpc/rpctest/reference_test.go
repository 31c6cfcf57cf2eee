package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// The class of these tests: its states are looked at twice a second.
var (
	post      = rpc.NewClass("Post", rpc.UpdateRate(2))
	postSign  = rpc.NewState[sign](post)
	postPoint = rpc.Client[[]rpc.Ref](post, "Point", rpc.Reliable)
	postAwait = rpc.Client[pointer](post, "Await", rpc.Reliable, rpc.WaitForActors())
	postAsk   = rpc.Server[pointer](post, "Ask", rpc.Reliable)
)

type (
	sign struct {
		N     int
		At    [3]float32 `quiver:"quant=0.5"`
		Ahead [3]float32 `quiver:"unit"`
		Share float32    `quiver:"range=0:1,quant=0.01"`
	}
	pointer struct{ At rpc.Ref }
	poster  struct {
		sign  sign
		heard []rpc.Ref
	}
)

// posts is a world of them.
func posts(t *testing.T, config rpc.Config) (*rpc.World, *rpc.Binding[*poster]) {
	t.Helper()
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	b := rpc.Bind(w, post, func(*rpc.Actor) *poster { return new(poster) })
	rpc.Replicate(b, postSign, func(p *poster) *sign { return &p.sign })
	rpc.On(b, postPoint, func(p *poster, _ *rpc.Call, refs []rpc.Ref) { p.heard = append(p.heard, refs...) })
	rpc.On(b, postAwait, func(p *poster, _ *rpc.Call, to pointer) { p.heard = append(p.heard, to.At) })
	rpc.On(b, postAsk, func(p *poster, _ *rpc.Call, to pointer) { p.heard = append(p.heard, to.At) })
	return w, b
}

// inPosts has a server with one client, and an actor that it owns, at both ends.
func inPosts(t *testing.T, fn func(net *rpctest.Network, server *rpc.Binding[*poster], conns []*rpc.Conn, here, there *rpc.Actor, mine, copied *poster)) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var conns []*rpc.Conn
		server, b := posts(t, rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { conns = append(conns, c) }})
		net.Server(server)
		client, copies := posts(t, rpc.Config{})
		conns = append(conns, net.Client(client))
		a, mine, err := rpc.Spawn(b, conns[0], nil)
		require.NoError(t, err)
		net.Advance(time.Second)
		copied, ok := copies.At(a.Ref())
		require.True(t, ok)
		fn(net, b, conns, a, client.Actor(a.Ref()), mine, copied)
	})
}

// 12.1c: at most NetUpdateFrequency times a second; ForceNetUpdate makes the next tick consider it.
func TestUpdateRate(t *testing.T) {
	inPosts(t, func(net *rpctest.Network, _ *rpc.Binding[*poster], _ []*rpc.Conn, a, _ *rpc.Actor, mine, copied *poster) {
		seen := map[int]bool{}
		for range 300 {
			mine.sign.N++
			net.Advance(time.Second / 30)
			seen[copied.sign.N] = true
		}
		require.InDelta(t, 20, len(seen), 2, "ten seconds")
		mine.sign.N = -1
		net.Advance(100 * time.Millisecond)
		mine.sign.N = -2
		a.ForceUpdate()
		net.Advance(100 * time.Millisecond)
		require.Equal(t, -2, copied.sign.N)
	})
}

// 12.1i: quantised types: FVector_NetQuantize and its like.
func TestQuantisedFields(t *testing.T) {
	inPosts(t, func(net *rpctest.Network, _ *rpc.Binding[*poster], _ []*rpc.Conn, _, _ *rpc.Actor, mine, copied *poster) {
		mine.sign.At = [3]float32{1.3, -0.2, 1000.26}
		mine.sign.Ahead = [3]float32{3, 0, 4}
		mine.sign.Share = 7
		net.Advance(time.Second)
		require.Equal(t, [3]float32{1.5, 0, 1000.5}, copied.sign.At)
		require.InDeltaSlice(t, []float32{0.6, 0, 0.8}, copied.sign.Ahead[:], 0.0001)
		require.EqualValues(t, 1, copied.sign.Share, "clamped")
	})
}

// 12.2a, 12.2c: an object travels as its number; what is not here arrives as
// none, and is counted. A call may wait for it instead.
func TestReferencesInArguments(t *testing.T) {
	inPosts(t, func(net *rpctest.Network, server *rpc.Binding[*poster], conns []*rpc.Conn, a, copyOf *rpc.Actor, mine, copied *poster) {
		hidden, _, err := rpc.Spawn(server, nil, nil)
		require.NoError(t, err)
		require.NoError(t, postPoint.Call(a, []rpc.Ref{a.Ref(), hidden.Ref(), 0}))
		net.Advance(time.Second)
		require.Equal(t, []rpc.Ref{a.Ref(), 0, 0}, copied.heard)
		require.EqualValues(t, 1, conns[1].Stats().Drops.UnknownRefs)

		require.NoError(t, postAwait.Call(a, pointer{hidden.Ref()}))
		net.Advance(time.Second)
		require.Len(t, copied.heard, 3, "it waits")
		require.NoError(t, hidden.OpenTo(conns[0]))
		net.Advance(time.Second)
		require.Equal(t, hidden.Ref(), copied.heard[3])

		other, _, err := rpc.Spawn(server, nil, nil)
		require.NoError(t, err)
		require.NoError(t, postAwait.Call(a, pointer{other.Ref()}))
		net.Advance(4 * time.Second)
		require.Len(t, copied.heard, 4)
		net.Advance(2 * time.Second)
		require.Zero(t, copied.heard[4], "5 s are over")

		require.NoError(t, postAsk.Call(copyOf, pointer{other.Ref()}))
		require.NoError(t, postAsk.Call(copyOf, pointer{hidden.Ref()}))
		net.Advance(time.Second)
		require.Equal(t, []rpc.Ref{0, hidden.Ref()}, mine.heard, "a client cannot name what it was never shown")
	})
}
