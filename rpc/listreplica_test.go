package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	shelfClass = NewClass("Shelf")
	shelfBooks = NewList[int, int](shelfClass, "Books")
)

// shelf has one end of a list, without a network.
type shelf struct {
	books List[int, int]
	kept  *listReplica[*shelf, int, int]
	sent  uint64 // packets
}

func newShelf() *shelf {
	s := &shelf{}
	where := func(s *shelf) *List[int, int] { return &s.books }
	s.kept = (&boundList[*shelf, int, int]{declared: shelfBooks.declared, where: where}).of(s).(*listReplica[*shelf, int, int])
	s.kept.watch(true)
	return s
}

// tell has another shelf read these items as they are now, in a packet of their own.
func (s *shelf) tell(t *testing.T, other *shelf, numbers ...uint32) {
	_, err := s.kept.takeChanged()
	require.NoError(t, err)
	var b []byte
	for _, number := range numbers {
		b = s.kept.appendItem(b, number)
	}
	s.sent++
	require.NoError(t, other.kept.readItems(b, s.sent))
}

func (s *shelf) requireBook(t *testing.T, key, want int) {
	got, ok := s.books.Get(key)
	require.True(t, ok, "book %d", key)
	require.Equal(t, want, got, "book %d", key)
}

// What a client sets in its copy may have the number that the server gives to another item.
func TestListSetAtAClient(t *testing.T) {
	server, client := newShelf(), newShelf()
	require.NoError(t, client.books.Set(7, 70))
	require.NoError(t, server.books.Set(8, 80))
	server.tell(t, client, 1)
	client.requireBook(t, 8, 80)
	client.requireBook(t, 7, 70)

	require.NoError(t, client.books.Set(9, 0)) // number 3 there
	for key := range 2 {
		require.NoError(t, server.books.Set(9+key, 90+key)) // numbers 2 and 3
	}
	server.tell(t, client, 2)
	client.requireBook(t, 9, 90)
	server.tell(t, client, 3)
	client.requireBook(t, 10, 91)
	client.requireBook(t, 7, 70)
	require.Equal(t, 4, client.books.Len())
}

// A full list of which much changes has, at a client for a while, what is gone beside what is new.
func TestListRemovalsComeLate(t *testing.T) {
	server, client := newShelf(), newShelf()
	for round := range 2 {
		for key := range maxItems {
			require.NoError(t, server.books.Set(key+round*maxItems, round))
		}
		for number := range uint32(maxItems) {
			server.tell(t, client, uint32(round*maxItems)+number+1)
		}
		for key := range maxItems {
			server.books.Delete(key + round*maxItems)
		}
	}
	for number := range uint32(2 * maxItems) {
		server.tell(t, client, number+1)
	}
	require.Zero(t, client.books.Len())
}

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
		require.NoError(t, a.OpenTo(w.conns[0]))
		for key := range 2 {
			require.NoError(t, s.books.Set(key, 1))
			n.tick(10)
		}
		w.conns[0].state.all = true
		n.tick(40)
		theirs, ok := copies.At(a.Ref())
		require.True(t, ok)
		require.Equal(t, 2, theirs.books.Len())
	})
}
