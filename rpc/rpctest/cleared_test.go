package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// A chest is compared twice a second, so what clients are sent may be older than what it holds.
var (
	chestClass = rpc.NewClass("Chest", rpc.UpdateRate(2))
	chestState = rpc.NewState[chest](chestClass)
	chestKnock = rpc.Multicast[int](chestClass, "Knock", rpc.Reliable)
)

type chest struct {
	Moves  uint32
	Key    uint32 `quiver:"owner"`
	Alarm  uint32 `quiver:"skipowner"`
	Inside uint32 `quiver:"if=open"`
}

// chestCopy is a chest's object, with all that it has ever held and run.
type chestCopy struct {
	now    chest
	held   []chest
	knocks []int
}

func chests(t *testing.T) (*rpc.World, *rpc.Binding[*chestCopy]) {
	w, err := rpc.NewWorld(rpc.Config{})
	require.NoError(t, err)
	b := rpc.Bind(w, chestClass, func(*rpc.Actor) *chestCopy { return &chestCopy{} })
	rpc.Replicate(b, chestState, func(c *chestCopy) *chest { return &c.now })
	rpc.OnRep(b, chestState, func(c *chestCopy, _ chest) { c.held = append(c.held, c.now) })
	rpc.On(b, chestKnock, func(c *chestCopy, _ *rpc.Call, n int) { c.knocks = append(c.knocks, n) })
	return w, b
}

// What the game clears before SetOwner or SetCondition reaches nobody who may see the field only
// since then, even if the change is not due to be sent yet.
func TestWhatWasClearedReachesNobody(t *testing.T) {
	random := testkit.Rand(t)
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		server, binding := chests(t)
		net.Server(server)
		anna, annas := chests(t)
		ben, bens := chests(t)
		net.Client(anna)
		net.Client(ben)
		a, own, err := rpc.Spawn(binding, server.Conns()[0], nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		for round := range 40 {
			net.Advance(time.Second)
			secret := uint32(2*round + 1) // odd values are secret
			own.now = chest{own.now.Moves + 1, secret, secret, secret}
			require.NoError(t, chestState.SetCondition(a, "open", false))
			net.Advance(time.Duration(random.Int64N(int64(time.Second))))
			copies := [2]*rpc.Binding[*chestCopy]{annas, bens}
			heir := (round + 1) % 2
			copyOfHeir, ok := copies[heir].At(a.Ref())
			require.True(t, ok)
			copyOfPrevious, ok := copies[1-heir].At(a.Ref())
			require.True(t, ok)
			copyOfHeir.held = nil
			copyOfPrevious.held = nil

			own.now = chest{own.now.Moves + 1, secret + 1, secret + 1, secret + 1}
			require.NoError(t, server.SetOwner(a, server.Conns()[heir]))
			require.NoError(t, chestState.SetCondition(a, "open", true))
			net.Advance(2 * time.Second)
			require.Equal(t, secret+1, copyOfHeir.now.Key)
			require.Equal(t, secret+1, copyOfPrevious.now.Alarm)
			for _, held := range copyOfHeir.held {
				require.NotEqual(t, secret, held.Key, "the new owner saw what was cleared")
				require.NotEqual(t, secret, held.Inside)
			}
			for _, held := range copyOfPrevious.held {
				require.NotEqual(t, secret, held.Alarm, "the previous owner saw what was cleared")
				require.NotEqual(t, secret, held.Inside)
			}
		}
	})
}

// A copy that is about to close for a previous owner, and then stays, has missed the reliable
// Multicasts made meanwhile. They are counted.
func TestWhatACopyMissedIsCounted(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		server, binding := chests(t)
		net.Server(server)
		anna, annas := chests(t)
		ben, _ := chests(t)
		net.Client(anna)
		net.Client(ben)
		conns := server.Conns()
		a, _, err := rpc.Spawn(binding, conns[0], nil)
		require.NoError(t, err)
		require.NoError(t, chestKnock.Call(a, 1))
		require.NoError(t, server.SetOwner(a, conns[1]))
		require.NoError(t, chestKnock.Call(a, 2))
		require.NoError(t, server.SetOwner(a, conns[0]))
		require.NoError(t, chestKnock.Call(a, 3))
		net.Advance(2 * time.Second)
		copyOfAnna, ok := annas.At(a.Ref())
		require.True(t, ok)
		require.Equal(t, []int{1, 3}, copyOfAnna.knocks)
		require.EqualValues(t, 1, conns[0].Stats().Drops.ActorClosed)
	})
}
