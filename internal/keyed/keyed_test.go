package keyed

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

type name string

func (n name) String() string { return string(n) }

// shelf has one end of a list.
type shelf struct {
	List[int, int]
	source Source[int, int]
	copy   Copy[int, int]
	sent   uint64 // packets
}

func newShelf(t *testing.T) *shelf {
	plan, err := Compile[int, int](nil)
	require.NoError(t, err)
	s := &shelf{}
	s.source, s.copy = NewSource(&s.List, plan), NewCopy(&s.List, plan, name("Shelf.Books"))
	s.source.Watch(true)
	return s
}

// tell makes another shelf read these items as they are now, in a packet of their own.
func (s *shelf) tell(t *testing.T, other *shelf, numbers ...uint32) {
	_, err := s.source.TakeChanged()
	require.NoError(t, err)
	var b []byte
	for _, number := range numbers {
		b = s.source.AppendItem(b, number)
	}
	s.sent++
	require.NoError(t, other.copy.Read(b, s.sent, true))
}

func (s *shelf) requireBook(t *testing.T, key, want int) {
	got, ok := s.Get(key)
	require.True(t, ok, "book %d", key)
	require.Equal(t, want, got, "book %d", key)
}

// TestLastNumber: a list accepts no new key once all numbers are used, and keeps its items.
func TestLastNumber(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	server.last = MaxEver - 1
	require.True(t, server.Set(1, 10))
	require.False(t, server.Set(2, 20))
	require.True(t, server.Delete(1))
	require.False(t, server.Set(1, 10))
	server.tell(t, client, MaxEver)
	require.Zero(t, server.Len()+client.Len())
}

// What a client sets in its copy may have the number that the server gives to another item.
func TestListSetAtAClient(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	require.True(t, client.Set(7, 70))
	require.True(t, server.Set(8, 80))
	server.tell(t, client, 1)
	client.requireBook(t, 8, 80)
	client.requireBook(t, 7, 70)

	require.True(t, client.Set(9, 0)) // number 3 there
	for key := range 2 {
		require.True(t, server.Set(9+key, 90+key)) // numbers 2 and 3
	}
	server.tell(t, client, 2)
	client.requireBook(t, 9, 90)
	server.tell(t, client, 3)
	client.requireBook(t, 10, 91)
	client.requireBook(t, 7, 70)
	require.Equal(t, 4, client.Len())
	client.requireSound(t)
}

// What a client sets in its copy stays when the server removes an item with the
// same number, or sends all that it has.
func TestListSetAtAClientStays(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	require.True(t, client.Set(7, 70)) // number 1 there
	require.True(t, server.Set(8, 80))
	require.True(t, server.Delete(8))
	server.tell(t, client, 1)
	client.requireBook(t, 7, 70)

	require.NoError(t, client.copy.Read(appendCensus(nil, 0, censusBit-1, nil), 9, true))
	client.requireBook(t, 7, 70)
	_, ok := client.copy.Next()
	require.False(t, ok, "nothing has changed")

	server, client = newShelf(t), newShelf(t)
	require.True(t, client.Set(7, 70))
	require.NoError(t, client.copy.Read(appendCensus(nil, 0, censusBit-1, nil), 1, true))
	require.True(t, server.Set(8, 80)) // the number that the client's own had
	server.sent = 1
	server.tell(t, client, 1)
	client.requireBook(t, 8, 80)
	require.True(t, client.Set(9, 90))
	require.True(t, server.Delete(8))
	server.tell(t, client, 1)
	require.Equal(t, map[int]int{7: 70, 9: 90}, maps.Collect(client.All()))
	client.requireSound(t)
}

// What a client sets in its copy stays its own if the server's item with that
// key and number arrives after its removal. It once became an item that the
// server was assumed to have, which no census removed.
func TestListSetAtAClientIsNoLateItem(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	require.True(t, client.Set(7, 70))
	require.True(t, server.Set(7, 71)) // both are number 1
	_, err := server.source.TakeChanged()
	require.NoError(t, err)
	late := server.source.AppendItem(nil, 1)
	require.True(t, server.Delete(7))
	server.sent = 2
	server.tell(t, client, 1)
	require.NoError(t, client.copy.Read(late, 2, true))
	client.requireBook(t, 7, 70)
	_, ok := client.copy.Next()
	require.False(t, ok, "the server has no such item")

	require.True(t, server.Set(7, 72))
	server.tell(t, client, 2)
	client.requireBook(t, 7, 72)
	client.requireSound(t)
	require.True(t, server.Delete(7))
	server.tell(t, client, 2)
	require.Zero(t, client.Len())
}

// TestListSetAtAClientHasItsOwnNumber: if it had that of one of the server's,
// the removal of either would take both.
func TestListSetAtAClientHasItsOwnNumber(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for key := range 2 {
		require.True(t, server.Set(key, key))
	}
	server.tell(t, client, 1, 2)
	require.True(t, client.Set(9, 90))
	client.requireSound(t)
	require.Equal(t, map[int]int{0: 0, 1: 1, 9: 90}, maps.Collect(client.All()))
	visited := 0
	for range client.All() {
		client.Delete(1)
		visited++
	}
	require.Equal(t, 2, visited, "what is gone by then is not visited")
}

// TestItemsOfAnOpen: what comes with an open is newer than what came before it, and older than what
// comes after it.
func TestItemsOfAnOpen(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	reopen := func() {
		_, err := server.source.TakeChanged()
		require.NoError(t, err)
		var backlog Backlog
		backlog.AddAll(&server.source, true)
		b, _ := backlog.Take(nil, nil, &server.source, 1000)
		require.NoError(t, client.copy.ReadOpen(b, true))
	}
	for key := range 3 {
		server.Set(key, 10)
	}
	reopen()
	server.tell(t, client) // the packet with the open
	server.Set(0, 20)
	server.tell(t, client, 1)
	server.Delete(1)
	server.Set(0, 30)
	server.Set(3, 30)
	server.sent += 5
	reopen()
	require.Equal(t, maps.Collect(server.All()), maps.Collect(client.All()))
	server.sent++
	server.Set(3, 40)
	server.Delete(2)
	server.tell(t, client, 3, 4)
	require.Equal(t, maps.Collect(server.All()), maps.Collect(client.All()))
	client.copy.newest = math.MaxUint64
	server.Set(3, 50)
	reopen()
	client.requireBook(t, 3, 50)
}

// TestLateItemStaysGone: an item that arrives after the one that took its key
// stays removed, even if that one is removed, too.
func TestLateItemStaysGone(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	require.True(t, server.Set(7, 70))
	_, err := server.source.TakeChanged()
	require.NoError(t, err)
	late := server.source.AppendItem(nil, 1)
	require.True(t, server.Delete(7))
	require.True(t, server.Set(7, 71))
	server.sent = 2
	server.tell(t, client, 2)
	require.NoError(t, client.copy.Read(late, 1, true))
	client.requireBook(t, 7, 71)
	require.True(t, server.Delete(7))
	server.tell(t, client, 2)
	require.NoError(t, client.copy.Read(late, 2, true))
	require.Zero(t, client.Len())

	t.Log("# also when the client had it before the one that took its key")
	server, client = newShelf(t), newShelf(t)
	require.True(t, server.Set(7, 70))
	server.tell(t, client, 1)
	require.True(t, server.Delete(7))
	require.True(t, server.Set(7, 71))
	server.tell(t, client, 2)
	require.True(t, server.Delete(7))
	server.tell(t, client, 2)
	require.NoError(t, client.copy.Read(late, 1, true))
	require.Zero(t, client.Len())

	t.Log("# what no packet can bring back any more is forgotten")
	require.NotEmpty(t, client.copy.removed)
	require.NoError(t, client.copy.Read(nil, server.sent+maxReorder+1, true))
	require.Empty(t, client.copy.removed)
	require.Empty(t, client.copy.tombstones)
}

// TestCensus removes the items of its range that it leaves out, from its first number to its last.
func TestCensus(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for key := range 6 {
		require.True(t, server.Set(key, 10*key)) // number key+1
	}
	server.tell(t, client, 1, 2, 3, 4, 5, 6)
	require.NoError(t, client.copy.Read(appendCensus(nil, 2, 5, []uint32{3, 4}), server.sent, true))
	require.Equal(t, 6, client.Len(), "it came with the items")
	require.NoError(t, client.copy.Read(appendCensus(nil, 2, 5, []uint32{3, 4}), server.sent+1, true))
	require.Equal(t, map[int]int{0: 0, 2: 20, 3: 30, 5: 50}, maps.Collect(client.All()))
}

// TestAddAll: a client that lacks everything gets the items that exist, and drops the others.
func TestAddAll(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for key := range 3 {
		require.True(t, server.Set(key, 10*key))
	}
	server.tell(t, client, 1, 2, 3)
	server.Delete(1)
	var lacking Backlog
	lacking.AddAll(&server.source, true)
	b, _ := lacking.Take(nil, nil, &server.source, 1000)
	require.True(t, lacking.Empty())
	for _, reader := range []*shelf{client, newShelf(t)} {
		require.NoError(t, reader.copy.Read(b, server.sent+1, true))
		require.Equal(t, map[int]int{0: 0, 2: 20}, maps.Collect(reader.All()))
	}
}

// A full list of which much changes has, at a client for a while, what is gone beside what is new.
func TestListRemovalsComeLate(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for round := range 2 {
		for key := range MaxItems {
			require.True(t, server.Set(key+round*MaxItems, round))
		}
		require.False(t, server.Set(-1, 0), "it is full")
		for number := range uint32(MaxItems) {
			server.tell(t, client, uint32(round*MaxItems)+number+1)
		}
		for key := range MaxItems {
			server.Delete(key + round*MaxItems)
		}
	}
	for number := range uint32(2 * MaxItems) {
		server.tell(t, client, number+1)
	}
	require.Zero(t, client.Len())
}

// An item that arrives again with the same value, because an ack was lost or
// all items are sent again, is no change.
func TestWhatComesAgainIsNoChange(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	changes := func() (told []Change[int, int]) {
		for change, ok := client.copy.Next(); ok; change, ok = client.copy.Next() {
			told = append(told, change)
		}
		return told
	}
	require.True(t, server.Set(7, 70))
	server.tell(t, client, 1)
	require.Equal(t, []Change[int, int]{{Key: 7, Value: 70, Added: true}}, changes())
	server.tell(t, client, 1)
	require.Empty(t, changes())

	require.True(t, client.Set(7, 71), "a prediction that was wrong")
	server.tell(t, client, 1)
	require.Equal(t, []Change[int, int]{{Key: 7, Value: 70}}, changes())
	require.True(t, server.Set(7, 72))
	server.tell(t, client, 1)
	require.Equal(t, []Change[int, int]{{Key: 7, Value: 72}}, changes())

	require.True(t, client.Set(8, 80), "the server sets it, too: it is told of for the first time")
	require.True(t, server.Set(8, 80))
	server.tell(t, client, 2)
	require.Equal(t, []Change[int, int]{{Key: 8, Value: 80}}, changes())

	server.Delete(7)
	require.True(t, server.Set(7, 72), "and the client is told of the new item before it is of the removal")
	server.tell(t, client, 3)
	server.tell(t, client, 1)
	require.Empty(t, changes())
	server.Delete(7)
	require.True(t, server.Set(7, 73))
	server.tell(t, client, 4)
	require.Equal(t, []Change[int, int]{{Key: 7, Value: 73}}, changes())
}

// TestLossyUpdates: messages are lost or late. Once everything that was lost is
// added again, the client has the list, and its changes add up to it.
func TestLossyUpdates(t *testing.T) {
	random := testkit.Rand(t)
	server, client := newShelf(t), newShelf(t)
	var lacking Backlog
	told := map[int]int{}
	type message struct {
		b      []byte
		items  []uint32
		packet uint64
	}
	var under []message
	packet := uint64(0)
	deliver := func(m message) {
		require.NoError(t, client.copy.Read(m.b, m.packet, true))
		for change, ok := client.copy.Next(); ok; change, ok = client.copy.Next() {
			if told[change.Key] = change.Value; change.Removed {
				delete(told, change.Key)
			}
		}
	}
	send := func() {
		numbers, err := server.source.TakeChanged()
		require.NoError(t, err)
		if lacking.Add(numbers); lacking.Empty() {
			return
		}
		packet++
		m := message{packet: packet}
		m.b, m.items = lacking.Take(nil, nil, &server.source, 60)
		under = append(under, m)
	}
	for range 5000 {
		switch key := random.IntN(40); random.IntN(5) {
		case 0, 1:
			server.Set(key, random.IntN(1000))
		case 2:
			server.Delete(key)
		default:
			send()
		}
		if random.IntN(500) == 0 {
			lacking.AddAll(&server.source, true)
		}
		if n := len(under); n > 3 {
			i := random.IntN(n)
			if random.IntN(3) == 0 {
				lacking.Add(under[i].items)
			} else {
				deliver(under[i])
			}
			under = append(under[:i], under[i+1:]...)
		}
	}
	for _, m := range under {
		deliver(m)
	}
	under = nil
	for send(); len(under) > 0; send() {
		deliver(under[0])
		under = under[1:]
	}
	want := maps.Collect(server.All())
	require.Equal(t, want, maps.Collect(client.All()))
	require.Equal(t, want, told)
}

// TestHostileUpdates: what no server can have sent is an error, and panics nowhere.
func TestHostileUpdates(t *testing.T) {
	for what, b := range map[string][]byte{
		"a number beyond all":        binary.AppendUvarint(nil, censusBit<<1),
		"census that is gone":        {1, 0, 0, 0},
		"a removal beyond all":       binary.AppendUvarint(nil, censusBit<<1|1),
		"a number without an end":    bytes.Repeat([]byte{0xff}, 11),
		"another key":                {2, 2, 4, 2, 4, 4},
		"half an item":               {2, 3},
		"census without its numbers": {0, 1, 5, 4, 1},
		"census beyond its end":      {0, 1, 5, 2, 1, 9},
	} {
		require.Error(t, newShelf(t).copy.Read(b, 1, true), what)
	}
	var b []byte
	for range maxCensuses + 1 {
		b = appendCensus(b, 0, 5, nil)
	}
	require.ErrorContains(t, newShelf(t).copy.Read(b, 1, true), "Shelf.Books: update has more than 8 censuses")
	server, client := newShelf(t), newShelf(t)
	require.True(t, server.Set(7, 70))
	_, err := server.source.TakeChanged()
	require.NoError(t, err)
	require.NoError(t, client.copy.Read(server.source.AppendItem(b[len(b)/(maxCensuses+1):], 1), 1, true), "but an item behind as many as may be")

	b = nil
	for number := range uint64(maxTombstones + 1) {
		b = binary.AppendUvarint(b, (number+1)<<1|1)
	}
	require.NoError(t, client.copy.Read(b, 2, true))
	client.requireSound(t)
}

// TestHostileCensusIsReadNoFurther: the numbers after the one with which a
// census breaks a rule cost nothing.
func TestHostileCensusIsReadNoFurther(t *testing.T) {
	client := newShelf(t)
	census := append([]byte{0, 1, 1, 0xff, 0x7f}, bytes.Repeat([]byte{1}, 1<<14)...) // 16,383 numbers, all but the first above the last
	require.Less(t, testing.AllocsPerRun(1, func() {
		require.ErrorContains(t, client.copy.Read(census, 9, true), "item 2 is out of range")
	}), 1000.0)
}

func TestCompileRefuses(t *testing.T) {
	_, err := Compile[float32, int](nil)
	require.ErrorContains(t, err, "contains floats")
	_, err = Compile[struct{ At [2]struct{ X float64 } }, int](nil)
	require.ErrorContains(t, err, "contains floats")
	_, err = Compile[int, struct {
		Text string `quiver:"max=1000"`
	}](nil)
	require.ErrorContains(t, err, "1002 bytes")
	require.Equal(t, 1000, state.MaxFieldBytes)

	t.Log("# only a field has a tag")
	_, err = Compile[string, int](nil)
	require.EqualError(t, err, "key type string needs a bound: put it in a struct, as in Name string `quiver:\"max=…\"`")
	_, err = Compile[int, [2][]byte](nil)
	require.ErrorContains(t, err, "value type [2][]uint8 needs a bound")
}

// TestChangesAreNotedOnce, and only while a client has the list: a list that
// changes at every tick would fill the memory.
func TestChangesAreNotedOnce(t *testing.T) {
	server := newShelf(t)
	for i := range 100 {
		require.True(t, server.Set(7, i))
	}
	require.Len(t, server.changed, 1)
	server.source.Watch(false)
	require.False(t, server.source.Changed())
	require.True(t, server.Set(8, 80) && server.Delete(8))
	require.False(t, server.source.Changed())
	server.source.Watch(true)
	require.True(t, server.Set(7, 1))
	numbers, err := server.source.TakeChanged()
	require.NoError(t, err)
	require.Equal(t, []uint32{1}, numbers)
}

// TestItemThatCouldNotBeEncoded reaches clients once it can be, also as what
// they would take it for if they had it.
func TestItemThatCouldNotBeEncoded(t *testing.T) {
	type text struct {
		S string `quiver:"max=4"`
	}
	plan, err := Compile[int, text](nil)
	require.NoError(t, err)
	var list List[int, text]
	source := NewSource(&list, plan)
	source.Watch(true)
	for s, want := range map[string]int{"fives": 0, "": 1} {
		list = List[int, text]{watched: true}
		require.True(t, list.Set(1, text{"fives"}))
		_, err = source.TakeChanged()
		require.ErrorContains(t, err, "item 1: ")
		require.True(t, list.Set(1, text{s}))
		numbers, _ := source.TakeChanged()
		require.Len(t, numbers, want, s)
		require.Len(t, source.Numbers(nil), want)
	}
}

// TestTakeFitsAMessage: items that do not fit into one message are in the next,
// each item once; a large one has a message of its own.
func TestTakeFitsAMessage(t *testing.T) {
	server := newShelf(t)
	for key := range 20 {
		require.True(t, server.Set(key, key))
	}
	numbers, err := server.source.TakeChanged()
	require.NoError(t, err)
	for most, messages := range map[int]int{1: 20, 12: 5, 1000: 1} { // an item takes 3 bytes
		var lacking Backlog
		lacking.Add(numbers)
		lacking.Add(numbers)
		var taken []uint32
		for n := 0; !lacking.Empty(); n++ {
			require.Less(t, n, messages)
			var b []byte
			b, taken = lacking.Take(nil, taken, &server.source, most)
			require.LessOrEqual(t, len(b), max(most, 3))
		}
		require.Equal(t, numbers, taken)
	}
}

// TestCensusOfALongList: it continues in the next messages until the end of the
// list; otherwise a client would keep removed items there.
func TestCensusOfALongList(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for key := range 500 {
		require.True(t, server.Set(key, key))
		server.tell(t, client, uint32(key+1))
	}
	for key := range 500 {
		if key%3 == 0 || key > 450 {
			server.Delete(key)
		}
	}
	var lacking Backlog
	for lacking.AddAll(&server.source, true); !lacking.Empty(); server.sent++ {
		b, _ := lacking.Take(nil, nil, &server.source, 200)
		require.LessOrEqual(t, len(b), 200)
		require.NoError(t, client.copy.Read(b, server.sent+1, true))
	}
	require.Equal(t, maps.Collect(server.All()), maps.Collect(client.All()))
}

// TestManyLostCensuses: lost censuses of a long list are short if little of the
// list is left. No message has more of them than its reader accepts.
func TestManyLostCensuses(t *testing.T) {
	server, client := newShelf(t), newShelf(t)
	for key := range MaxItems {
		require.True(t, server.Set(key, 1))
	}
	_, err := server.source.TakeChanged()
	require.NoError(t, err)
	var lacking Backlog
	var lost []uint32
	for lacking.AddAll(&server.source, true); !lacking.Empty(); {
		_, lost = lacking.Take(nil, lost, &server.source, 1000)
	}
	for key := range MaxItems {
		server.Delete(key)
	}
	_, err = server.source.TakeChanged()
	require.NoError(t, err)
	for lacking.Add(lost); !lacking.Empty(); server.sent++ {
		b, _ := lacking.Take(nil, nil, &server.source, 1000)
		require.NoError(t, client.copy.Read(b, server.sent+1, true))
	}
	require.Zero(t, client.Len())
}
