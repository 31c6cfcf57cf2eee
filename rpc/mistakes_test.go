package rpc

import (
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
