package rpctest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// The class of the tests of Unreal's rules of RPCs, one test a rule, by the ids of PORTING.md.
var (
	cannon     = rpc.NewClass("Cannon")
	cannonAim  = rpc.NewState[barrel](cannon)
	cannonLoad = rpc.NewList[uint32, int](cannon, "Load")
	fuse       = rpc.Server[int](cannon, "Fuse", rpc.Reliable)
	salvo      = rpc.Server[int](cannon, "Salvo", rpc.Reliable, rpc.AnyCaller())
	kick       = rpc.Client[int](cannon, "Recoil", rpc.Reliable)
	smoke      = rpc.Multicast[int](cannon, "Smoke", rpc.Unreliable)
	boom       = rpc.Multicast[int](cannon, "Boom", rpc.Reliable)
	drift      = rpc.Client[rpc.Raw](cannon, "Drift", rpc.Unreliable)
	urgent     = rpc.Client[int](cannon, "Urgent", rpc.Reliable, rpc.ForceSend())
	rush       = rpc.Server[int](cannon, "Rush", rpc.Reliable, rpc.ForceSend())
	after      = rpc.Client[int](cannon, "After", rpc.Unreliable, rpc.ForceQueue())
	afterAll   = rpc.Multicast[rpc.Raw](cannon, "AfterAll", rpc.Unreliable, rpc.ForceQueue())

	slowGun   = rpc.NewClass("SlowGun", rpc.UpdateRate(5))
	slowSmoke = rpc.Multicast[int](slowGun, "Smoke", rpc.Unreliable)
	slowAim   = rpc.NewState[barrel](slowGun)
	slowAfter = rpc.Multicast[int](slowGun, "After", rpc.Unreliable, rpc.ForceQueue())
)

type barrel struct{ Turn int }

// gun is an object of either class, on either side.
type gun struct {
	actor *rpc.Actor
	aim   barrel
	load  rpc.List[uint32, int]
	heard []string
	on    func(what string)
}

func (g *gun) hear(what string, n int) {
	g.heard = append(g.heard, fmt.Sprint(what, n))
	if g.on != nil {
		g.on(what)
	}
}

// battery is a server and clients with guns.
type battery struct {
	t       *testing.T
	net     *rpctest.Network
	server  *rpc.World
	guns    *rpc.Binding[*gun]
	slow    *rpc.Binding[*gun]
	conns   []*rpc.Conn
	worlds  []*rpc.World
	clients []map[rpc.Ref]*gun
}

func newBattery(t *testing.T, net *rpctest.Network, clients int, config rpc.Config) *battery {
	t.Helper()
	b := &battery{t: t, net: net}
	config.OnConnect = func(_ *rpc.World, c *rpc.Conn) { b.conns = append(b.conns, c) }
	b.server, b.guns, b.slow = bindGuns(t, config, make(map[rpc.Ref]*gun))
	net.Server(b.server)
	for range clients {
		b.join()
	}
	return b
}

func (b *battery) join() {
	b.t.Helper()
	mine := make(map[rpc.Ref]*gun)
	w, _, _ := bindGuns(b.t, rpc.Config{}, mine)
	b.net.Client(w)
	b.worlds, b.clients = append(b.worlds, w), append(b.clients, mine)
}

func bindGuns(t *testing.T, config rpc.Config, into map[rpc.Ref]*gun) (w *rpc.World, guns, slow *rpc.Binding[*gun]) {
	t.Helper()
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	construct := func(a *rpc.Actor) *gun {
		into[a.Ref()] = &gun{actor: a}
		return into[a.Ref()]
	}
	guns, slow = rpc.Bind(w, cannon, construct), rpc.Bind(w, slowGun, construct)
	rpc.Replicate(guns, cannonAim, func(g *gun) *barrel { return &g.aim })
	rpc.ReplicateList(guns, cannonLoad, func(g *gun) *rpc.List[uint32, int] { return &g.load })
	rpc.OnRep(guns, cannonAim, func(g *gun, _ barrel) { g.hear("aim ", g.aim.Turn) })
	for what, h := range map[string]rpc.Handle[int]{"fuse ": fuse, "salvo ": salvo, "recoil ": kick, "smoke ": smoke, "boom ": boom, "urgent ": urgent, "rush ": rush, "after ": after} {
		rpc.On(guns, h, func(g *gun, _ *rpc.Call, n int) { g.hear(what, n) })
	}
	rpc.On(guns, drift, func(g *gun, _ *rpc.Call, b rpc.Raw) { g.hear("drift ", len(b)) })
	rpc.On(guns, afterAll, func(g *gun, _ *rpc.Call, b rpc.Raw) {
		g.hear(fmt.Sprintf("after %d bytes at turn %d with ", len(b), g.aim.Turn), g.load.Len())
	})
	rpc.Replicate(slow, slowAim, func(g *gun) *barrel { return &g.aim })
	rpc.On(slow, slowSmoke, func(g *gun, _ *rpc.Call, n int) { g.hear("smoke ", n) })
	rpc.On(slow, slowAfter, func(g *gun, _ *rpc.Call, n int) { g.hear(fmt.Sprintf("turn %d after ", g.aim.Turn), n) })
	return w, guns, slow
}

// spawn makes a gun for everybody, which a client owns, or nobody at -1.
func (b *battery) spawn(of *rpc.Binding[*gun], owner int) *gun {
	b.t.Helper()
	var conn *rpc.Conn
	if owner >= 0 {
		conn = b.conns[owner]
	}
	_, g, err := rpc.Spawn(of, conn, nil, rpc.AlwaysRelevant())
	require.NoError(b.t, err)
	b.net.Advance(time.Second)
	for i := range b.clients {
		require.True(b.t, b.net.Until(settle, func() bool { return b.at(i, g) != nil }), "its open may be lost more than once")
		b.at(i, g).heard = nil
	}
	return g
}

func (b *battery) at(client int, g *gun) *gun { return b.clients[client][g.actor.Ref()] }

// heard waits, and returns what the server's gun and the clients' have heard since the last time.
func (b *battery) heard(g *gun) (all []string) {
	b.net.Advance(time.Second)
	for _, each := range append([]*gun{g}, b.copies(g)...) {
		all = append(all, fmt.Sprint(each.heard))
		each.heard = nil
	}
	return all
}

func (b *battery) copies(g *gun) (copies []*gun) {
	for i := range b.clients {
		copies = append(copies, b.at(i, g))
	}
	return copies
}

// inBattery runs a test with guns of client 0, of client 1 and of nobody.
func inBattery(t *testing.T, fn func(b *battery, own, other, nobodys *gun)) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 2, rpc.Config{})
		fn(b, b.spawn(b.guns, 0), b.spawn(b.guns, 1), b.spawn(b.guns, -1))
	})
}

// 6.1a: Server RPC, called on the server, any owner or none: runs on the server.
func TestRule_6_1_a(t *testing.T) {
	inBattery(t, func(b *battery, own, other, nobodys *gun) {
		for _, g := range []*gun{own, other, nobodys} {
			require.NoError(t, fuse.Call(g.actor, 1))
			require.Equal(t, []string{"[fuse 1]", "[]", "[]"}, b.heard(g))
		}
	})
}

// 6.1b: Server RPC, called by the client that owns the actor: runs on the server.
func TestRule_6_1_b(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		require.NoError(t, fuse.Call(b.at(0, own).actor, 1))
		require.Equal(t, []string{"[fuse 1]", "[]", "[]"}, b.heard(own))
	})
}

// 6.1c: Server RPC, called by another client, or on nobody's actor: Unreal
// drops it silently. Here the caller is told, unless AnyCaller lets it.
func TestRule_6_1_c(t *testing.T) {
	inBattery(t, func(b *battery, own, _, nobodys *gun) {
		for _, g := range []*gun{own, nobodys} {
			require.ErrorIs(t, fuse.Call(b.at(1, g).actor, 1), rpc.ErrNotOwner)
			require.NoError(t, salvo.Call(b.at(1, g).actor, 2))
			require.Equal(t, []string{"[salvo 2]", "[]", "[]"}, b.heard(g))
		}
	})
}

// 6.1d: Client RPC, called on the server, a client's actor: runs on that client.
// 6.1e: Client RPC, called on the server, nobody's actor: runs on the server.
func TestRule_6_1_d_e(t *testing.T) {
	inBattery(t, func(b *battery, own, other, nobodys *gun) {
		for g, want := range map[*gun][]string{own: {"[]", "[recoil 1]", "[]"}, other: {"[]", "[]", "[recoil 1]"}, nobodys: {"[recoil 1]", "[]", "[]"}} {
			require.NoError(t, kick.Call(g.actor, 1))
			require.Equal(t, want, b.heard(g))
		}
	})
}

// 6.1f: Client RPC, called on a client, any owner: runs there, and is not sent.
// 6.1h: NetMulticast, called on a client: runs there alone.
func TestRule_6_1_f_h(t *testing.T) {
	inBattery(t, func(b *battery, own, other, nobodys *gun) {
		for _, g := range []*gun{own, other, nobodys} {
			require.NoError(t, kick.Call(b.at(0, g).actor, 1))
			require.NoError(t, boom.Call(b.at(0, g).actor, 2))
			require.Equal(t, []string{"[]", "[recoil 1 boom 2]", "[]"}, b.heard(g))
		}
	})
}

// 6.1g: NetMulticast, called on the server: runs on the server and on every
// client for which the actor is relevant.
func TestRule_6_1_g(t *testing.T) {
	inBattery(t, func(b *battery, own, other, nobodys *gun) {
		for _, g := range []*gun{own, other, nobodys} {
			require.NoError(t, boom.Call(g.actor, 1))
			require.Equal(t, []string{"[boom 1]", "[boom 1]", "[boom 1]"}, b.heard(g))
		}
		hidden, _, err := rpc.Spawn(b.guns, b.conns[0], nil) // for its owner alone
		require.NoError(t, err)
		b.net.Advance(time.Second)
		require.NoError(t, boom.Call(hidden, 1))
		b.net.Advance(time.Second)
		require.Equal(t, []string{"boom 1"}, b.clients[0][hidden.Ref()].heard)
		require.Nil(t, b.clients[1][hidden.Ref()])
	})
}

// 6.1m: return values are impossible; a reply is a second RPC the other way.
func TestRule_6_1_m(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		own.on = func(string) { require.NoError(t, kick.Call(own.actor, 2)) }
		require.NoError(t, fuse.Call(b.at(0, own).actor, 1))
		require.Equal(t, []string{"[fuse 1]", "[recoil 2]", "[]"}, b.heard(own))
	})
}

// 6.2a: an actor that is destroyed: dropped with a warning. Here the caller is told.
func TestRule_6_2_a(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		copied := b.at(0, own).actor
		require.NoError(t, b.server.Destroy(own.actor))
		require.ErrorIs(t, kick.Call(own.actor, 1), rpc.ErrClosed)
		b.net.Advance(time.Second)
		require.ErrorIs(t, fuse.Call(copied, 1), rpc.ErrClosed)
	})
}

// 6.2c: non-relevant clients miss a multicast; late joiners never get it.
func TestRule_6_2_c(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		require.NoError(t, boom.Call(own.actor, 1))
		b.net.Advance(time.Second)
		b.join()
		b.net.Advance(time.Second)
		require.Empty(t, b.at(2, own).heard)
	})
}

// 6.2h: the actor has no channel: the server opens it first, so that the open precedes the RPC.
func TestRule_6_2_h(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		own.aim.Turn = 1
		own.actor.CloseTo(b.conns[0])
		b.net.Advance(time.Second)
		require.Nil(t, b.worlds[0].Actor(own.actor.Ref()))
		require.NoError(t, kick.Call(own.actor, 1))
		b.net.Advance(time.Second)
		require.Equal(t, []string{"aim 1", "recoil 1"}, b.at(0, own).heard)
	})
}

// 6.2, step 4: unreliable, not multicast, connection not ready: dropped.
// Multicasts are not, and reliable calls neither.
func TestRule_6_2_saturated(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{Rate: 20_000})
		g := b.spawn(b.guns, 0)
		for n := range 60 {
			for range 4 {
				require.NoError(t, drift.Call(g.actor, make(rpc.Raw, 1000)), "who calls is not told")
			}
			require.NoError(t, smoke.Call(g.actor, n))
			require.NoError(t, kick.Call(g.actor, n))
			net.Advance(time.Nanosecond)
		}
		net.Advance(10 * time.Second)
		heard := b.at(0, g).heard
		count := func(what string) (n int) {
			for _, h := range heard {
				if len(h) > len(what) && h[:len(what)] == what {
					n++
				}
			}
			return n
		}
		drops := b.conns[0].Stats().Drops
		require.Equal(t, 60, count("smoke "), "multicasts wait")
		require.Equal(t, 60, count("recoil "), "reliable calls pass")
		require.Greater(t, int(drops.Saturated), 100)
		require.Equal(t, 240, count("drift ")+int(drops.Saturated), "each arrived or was counted")
	})
}

// 6.2k, ForceSend: it leaves at once, even from a handler, and not with the
// Flush. What was called before it leaves with it.
func TestRule_6_2_k_ForceSend(t *testing.T) {
	inBattery(t, func(b *battery, own, other, _ *gun) {
		left := func() uint64 { return b.conns[0].Stats().PacketsOut }
		own.on = func(what string) {
			before := left()
			require.NoError(t, kick.Call(own.actor, 1))
			require.Equal(t, before, left(), "an ordinary call waits for Flush")
			if what == "salvo " {
				require.NoError(t, urgent.Call(own.actor, 2))
				require.Equal(t, before+1, left(), "and leaves with one that does not wait")
				require.NoError(t, kick.Call(own.actor, 3))
				require.Equal(t, before+1, left(), "what comes later waits again")
			}
		}
		require.NoError(t, fuse.Call(b.at(0, own).actor, 1))
		require.Equal(t, []string{"[fuse 1]", "[recoil 1]", "[]"}, b.heard(own))
		require.NoError(t, salvo.Call(b.at(0, own).actor, 1))
		require.Equal(t, []string{"[salvo 1]", "[recoil 1 urgent 2 recoil 3]", "[]"}, b.heard(own))

		end := b.at(0, own).actor.Conn()
		before := end.Stats().PacketsOut
		b.at(0, own).on = func(string) {
			require.NoError(t, rush.Call(b.at(0, own).actor, 9))
			require.Equal(t, before+1, end.Stats().PacketsOut, "a client's, too")
		}
		own.on = nil
		b.at(0, own).hear("by hand ", 0)
		require.NoError(t, kick.Call(own.actor, 1))
		before = end.Stats().PacketsOut
		b.at(0, own).on = nil
		require.Equal(t, "[rush 9]", b.heard(own)[0])
	})
}

// 6.2k, ForceQueue: it leaves behind the state of its actor, as of the Flush,
// and OnRep has run before the handler.
func TestRule_6_2_k_ForceQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 2, rpc.Config{})
		g := b.spawn(b.guns, 0)
		net.Emulate(rpctest.Off)
		net.Advance(3 * time.Second)
		b.heard(g)
		require.NoError(t, after.Call(g.actor, 1))
		require.NoError(t, kick.Call(g.actor, 2))
		require.NoError(t, afterAll.Call(g.actor, make(rpc.Raw, 10)))
		g.aim.Turn = 7 // after the calls, before the Flush
		require.NoError(t, g.load.Set(1, 1))
		require.Equal(t, []string{
			"[after 10 bytes at turn 7 with 1]", // on the server it runs in the next Dispatch
			"[recoil 2 aim 7 after 1 after 10 bytes at turn 7 with 1]",
			"[aim 7 after 10 bytes at turn 7 with 1]",
		}, b.heard(g))
		require.NoError(t, after.Call(g.actor, 3))
		require.Equal(t, []string{"[]", "[after 3]", "[]"}, b.heard(g), "it needs no change")
	})
}

// 6.2k: a call waits for the actor's next update, which UpdateRate spaces out.
func TestRule_6_2_k_ForceQueueWaitsForTheUpdate(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{})
		g := b.spawn(b.slow, 0)
		for n := 1; n <= 30; n++ {
			g.aim.Turn = n
			require.NoError(t, slowAfter.Call(g.actor, n))
			net.Advance(time.Nanosecond)
		}
		net.Advance(time.Second)
		heard := b.at(0, g).heard
		require.Len(t, heard, 30)
		turns := make(map[int]int)
		for i, h := range heard {
			var turn, n int
			_, err := fmt.Sscanf(h, "turn %d after %d", &turn, &n)
			require.NoError(t, err)
			require.Equal(t, i+1, n)
			require.GreaterOrEqual(t, turn, n, "the state is at least as new as the call")
			turns[turn]++
		}
		require.LessOrEqual(t, len(turns), 7, "5 updates a second")
	})
}

// 6.2k: queued calls are bounded, and none is lost without a count: not beyond
// the bound, not with the channel, not when the path is full.
func TestRule_6_2_k_ForceQueueIsBounded(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{Rate: 20_000})
		g := b.spawn(b.guns, 0)
		require.ErrorContains(t, afterAll.Call(g.actor, make(rpc.Raw, 1100)), "the limit for ForceQueue is")
		g.heard = nil
		for range 30 {
			require.NoError(t, afterAll.Call(g.actor, make(rpc.Raw, 1000)))
		}
		dropped := int(b.conns[0].Stats().Drops.Saturated)
		require.Equal(t, 22, dropped, "8 KiB wait")
		net.Advance(5 * time.Second)
		require.Len(t, b.at(0, g).heard, 30-dropped)
		for n := range 200 {
			g.aim.Turn = n
			require.NoError(t, afterAll.Call(g.actor, make(rpc.Raw, 500)))
			require.NoError(t, afterAll.Call(g.actor, make(rpc.Raw, 600)))
			net.Advance(time.Nanosecond)
		}
		net.Advance(5 * time.Second)
		calls := 0
		for _, h := range b.at(0, g).heard {
			if h[:5] == "after" {
				calls++
			}
		}
		stats := b.conns[0].Stats()
		t.Logf("%d of 430 ran, %d dropped, %d packets lost, %+v", calls, stats.Drops.Saturated, stats.PacketsLost, stats.Drops)
		require.InDelta(t, 430, calls+int(stats.Drops.Saturated), float64(2*stats.PacketsLost), "but for packets that were lost")

		before := b.conns[0].Stats().Drops.ActorClosed
		require.NoError(t, after.Call(g.actor, 1))
		require.NoError(t, b.server.Destroy(g.actor))
		require.EqualValues(t, before+1, b.conns[0].Stats().Drops.ActorClosed)
	})
}

// 6.2k: what makes no sense is refused where it is declared.
func TestRule_6_2_k_Declarations(t *testing.T) {
	class := rpc.NewClass("Refused")
	require.PanicsWithValue(t, "rpc: Refused.A: ForceSend and ForceQueue are mutually exclusive", func() {
		rpc.Client[int](class, "A", rpc.Unreliable, rpc.ForceSend(), rpc.ForceQueue())
	})
	require.PanicsWithValue(t, "rpc: Refused.B: ForceQueue requires a Client or Multicast RPC, because clients send no states", func() {
		rpc.Server[int](class, "B", rpc.Unreliable, rpc.ForceQueue())
	})
	require.PanicsWithValue(t, "rpc: Refused.C: ForceQueue requires Unreliable delivery, because calls with states are sent once and unordered", func() {
		rpc.Multicast[int](class, "C", rpc.Reliable, rpc.ForceQueue())
	})
}

// 6.3a: the 3rd and later unreliable multicast of one function on one object
// between two updates of that is dropped, and counted here. Others are not:
// reliable ones, other functions, other objects. The server runs them all.
func TestRule_6_3_a(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 2, rpc.Config{MaxRPCPerNetUpdate: 2})
		g, other := b.spawn(b.guns, 0), b.spawn(b.guns, 0)
		for n := range 5 {
			require.NoError(t, smoke.Call(g.actor, n))
			require.NoError(t, boom.Call(g.actor, n))
		}
		require.NoError(t, smoke.Call(other.actor, 8))
		require.NoError(t, afterAll.Call(g.actor, rpc.Raw{}))
		for _, c := range b.conns {
			require.EqualValues(t, 3, c.Stats().Drops.Throttled)
		}
		heard := b.heard(g)
		require.Equal(t, "[smoke 0 boom 0 smoke 1 boom 1 smoke 2 boom 2 smoke 3 boom 3 smoke 4 boom 4 after 0 bytes at turn 0 with 0]", heard[0])
		for _, h := range heard[1:] {
			require.Contains(t, h, "smoke 0")
			require.Contains(t, h, "smoke 1")
			require.NotContains(t, h, "smoke 2")
			require.Contains(t, h, "boom 4")
			require.Contains(t, h, "after 0")
		}
		require.Equal(t, []string{"[smoke 8]", "[smoke 8]", "[smoke 8]"}, b.heard(other))
	})
}

// 6.3a: Quiver's default is no limit.
func TestRule_6_3_a_default(t *testing.T) {
	inBattery(t, func(b *battery, own, _, _ *gun) {
		for n := range 5 {
			require.NoError(t, smoke.Call(own.actor, n))
		}
		require.Equal(t, slices.Repeat([]string{"[smoke 0 smoke 1 smoke 2 smoke 3 smoke 4]"}, 3), b.heard(own))
		require.Zero(t, b.conns[0].Stats().Drops.Throttled)
	})
}

// 6.3b: the count begins anew with the object's update, and an actor may update rarely.
func TestRule_6_3_b(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{MaxRPCPerNetUpdate: 2})
		quick, slow := b.spawn(b.guns, 0), b.spawn(b.slow, 0)
		for n := range 30 { // a second
			for range 3 {
				require.NoError(t, smoke.Call(quick.actor, n))
				require.NoError(t, slowSmoke.Call(slow.actor, n))
			}
			net.Advance(time.Nanosecond)
		}
		net.Advance(time.Second)
		require.Len(t, b.at(0, quick).heard, 60)
		require.InDelta(t, 10, len(b.at(0, slow).heard), 2, "two at each of 5 updates")
		require.EqualValues(t, 180-60-len(b.at(0, slow).heard), b.conns[0].Stats().Drops.Throttled)
	})
}

// 6.4a: reliable RPCs are ordered within one actor. 6.4c: reliable, unreliable and property
// notifications: no order; but immediate RPCs precede properties, and queued ones follow them.
func TestRule_6_4_a_c(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{})
		g := b.spawn(b.guns, 0)
		for n := range 100 {
			require.NoError(t, kick.Call(g.actor, n))
			require.NoError(t, boom.Call(g.actor, n))
			net.Advance(time.Nanosecond)
		}
		net.Advance(settle)
		var want []string
		for n := range 100 {
			want = append(want, fmt.Sprint("recoil ", n), fmt.Sprint("boom ", n))
		}
		require.Equal(t, want, b.at(0, g).heard)
		net.Emulate(rpctest.Off)
		net.Advance(settle)
		b.heard(g)
		g.aim.Turn = 5
		require.NoError(t, after.Call(g.actor, 1))
		require.NoError(t, drift.Call(g.actor, make(rpc.Raw, 3)))
		require.NoError(t, kick.Call(g.actor, 1))
		require.Equal(t, []string{"[]", "[drift 3 recoil 1 aim 5 after 1]"}, b.heard(g))
	})
}

// 4.5b: Unreal drops a packet that comes late, and so never runs an older
// unreliable RPC after a newer one. Here it runs.
func TestRule_4_5_b(t *testing.T) {
	weather := emulation.Settings{PktLag: 10 * time.Millisecond, PktOrder: true}
	rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{})
		g := b.spawn(b.guns, 0)
		var sent []string
		net.SetTickRate(120)
		net.OnTick(func(time.Time) {
			if n := len(sent); n < 60 {
				sent = append(sent, fmt.Sprint("smoke ", n))
				require.NoError(t, smoke.Call(g.actor, n))
			}
		})
		net.Advance(2 * time.Second)
		heard := b.at(0, g).heard
		require.ElementsMatch(t, sent, heard, "late ones run")
		require.NotEqual(t, sent, heard, "after newer ones")
	})
}

// 6.2h: the open has what Spawn's set left, and a call that follows runs before
// the client has what was changed since.
func TestRule_6_2_h_since(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		b := newBattery(t, net, 1, rpc.Config{})
		var g *gun
		net.OnTick(func(time.Time) {
			if g != nil {
				return
			}
			_, spawned, err := rpc.Spawn(b.guns, b.conns[0], func(g *gun) { g.aim.Turn = 1 })
			require.NoError(t, err)
			g = spawned
			g.aim.Turn = 2
			require.NoError(t, kick.Call(g.actor, 1))
		})
		net.Advance(time.Second)
		require.Equal(t, []string{"aim 1", "recoil 1", "aim 2"}, b.at(0, g).heard)
	})
}

// What a client's constructor posts is BeginPlay: it runs when the copy has the
// states and lists of its open.
func TestConstructorsPostTheirBeginPlay(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		newWorld := func(construct func(*rpc.World, *gun)) (*rpc.World, *rpc.Binding[*gun]) {
			w, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			guns := rpc.Bind(w, cannon, func(a *rpc.Actor) *gun {
				g := &gun{actor: a}
				construct(w, g)
				return g
			})
			rpc.Replicate(guns, cannonAim, func(g *gun) *barrel { return &g.aim })
			return w, guns
		}
		server, guns := newWorld(func(*rpc.World, *gun) {})
		net.Server(server)
		var began []int
		client, _ := newWorld(func(w *rpc.World, g *gun) {
			w.Post(func() { began = append(began, g.aim.Turn) })
		})
		net.Client(client)
		_, _, err := rpc.Spawn(guns, nil, func(g *gun) { g.aim.Turn = 4 }, rpc.AlwaysRelevant())
		require.NoError(t, err)
		net.Advance(time.Second)
		require.Equal(t, []int{4}, began)
	})
}
