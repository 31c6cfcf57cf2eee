package rpctest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
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

// A chestRoom has a server and two clients.
type chestRoom struct {
	*rpctest.Network
	server  *rpc.World
	binding *rpc.Binding[*chestCopy]
	conns   []*rpc.Conn
	copies  [2]*rpc.Binding[*chestCopy] // of the clients
}

func inChestRoom(t *testing.T, path emulation.Settings, fn func(t *testing.T, r *chestRoom)) {
	rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
		r := &chestRoom{Network: net}
		r.server, r.binding = chests(t)
		net.Server(r.server)
		for i := range r.copies {
			var client *rpc.World
			client, r.copies[i] = chests(t)
			net.Client(client)
		}
		r.conns = r.server.Conns()
		fn(t, r)
	})
}

// copyOf returns a client's copy, which must exist.
func (r *chestRoom) copyOf(t *testing.T, client int, a *rpc.Actor) *chestCopy {
	t.Helper()
	c, ok := r.copies[client].At(a.Ref())
	require.True(t, ok)
	return c
}

// hide spawns a chest for the first client. Then it gives the chest a secret and clears that some
// time later, many times. Each time it calls reveal, which shows fields to somebody else, and
// check with the two copies, which hold what they have seen since.
func (r *chestRoom) hide(
	t *testing.T, reveal func(a *rpc.Actor, owner int) error, check func(secret uint32, owner, other *chestCopy),
) {
	random := testkit.Rand(t)
	a, own, err := rpc.Spawn(r.binding, r.conns[0], nil, rpc.AlwaysRelevant())
	require.NoError(t, err)
	for round := range 40 {
		r.Advance(time.Second)
		secret := uint32(2*round + 1)
		own.now = chest{own.now.Moves + 1, secret, secret, secret}
		require.NoError(t, chestState.SetCondition(a, "open", false))
		r.Advance(time.Duration(random.Int64N(int64(time.Second))))
		next := (round + 1) % 2
		owner, other := r.copyOf(t, next, a), r.copyOf(t, 1-next, a)
		owner.held, other.held = nil, nil

		own.now = chest{own.now.Moves + 1, secret + 1, secret + 1, secret + 1}
		require.NoError(t, reveal(a, next))
		r.Advance(2 * time.Second)
		require.NotEmpty(t, owner.held)
		check(secret, owner, other)
	}
}

// What the game clears before SetOwner reaches neither the new owner nor the previous one, even if
// the change is not due to be sent yet.
func TestNewOwnersSeeNothingCleared(t *testing.T) {
	inChestRoom(t, rpctest.Off, func(t *testing.T, r *chestRoom) {
		reveal := func(a *rpc.Actor, owner int) error { return r.server.SetOwner(a, r.conns[owner]) }
		r.hide(t, reveal, func(secret uint32, owner, other *chestCopy) {
			require.Equal(t, secret+1, owner.now.Key)
			require.Equal(t, secret+1, other.now.Alarm)
			for _, held := range owner.held {
				require.NotEqual(t, secret, held.Key, "the new owner saw what was cleared")
			}
			for _, held := range other.held {
				require.NotEqual(t, secret, held.Alarm, "the previous owner saw what was cleared")
			}
		})
	})
}

// What the game clears before SetCondition reaches nobody.
func TestConditionsShowNothingCleared(t *testing.T) {
	inChestRoom(t, rpctest.Off, func(t *testing.T, r *chestRoom) {
		reveal := func(a *rpc.Actor, _ int) error { return chestState.SetCondition(a, "open", true) }
		r.hide(t, reveal, func(secret uint32, owner, other *chestCopy) {
			require.Equal(t, secret+1, owner.now.Inside)
			require.Equal(t, secret+1, other.now.Inside)
			for _, held := range slices.Concat(owner.held, other.held) {
				require.NotEqual(t, secret, held.Inside)
			}
		})
	})
}

// A copy that is about to close for a previous owner, and then stays, has missed the reliable
// Multicasts made meanwhile. They are counted.
func TestWhatACopyMissedIsCounted(t *testing.T) {
	inChestRoom(t, rpctest.Average, func(t *testing.T, r *chestRoom) {
		a, _, err := rpc.Spawn(r.binding, r.conns[0], nil)
		require.NoError(t, err)
		require.NoError(t, chestKnock.Call(a, 1))
		require.NoError(t, r.server.SetOwner(a, r.conns[1]))
		require.NoError(t, chestKnock.Call(a, 2))
		require.NoError(t, r.server.SetOwner(a, r.conns[0]))
		require.NoError(t, chestKnock.Call(a, 3))
		r.Advance(2 * time.Second)
		require.Equal(t, []int{1, 3}, r.copyOf(t, 0, a).knocks)
		require.EqualValues(t, 1, r.conns[0].Stats().Drops.ActorClosed)
	})
}
