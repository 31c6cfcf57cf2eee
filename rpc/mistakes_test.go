package rpc

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link/linktest"
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

// TestSpawnsOfNothing: Spawn says that no actor is there, be it that its constructor has destroyed
// it or that the world is closed.
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

// TestTextsOfMistakes: an error names what was wrong in the words of the game, and what to do.
func TestTextsOfMistakes(t *testing.T) {
	type inside struct{ L List[int, int] }
	type listed struct {
		N      int
		Nested [2]inside
	}
	require.PanicsWithValue(t, "rpc: NewState for class Listed: listed.Nested.L is a List, which is no part of a state: keep it outside of the struct, declare it with NewList and bind it with ReplicateList",
		func() { NewState[listed](NewClass("Listed")) })

	var log strings.Builder
	config := Config{
		Logger:              slog.New(slog.NewTextHandler(&log, nil)),
		MaxConnsPerIdentity: 1, Rate: 2000, WorldRate: 1000, IdleTimeout: 5 * time.Millisecond,
	}
	w := newTestWorld(t, config).World
	require.Contains(t, log.String(), "Config.MaxConnsPerIdentity has no effect without Authenticate")
	require.Contains(t, log.String(), "Config.Rate is 2000, but all connections together have 1000 (Config.WorldRate)")
	require.Contains(t, log.String(), "Config.IdleTimeout is 5ms: ")

	class := NewClass("Shelf")
	list := NewList[uint32, label](class, "Names")
	b := Bind(w, class, func(*Actor) *List[uint32, label] { return new(List[uint32, label]) })
	ReplicateList(b, list, func(l *List[uint32, label]) *List[uint32, label] { return l })
	_, _, err := Spawn(b, nil, func(l *List[uint32, label]) {
		require.NoError(t, l.Set(77, label{Text: strings.Repeat("n", 1000)}))
	})
	require.ErrorContains(t, err, "state Shelf.Names: item 77: label: Text: has 1000 bytes; the limit is ")

	a, _, err := Spawn(b, nil, nil)
	require.NoError(t, err)
	require.NoError(t, w.Destroy(a))
	for name, err := range map[string]error{
		"TearOff": a.TearOff(), "SetDormant": a.SetDormant(true), "FlushDormancy": a.FlushDormancy(),
		"SetOwner": w.SetOwner(a, nil), "OpenTo": a.OpenTo(nil),
	} {
		require.EqualError(t, err, fmt.Sprintf("rpc: %s of %v: actor was destroyed: closed", name, a))
	}
	log.Reset()
	require.NoError(t, w.Close(t.Context(), 5, "kicked"))
	require.Contains(t, log.String(), "closing with a code that belongs to package rpc or bunch: a game's own codes begin at 1024")
	require.Contains(t, log.String(), "number=5 reason=kicked")
	w.Post(func() { t.Error("it ran") })
	require.Regexp(t, `post dropped" function=\S*TestTextsOfMistakes\S* error=`, log.String())

	log.Reset()
	for _, code := range []Code{0, HostClosedConnection, ServerFull, LoginElsewhere, 1024, 65535} {
		w.warnOfCode(code, "end")
	}
	require.Empty(t, log.String())
	for _, code := range []Code{1, 63, ConnectionLost, 84, 1023} {
		log.Reset()
		w.warnOfCode(code, "end")
		require.NotEmpty(t, log.String(), code)
	}
}

// TestLoginThatNobodyRuns: a server that isn't driven says so to a client that waits for
// Config.Login.
func TestLoginThatNobodyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := newTestWorld(t, Config{Login: func(*World, *Conn) error { return nil }, HandshakeTimeout: time.Second})
		near, far := linktest.Pipe()
		_, err := stopped.Attach(plug{far})
		require.NoError(t, err)
		_, err = newTestWorld(t, Config{}).Connect(t.Context(), plug{near})
		require.ErrorContains(t, err, "HandshakeTimeout: Config.Login has not run after 1s (Config.HandshakeTimeout): it runs in Dispatch, so is the server's world driven, by Run or by Tick in a loop?")
	})
}
