package rpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
)

// panics runs fn and requires a panic whose text contains want.
func panics(t *testing.T, want string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		require.Contains(t, recover(), want)
	}()
	fn()
}

func TestDeclaration(t *testing.T) {
	class := NewClass("Player", prioritised(bunch.High))
	fire := Server[vector](class, "Fire", Reliable, RateLimit(20), AnyCaller())
	hit := Client[named](class, "Hit", Unreliable)
	blast := Multicast[Raw](class, "Blast", UnreliableSequenced)

	require.Equal(t, "Player", class.Name())
	require.Equal(t, "Player", class.String())
	require.Equal(t, bunch.High, class.extended.Priority)
	require.Equal(t, bunch.Normal, NewClass("Other").extended.Priority)
	require.Equal(t, "Player.Fire", fire.String())
	require.Equal(t, "Player.Hit", hit.String())
	require.Equal(t, "Player.Blast", blast.String())
	require.Equal(t, []*method{fire.m, hit.m, blast.m}, class.methods)
	for i, m := range class.methods {
		require.Equal(t, i, m.id)
		require.Same(t, class, m.class)
		require.Equal(t, kind(i), m.kind)
	}
	require.Equal(t, 20.0, fire.m.rateLimit)
	require.True(t, fire.m.anyCaller)
	require.Equal(t, Unreliable, hit.m.delivery)
}

func TestDeclarationsThatPanic(t *testing.T) {
	class := NewClass("C")
	Server[int](class, "Twice", Reliable)
	panics(t, `rpc: class C declares C.Twice twice: give one of them another name`, func() { Client[int](class, "Twice", Reliable) })
	panics(t, `class name ""`, func() { NewClass("") })
	panics(t, `class name "a b"`, func() { NewClass("a b") })
	panics(t, `rpc: class name "aaaaaaaaaaaaaaaaaaaa"… has 129 bytes; the limit is 128`, func() { NewClass(strings.Repeat("a", 129)) })
	panics(t, `method name "x:y"`, func() { Server[int](class, "x:y", Reliable) })
	panics(t, `rpc: C.Bad: struct { F func() }.F: values of kind func cannot be encoded`, func() { Server[struct{ F func() }](class, "Bad", Reliable) })
	panics(t, `C.Pointer: *rpc.vector is a pointer`, func() { Server[*vector](class, "Pointer", Reliable) })
	panics(t, `C.Odd: unknown delivery 9`, func() { Server[int](class, "Odd", bunch.Delivery(9)) })
	panics(t, `RateLimit and AnyCaller require a Server RPC`, func() { Client[int](class, "Limited", Reliable, RateLimit(1)) })
	panics(t, `RateLimit and AnyCaller require a Server RPC`, func() { Multicast[int](class, "Any", Reliable, AnyCaller()) })
	panics(t, `C.Own: SkipOwner requires a Multicast RPC`, func() { Client[int](class, "Own", Reliable, SkipOwner()) })
	panics(t, `RateLimit(0) must be positive`, func() { RateLimit(0) })
	panics(t, `C.Map: call has at least 65539 bytes with its argument [65536]uint8; the limit is 65536 (bunch.MaxBunchBytes): use package stream for larger data`,
		func() { Server[[65536]byte](class, "Map", Reliable) })
	panics(t, `C.Grid: call has at least 120304 bytes`, func() { Multicast[[100][300][3]int16](class, "Grid", Unreliable) })
	panics(t, `C.Ask: call has at least`, func() { ServerRequest[[1 << 20]byte, None](class, "Ask") })
	panics(t, `C.Tell.Answer: call has at least`, func() { ClientRequest[None, [1 << 20]byte](class, "Tell") })
	panics(t, `C.Behind: call has at least 1103 bytes with its argument [1100]uint8; the limit is 1081 (ForceQueue)`,
		func() { Client[[1100]byte](class, "Behind", Unreliable, ForceQueue()) })
	Server[[65530]byte](class, "Fits", Reliable)
	Server[[]byte](class, "Varies", Reliable)

	class.markUsed()
	panics(t, `C.Late declared after a world started to use class C`, func() { Server[int](class, "Late", Reliable) })
}

// TestCallsThatNeverFit: a world refuses a class with a call that exceeds its MaxBunch, whatever
// its argument is.
func TestCallsThatNeverFit(t *testing.T) {
	class := NewClass("C")
	Server[[300]byte](class, "Map", Reliable)
	_, err := NewWorld(Config{Classes: []*Class{class}, Bunch: bunch.Config{MaxBunch: 300}})
	require.EqualError(t, err, "rpc: C.Map: call has at least 303 bytes with its argument [300]uint8; the limit is 300 (Config.Bunch.MaxBunch)")
	_, err = NewWorld(Config{Classes: []*Class{class}, Bunch: bunch.Config{MaxBunch: 303}})
	require.NoError(t, err)
}

func TestClassHasAtMostSoManyMethods(t *testing.T) {
	class := NewClass("C")
	class.methods = make([]*method, maxMethods)
	for i := range class.methods {
		class.methods[i] = &method{}
	}
	panics(t, `more than 16384 methods`, func() { Server[int](class, "OneMore", Reliable) })
}

// TestActorsDoNotTravel: an actor as an argument is refused, which is the first
// thing that Unreal users try.
func TestActorsDoNotTravel(t *testing.T) {
	type by struct{ Who *Actor }
	class := NewClass("Naive")
	for _, declare := range []func(){
		func() { Server[*Actor](class, "A", Reliable) },
		func() { Client[by](class, "B", Reliable) },
		func() { Multicast[[]by](class, "C", Reliable) },
		func() { ServerRequest[None, *Actor](class, "D") },
	} {
		func() {
			defer func() { require.Contains(t, recover(), "an Actor cannot be sent: use a Ref") }()
			declare()
		}()
	}
}
