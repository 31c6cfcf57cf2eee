package rpc

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// padded has bytes between its fields that mean nothing.
type padded struct {
	Flag bool
	X    uint64
}

// TestBytesBetweenFieldsAreNoChange: padding between the fields of a struct may
// differ from what was encoded only until the next comparison.
func TestBytesBetweenFieldsAreNoChange(t *testing.T) {
	class := NewClass("Padded")
	s := NewState[padded](class)
	live := &padded{X: 1}
	r := (&boundState[*padded, padded]{declared: s.declared, where: func(p *padded) *padded { return p }}).newReplica(live)
	_, err := r.encode()
	require.NoError(t, err)
	require.False(t, r.changed())
	(*[16]byte)(unsafe.Pointer(live))[3] = 7
	require.True(t, r.changed())
	fields, err := r.encode()
	require.NoError(t, err)
	require.Zero(t, fields)
	require.False(t, r.changed(), "looked at, and no field has changed")
}

// TestSpawnBeyondABound: a value that cannot be encoded is an error of Spawn,
// which names it and leaves no actor.
func TestSpawnBeyondABound(t *testing.T) {
	class := NewClass("Bag")
	tag := NewState[label](class)
	things := NewList[int, label](class, "Things")
	inNet(t, 1, Config{Classes: []*Class{class}}, func(n *network) {
		type bag struct {
			tag    label
			things List[int, label]
		}
		bags := Bind(n.server.World, class, func(*Actor) *bag { return new(bag) })
		Replicate(bags, tag, func(b *bag) *label { return &b.tag })
		ReplicateList(bags, things, func(b *bag) *List[int, label] { return &b.things })

		long := label{strings.Repeat("x", 161)}
		for want, set := range map[string]func(b *bag){
			`Spawn of a "Bag": state Bag.label: label.Text: `: func(b *bag) { b.tag = long },
			`Spawn of a "Bag": state Bag.Things: item 7: `:    func(b *bag) { require.NoError(t, b.things.Set(7, long)) },
		} {
			a, _, err := Spawn(bags, n.server.joined[0], set)
			require.Nil(t, a)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "the limit is 160")
		}
		require.Empty(t, slices.Collect(n.server.Actors()))
	})
}

// TestObjectsThatAreNil: an object that is nil cannot keep states. The panic names its class.
func TestObjectsThatAreNil(t *testing.T) {
	class := NewClass("Vase")
	tag := NewState[label](class)
	type vase struct{ tag label }
	nothing := func(*Actor) *vase { return nil }
	w := newTestWorld(t, Config{})
	Replicate(Bind(w.World, class, nothing), tag, func(v *vase) *label { return &v.tag })
	const want = "rpc: Replicate(Vase.label): constructor of class Vase returned a nil *rpc.vase, which cannot have a state"
	require.PanicsWithValue(t, want, func() { _, _ = w.Spawn(class, nil) })

	list := NewClass("Shelf")
	books := NewList[int, int](list, "Books")
	w = newTestWorld(t, Config{})
	ReplicateList(Bind(w.World, list, nothing), books, func(*vase) *List[int, int] { return nil })
	require.PanicsWithValue(t, "rpc: ReplicateList(Shelf.Books): constructor of class Shelf returned a nil *rpc.vase, which cannot have a state",
		func() { _, _ = w.Spawn(list, nil) })
}
