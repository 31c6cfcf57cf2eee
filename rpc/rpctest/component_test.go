package rpctest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// A tank has two components, of which the radio is bound at its clients only.
var (
	tank      = rpc.NewClass("Tank")
	tankHull  = rpc.NewState[hull](tank)
	drive     = rpc.Server[int](tank, "Drive", rpc.Reliable)
	turret    = rpc.NewComponent(tank, "Turret")
	turretAim = rpc.NewState[aim](turret)
	bombard   = rpc.Server[int](turret, "Shoot", rpc.Reliable)
	recoil    = rpc.Client[int](turret, "Recoil", rpc.Reliable)
	radio     = rpc.NewComponent(tank, "Radio")
	news      = rpc.Multicast[int](radio, "News", rpc.Reliable)
	turn      = rpc.Server[int](tank, "Turn", rpc.Reliable)
)

type hull struct{ Armour uint16 }

type aim struct {
	Angle float32
	Shell uint8 `quiver:"owner"`
}

// machinery is the objects of one world's tanks. What they hear, all of a tank's note in one list.
type machinery struct {
	*rpc.World
	tanks   *rpc.Binding[*tankBody]
	turrets *rpc.Binding[*tankTurret]
	radios  *rpc.Binding[*tankRadio]
	conn    *rpc.Conn
	heard   []string
}

type (
	tankBody   struct{ hull hull }
	tankTurret struct {
		actor *rpc.Actor
		body  *tankBody
		aim   aim
	}
	tankRadio struct{ volume int }
)

func newMachinery(t testing.TB, config rpc.Config, server bool) *machinery {
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	m := &machinery{World: w}
	note := func(format string, args ...any) { m.heard = append(m.heard, fmt.Sprintf(format, args...)) }
	m.tanks = rpc.Bind(w, tank, func(*rpc.Actor) *tankBody { return &tankBody{} })
	m.turrets = rpc.Bind(w, turret, func(a *rpc.Actor) *tankTurret {
		body, ok := m.tanks.Of(a)
		require.True(t, ok, "the actor's own object is there before")
		return &tankTurret{actor: a, body: body}
	})
	rpc.Replicate(m.tanks, tankHull, func(b *tankBody) *hull { return &b.hull })
	rpc.Replicate(m.turrets, turretAim, func(b *tankTurret) *aim { return &b.aim })
	rpc.OnRep(m.turrets, turretAim, func(b *tankTurret, old aim) { note("aim %v was %v", b.aim.Angle, old.Angle) })
	rpc.On(m.tanks, drive, func(_ *tankBody, _ *rpc.Call, n int) { note("drive %d", n) })
	rpc.On(m.tanks, turn, func(_ *tankBody, _ *rpc.Call, n int) { note("turn %d", n) })
	rpc.On(m.turrets, bombard, func(_ *tankTurret, _ *rpc.Call, n int) { note("shoot %d", n) })
	rpc.On(m.turrets, recoil, func(_ *tankTurret, _ *rpc.Call, n int) { note("recoil %d", n) })
	rpc.OnClose(m.tanks, func(_ *tankBody, why rpc.CloseReason) { note("tank ends: %v", why) })
	rpc.OnClose(m.turrets, func(_ *tankTurret, why rpc.CloseReason) { note("turret ends: %v", why) })
	rpc.OnOwner(m.turrets, func(b *tankTurret) { note("turret of %v", b.actor.Role()) })
	if !server {
		m.radios = rpc.Bind(w, radio, func(*rpc.Actor) *tankRadio { return &tankRadio{volume: 3} })
		rpc.On(m.radios, news, func(r *tankRadio, _ *rpc.Call, n int) { note("news %d at %d", n, r.volume) })
	}
	return m
}

// 12.1j: components replicate and call through their actor's channel, in one order with it.
func TestComponentsUseTheirActorsChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var conns []*rpc.Conn
		server := newMachinery(t, rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { conns = append(conns, c) }}, true)
		net.Server(server.World)
		var clients []*machinery
		for range 2 {
			m := newMachinery(t, rpc.Config{}, false)
			m.conn = net.Client(m.World)
			clients = append(clients, m)
		}
		a, body, err := rpc.Spawn(server.tanks, conns[0], func(b *tankBody) { b.hull.Armour = 50 }, rpc.AlwaysRelevant())
		require.NoError(t, err)
		gun, ok := server.turrets.Of(a)
		require.True(t, ok)
		require.Same(t, body, gun.body)
		gun.aim = aim{Angle: 1, Shell: 2}
		net.Advance(settle)
		first, ok := clients[0].turrets.At(a.Ref())
		require.True(t, ok)
		second, _ := clients[1].turrets.At(a.Ref())
		require.Equal(t, aim{Angle: 1, Shell: 2}, first.aim)
		require.Equal(t, aim{Angle: 1}, second.aim)
		require.EqualValues(t, 50, first.body.hull.Armour)
		clients[0].heard, clients[1].heard = nil, nil

		var want []string
		for i := range 20 {
			require.NoError(t, drive.Call(first.actor, i))
			require.NoError(t, bombard.Call(first.actor, i))
			require.NoError(t, turn.Call(first.actor, i))
			want = append(want, fmt.Sprint("drive ", i), fmt.Sprint("shoot ", i), fmt.Sprint("turn ", i))
		}
		require.ErrorIs(t, bombard.Call(second.actor, 1), rpc.ErrNotOwner)
		require.NoError(t, recoil.Call(a, 1))
		require.NoError(t, news.Call(a, 2))
		net.Advance(settle)
		require.Equal(t, want, server.heard)
		require.Equal(t, []string{"recoil 1", "news 2 at 3"}, clients[0].heard)
		require.Equal(t, []string{"news 2 at 3"}, clients[1].heard)

		gun.aim.Angle = 7
		require.NoError(t, server.SetOwner(a, conns[1]))
		net.Advance(settle)
		require.Contains(t, clients[0].heard, "turret of SimulatedProxy")
		require.Contains(t, clients[1].heard, "turret of AutonomousProxy")
		require.Contains(t, clients[1].heard, "aim 7 was 1")
		require.NoError(t, server.Destroy(a))
		net.Advance(settle)
		for _, m := range append(clients, server) {
			require.Equal(t, []string{"tank ends: Destroyed", "turret ends: Destroyed"}, m.heard[len(m.heard)-2:])
			_, ok := m.turrets.Of(a)
			require.False(t, ok)
		}
	})
}

// Bindings of components list their objects as those of actors do.
func TestBindingsOfComponents(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		server := newMachinery(t, rpc.Config{}, true)
		net.Server(server.World)
		var spawned, listed []*rpc.Actor
		for range 3 {
			a, err := server.Spawn(tank, nil)
			require.NoError(t, err)
			spawned = append(spawned, a)
		}
		for a, gun := range server.turrets.All() {
			require.Same(t, a, gun.actor)
			listed = append(listed, a)
		}
		require.True(t, slices.Equal(spawned, listed))
		require.ErrorIs(t, bombard.Call(spawned[0], 1), nil)
		require.NoError(t, recoil.Call(spawned[0], 1), "nobody's: it runs here")
		require.NoError(t, news.Call(spawned[0], 1), "nothing is bound here, and nobody has it")
		_, err := server.Spawn(turret, nil)
		require.ErrorContains(t, err, "neither bound nor in Config.Classes")
		_, err = rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{turret}})
		require.ErrorContains(t, err, `contains component "Tank.Turret": use its class "Tank"`)
		require.Panics(t, func() { rpc.NewComponent(tank, "Late") })
		require.Panics(t, func() { rpc.NewComponent(turret, "Inner") })
	})
}
