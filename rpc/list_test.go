package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shelf has a list.
type shelf struct{ books List[int, int] }

// A client that asks for everything anew gets items that were not due yet, too.
func TestMissedBeforeAnItemIsDue(t *testing.T) {
	class := NewClass("SlowShelf", UpdateRate(0.01))
	books := NewList[int, int](class, "Books")
	bind := func(w *World) *Binding[*shelf] {
		b := Bind(w, class, func(*Actor) *shelf { return &shelf{} })
		ReplicateList(b, books, func(s *shelf) *List[int, int] { return &s.books })
		return b
	}
	inNet(t, 0, Config{}, func(n *network) {
		shelves, copies := joinBound(n, bind)
		w := n.server.World
		a, s, err := Spawn(shelves, nil, nil)
		require.NoError(t, err)
		require.NoError(t, a.OpenTo(w.announced[0]))
		for key := range 2 {
			require.NoError(t, s.books.Set(key, 1))
			n.tick(10)
		}
		w.announced[0].shown.state.resync = true
		n.tick(40)
		theirs, ok := copies.At(a.Ref())
		require.True(t, ok)
		require.Equal(t, 2, theirs.books.Len())
	})
}

// squad has a list of actors.
type squad struct {
	members List[int, Ref]
	told    []ListChange[int, Ref]
}

// TestListNamesAnActorThatOpensLater: OnList runs again for the items that name
// an actor when it opens at the client, and when it ends.
func TestListNamesAnActorThatOpensLater(t *testing.T) {
	class := NewClass("Squad")
	members := NewList[int, Ref](class, "Members")
	bind := func(w *World) *Binding[*squad] {
		b := Bind(w, class, func(*Actor) *squad { return &squad{} })
		ReplicateList(b, members, func(s *squad) *List[int, Ref] { return &s.members })
		OnList(b, members, func(s *squad, c ListChange[int, Ref]) { s.told = append(s.told, c) })
		return b
	}
	inNet(t, 0, Config{}, func(n *network) {
		squads, copies := joinBound(n, bind)
		conn := n.server.World.announced[0]
		first, s, err := Spawn(squads, nil, nil)
		require.NoError(t, err)
		second, _, err := Spawn(squads, nil, nil)
		require.NoError(t, err)
		require.NoError(t, first.OpenTo(conn))
		require.NoError(t, s.members.Set(7, second.Ref()))
		require.NoError(t, s.members.Set(8, 0))
		n.tick(20)
		theirs, ok := copies.At(first.Ref())
		require.True(t, ok)
		require.Len(t, theirs.told, 2)

		moved := []ListChange[int, Ref]{{Key: 7, Value: second.Ref()}}
		theirs.told = nil
		require.NoError(t, second.OpenTo(conn))
		n.tick(20)
		require.Equal(t, moved, theirs.told)
		theirs.told = nil
		second.CloseTo(conn)
		n.tick(20)
		require.Equal(t, moved, theirs.told)
	})
}
