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
		w := n.server.World
		shelves := bind(w)
		client := newTestWorld(t, Config{})
		copies := bind(client.World)
		_, err := n.connect(client)
		require.NoError(t, err)
		n.tick(10)
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
