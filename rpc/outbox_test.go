package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// library has a list of long items.
type library struct{ books List[int, [200]byte] }

// TestHeldBackByTheLastActor: while the last of the actors, here the only one, lacks more
// than a Flush has room for, the Flush did not have room for all. That was not noticed,
// so the pace took the path to have room.
func TestHeldBackByTheLastActor(t *testing.T) {
	class := NewClass("Library")
	books := NewList[int, [200]byte](class, "Books")
	bind := func(w *World) *Binding[*library] {
		b := Bind(w, class, func(*Actor) *library { return &library{} })
		ReplicateList(b, books, func(s *library) *List[int, [200]byte] { return &s.books })
		return b
	}
	inNet(t, 0, Config{}, func(n *network) {
		libraries, _ := joinBound(n, bind)
		conn := n.server.announced[0]
		a, s, err := Spawn(libraries, nil, nil)
		require.NoError(t, err)
		require.NoError(t, a.OpenTo(conn))
		n.tick(10)
		for key := range 2000 {
			require.NoError(t, s.books.Set(key, [200]byte{1}))
		}
		out := &conn.shown.state
		full := 0
		for range 30 {
			n.tick(1)
			if a.openings[0].lacks != 0 && out.budget.lastUsed > 0 {
				full++
				require.True(t, out.behind)
			}
		}
		require.Positive(t, full)
	})
}
