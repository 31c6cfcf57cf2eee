package rpc

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

// The class of these tests: a struct and a list.
var (
	crate      = NewClass("Crate")
	crateState = NewState[crateBody](crate)
	crateItems = NewList[uint16, crateItem](crate, "Items")
)

type crateBody struct {
	Label string  `quiver:"max=20"`
	X     float32 `quiver:"quant=0.1"`
	Sizes []int   `quiver:"max=4"`
	Owner Ref
}

type crateItem struct {
	Name string `quiver:"max=10"`
	From Ref
}

type crateObject struct {
	body  crateBody
	items List[uint16, crateItem]
}

// newCrate makes a client that has one actor of the class, and its connection.
func newCrate(t testing.TB) (*World, *Conn, *Actor) {
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	b := Bind(w, crate, func(*Actor) *crateObject { return new(crateObject) })
	Replicate(b, crateState, func(o *crateObject) *crateBody { return &o.body })
	ReplicateList(b, crateItems, func(o *crateObject) *List[uint16, crateItem] { return &o.items })
	OnRep(b, crateState, func(*crateObject, crateBody) {})
	OnList(b, crateItems, func(*crateObject, ListChange[uint16, crateItem]) {})
	w.lobby.client.Store(true)
	c := newClientConn(w, nil)
	a := &Actor{world: w, class: crate, own: part{binding: w.bindings[crate]}, ref: 1, conn: c, states: actorStates{newest: make([]uint64, crate.fields)}}
	a.makeObjects()
	a.makeReplicas()
	return w, c, a
}

// TestUpdatesThatNoServerSends: what a server may not write closes with
// PayloadFail, and says what it was.
func TestUpdatesThatNoServerSends(t *testing.T) {
	list := func(b ...byte) []byte { return append(state.AppendMask(nil, 1<<4, crate.fields), b...) }
	for name, payload := range map[string][]byte{
		"nothing":                      {},
		"an empty mask":                {0},
		"a mask beyond the fields":     {1 << 5},
		"a field cut off":              append(state.AppendMask(nil, 1, crate.fields), 5, 'a'),
		"bytes left over":              append(state.AppendMask(nil, 2, crate.fields), 0, 0),
		"a label beyond its bound":     append(state.AppendMask(nil, 1, crate.fields), append([]byte{21}, make([]byte, 21)...)...),
		"an item without a value":      list(2),
		"a number beyond all":          append(list(), binary.AppendUvarint(nil, 1<<32)...),
		"item 0 gone":                  list(1),
		"a list beside a field":        append(state.AppendMask(nil, 1|1<<4, crate.fields), 1, 'a', 1, 2),
		"a census cut off":             list(0, 1),
		"a census longer than it is":   list(0, 1, 100, 50, 1),
		"a census beyond its end":      list(0, 1, 2, 1, 9),
		"an item that changes its key": list(2, 1, 0, 0, 2, 2, 0, 0),
		"a call that is cut off":       {0, 9, 0},
		"a call of no length":          {0, 0},
		"a length without an end":      {0, 0x80},
		"a length beyond all":          append([]byte{0}, binary.AppendUvarint(nil, math.MaxUint64)...),
		"a call of no method":          {0, 2, 0xff, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, a := newCrate(t)
			violation := w.applyUpdate(c, a, updateOf(payload, 7))
			require.NotNil(t, violation)
			require.Equal(t, PayloadFail, violation.Code)
			require.NotEmpty(t, violation.Reason)
		})
	}
}

// TestOpensWithItems: an open may contain items after the fields. What a server may not write
// closes with PayloadFail.
func TestOpensWithItems(t *testing.T) {
	open := func(b ...byte) parsedOpen { // a label, and the list
		return parsedOpen{flags: flagState, states: append(append(state.AppendMask(nil, 1|1<<4, crate.fields), 1, 'a'), b...)}
	}
	w, c, a := newCrate(t)
	require.Nil(t, w.applyFirstState(c, a, open(4, 2, 7, 0, 0)))
	require.Equal(t, "a", a.own.object.(*crateObject).body.Label)
	require.Equal(t, 1, a.own.object.(*crateObject).items.Len())
	require.Nil(t, w.applyFirstState(c, a, open(0)), "no items")
	for name, o := range map[string]parsedOpen{
		"no length":               open(),
		"a length without an end": open(0x80),
		"items cut off":           open(4, 2, 7, 0),
		"an item without a value": open(1, 2),
		"bytes left over":         open(4, 2, 7, 0, 0, 0),
		"items in place of bytes": open(2, 7, 0, 0),
		"another key for an item": open(8, 2, 1, 0, 0, 2, 2, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			w, c, a := newCrate(t)
			violation := w.applyFirstState(c, a, o)
			require.NotNil(t, violation)
			require.Equal(t, PayloadFail, violation.Code)
			require.Regexp(t, `^open message of Crate 1 with \d+ bytes? of states: .+`, violation.Reason)
		})
	}
}

// TestRandomUpdates: no bytes make a client panic, or hold more than its classes declare.
func TestRandomUpdates(t *testing.T) {
	random := testkit.Rand(t)
	for range 200 {
		w, c, a := newCrate(t)
		for packet := range uint64(200) {
			b := randomUpdate(random)
			if w.applyUpdate(c, a, updateOf(b, packet-min(packet, random.Uint64N(5)))) != nil {
				continue
			}
			w.callRepNotifies(c)
		}
		o := a.own.object.(*crateObject)
		require.LessOrEqual(t, len(o.body.Label), 20)
		require.LessOrEqual(t, len(o.body.Sizes), 4)
		for key := range o.items.All() {
			_, ok := o.items.Get(key)
			require.True(t, ok)
		}
	}
}

// updateOf is a message as bunch hands it out.
func updateOf(payload []byte, packet uint64) bunch.Message {
	return bunch.Message{Delivery: bunch.Tracked, Payload: payload, Number: packet}
}

// randomUpdate returns bytes that begin as an update does.
func randomUpdate(random *rand.Rand) []byte {
	mask := state.Mask(1) << random.IntN(crate.fields)
	if random.IntN(3) == 0 {
		mask = state.Mask(1 + random.IntN(15))
	}
	b := state.AppendMask(nil, mask, crate.fields)
	for range random.IntN(20) {
		b = append(b, byte(random.IntN(12)))
	}
	return b
}
