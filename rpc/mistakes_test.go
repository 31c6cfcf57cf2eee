package rpc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNilsAreNamed: what is nil is refused where it is given, in words. A hook
// would panic in some later tick.
func TestNilsAreNamed(t *testing.T) {
	w := newTestWorld(t, Config{}).World
	class := NewClass("Nils")
	for want, declare := range map[string]func(){
		`rpc: NewClass("X"): option 1 is nil`:                           func() { NewClass("X", nil) },
		`rpc: Nils.A: option 2 is nil`:                                  func() { Server[int](class, "A", Reliable, RateLimit(1), nil) },
		`rpc: method "A" of a nil *Class: use the result of NewClass`:   func() { Client[int](nil, "A", Reliable) },
		`rpc: NewComponent of a nil *Class: use the result of NewClass`: func() { NewComponent(nil, "A") },
		`rpc: NewState of a nil *Class: use the result of NewClass`:     func() { NewState[struct{ X int }](nil) },
		`rpc: list "L" of a nil *Class: use the result of NewClass`:     func() { NewList[int, int](nil, "L") },
		`rpc: Bind(Nils) in a nil *World`:                               func() { Bind(nil, class, func(*Actor) int { return 0 }) },
		`rpc: World.OnTick: no function`:                                func() { w.OnTick(nil) },
		`rpc: World.OnConnect: no function`:                             func() { w.OnConnect(nil) },
		`rpc: World.OnDisconnect: no function`:                          func() { w.OnDisconnect(nil) },
		`rpc: World.Post: no function`:                                  func() { w.Post(nil) },
		`rpc: World.Do: no function`:                                    func() { _ = w.Do(t.Context(), nil) },
	} {
		require.PanicsWithValue(t, want, declare)
	}

	serverTLS, clientTLS := credentials(t)
	_, err := Listen("127.0.0.1:0", serverTLS, nil)
	require.ErrorContains(t, err, "cannot listen for a nil *World")
	_, err = Dial(t.Context(), "127.0.0.1:1", clientTLS, nil)
	require.ErrorContains(t, err, `Dial "127.0.0.1:1" for a nil *World`)
	_, err = DialPacket(t.Context(), nil, nil, clientTLS, nil)
	require.ErrorContains(t, err, "DialPacket for a nil *World")
	_, err = DialPacket(t.Context(), nil, nil, clientTLS, newTestWorld(t, Config{}).World)
	require.ErrorContains(t, err, "DialPacket with a nil socket")
	_, err = ListenPacket(nil, serverTLS, newTestWorld(t, Config{}).World)
	require.ErrorContains(t, err, "cannot listen on a nil socket")

	b := Bind(w, class, func(*Actor) int { return 0 })
	_, _, err = Spawn(b, nil, nil, AlwaysRelevant(), nil)
	require.ErrorContains(t, err, `Spawn of a "Nils": option 2 is nil`)
}

// TestMistakesInOrder: what comes too late, or twice, to have its effect is refused where it is
// done.
func TestMistakesInOrder(t *testing.T) {
	w := newTestWorld(t, Config{}).World
	class := NewClass("Order").Errors(ErrClosed)
	names, list := NewState[label](class), NewList[int, int](class, "List")
	require.PanicsWithValue(t, "rpc: Errors of class Order called twice: declare all errors in one call",
		func() { class.Errors(ErrDormant) })
	b := Bind(w, class, func(*Actor) *label { return new(label) })
	_, _, err := Spawn(b, nil, nil)
	require.NoError(t, err)
	const want = "rpc: %s(Order%s): class Order already has objects here, to which it would not apply: call %[1]s before the first Spawn, Place or Dial"
	for declare, late := range map[[2]string]func(){
		{"Replicate", ".label"}:    func() { Replicate(b, names, func(l *label) *label { return l }) },
		{"ReplicateList", ".List"}: func() { ReplicateList(b, list, func(*label) *List[int, int] { return nil }) },
		{"At", ""}:                 func() { At(b, func(*label) (x, y, z float32) { return 0, 0, 0 }) },
		{"Relevant", ""}:           func() { Relevant(b, func(*label, *Conn) bool { return true }) },
	} {
		require.PanicsWithValue(t, fmt.Sprintf(want, declare[0], declare[1]), late)
	}

	unbound := NewClass("Unbound2")
	w = newTestWorld(t, Config{Classes: []*Class{unbound}}).World
	_, err = w.Spawn(unbound, nil)
	require.NoError(t, err)
	require.PanicsWithValue(t, "rpc: Bind: Unbound2 1 exists already and would have no object: call Bind before Spawn",
		func() { Bind(w, unbound, func(*Actor) int { return 0 }) })
}

// TestSpawnsOfNothing: Spawn says that no actor is there, be it that its constructor has destroyed it
// or that the world is closed.
func TestSpawnsOfNothing(t *testing.T) {
	w := newTestWorld(t, Config{}).World
	doomed := Bind(w, NewClass("Doomed"), func(a *Actor) int { return 0 })
	var constructed *Actor
	suicidal := Bind(w, NewClass("Suicidal"), func(a *Actor) int {
		constructed = a
		require.NoError(t, w.Destroy(a))
		return 0
	})
	a, _, err := Spawn(suicidal, nil, nil)
	require.Nil(t, a)
	require.ErrorIs(t, err, ErrClosed)
	require.EqualError(t, err, `rpc: Spawn of a "Suicidal": its constructor, or the function given to Spawn, destroyed it: closed`)
	require.True(t, constructed.dead)

	require.NoError(t, w.Close(t.Context(), HostClosedConnection, "end"))
	_, _, err = Spawn(doomed, nil, nil)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = Place(doomed, "door", nil)
	require.ErrorIs(t, err, ErrClosed)
}
