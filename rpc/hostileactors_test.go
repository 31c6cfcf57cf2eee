package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/state"
)

var (
	spy      = NewClass("Spy")
	spyAsk   = Server[spyQuestion](spy, "Ask", Reliable)
	spyCrowd = Server[[]Ref](spy, "Crowd", Reliable)
	spyState = NewState[spyBody](spy)
)

type spyTarget struct{ Target Ref }

type spyQuestion struct {
	spyTarget
	N int
}

type spyBody struct {
	N     int
	Chief Ref
}

type spyObject struct{ body spyBody }

// TestRefInAnEmbeddedStruct: a client names an actor that it was never shown,
// in a field that is promoted from an unexported struct.
func TestRefInAnEmbeddedStruct(t *testing.T) {
	spyPair(t, func(server, client *World, at, from *Conn, tick func(int)) {
		secret, err := server.Spawn(spy, nil)
		require.NoError(t, err)
		var got Ref
		b := spiesOf(server)
		On(b, spyAsk, func(_ *spyObject, _ *Call, q spyQuestion) { got = q.Target })
		a, err := server.Spawn(spy, at)
		require.NoError(t, err)
		tick(5)
		require.NoError(t, spyAsk.Call(from.copies.byRef[a.ref], spyQuestion{spyTarget{secret.ref}, 1}))
		tick(5)
		require.Zero(t, got, "the handler got a Ref that the client was never shown")
	})
}

func spiesOf(w *World) *Binding[*spyObject] { return spies[w] }

var spies = map[*World]*Binding[*spyObject]{}

func spyPair(t *testing.T, fn func(server, client *World, at, from *Conn, tick func(int))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := NewWorld(Config{})
		require.NoError(t, err)
		client, err := NewWorld(Config{})
		require.NoError(t, err)
		for _, w := range []*World{server, client} {
			spies[w] = Bind(w, spy, func(*Actor) *spyObject { return new(spyObject) })
			Replicate(spies[w], spyState, func(o *spyObject) *spyBody { return &o.body })
			On(spies[w], spyCrowd, func(*spyObject, *Call, []Ref) {})
		}
		near, far := linktest.Pipe()
		near.SetDelay(testDelay)
		far.SetDelay(testDelay)
		_, err = server.Attach(plug{far})
		require.NoError(t, err)
		from, err := client.Connect(context.Background(), plug{near})
		require.NoError(t, err)
		tick := func(n int) {
			for range n {
				server.Tick(time.Now())
				client.Tick(time.Now())
				time.Sleep(time.Second / 30)
				synctest.Wait()
			}
		}
		tick(3)
		defer func() {
			_ = client.Close(context.Background(), 0, "end")
			_ = server.Close(context.Background(), 0, "end")
			tick(1)
		}()
		fn(server, client, server.announced[0], from, tick)
	})
}

// TestManyThatNameOne: an update of a state takes no longer if thousands of
// others name the same actor.
func TestManyThatNameOne(t *testing.T) {
	var per [2]time.Duration
	for i, n := range []int{1000, 16000} {
		w, c, _ := newCrate(t)
		var all []*Actor
		for k := range n {
			a := &Actor{world: w, class: crate, own: part{binding: w.bindings[crate]}, ref: Ref(k + 10), conn: c, states: actorStates{newest: make([]uint64, crate.fields)}}
			a.makeObjects()
			a.makeReplicas()
			all = append(all, a)
			require.Nil(t, w.applyUpdate(c, a, updateOf(append(state.AppendMask(nil, 1<<3, crate.fields), 7), 1)))
			w.callRepNotifies(c)
		}
		began := time.Now()
		for k, a := range all { // X moves: the Ref stays
			require.Nil(t, w.applyUpdate(c, a, updateOf(append(state.AppendMask(nil, 1<<1, crate.fields), byte(k%50)+1, 0)[:2], 2)))
			w.callRepNotifies(c)
		}
		per[i] = time.Since(began) / time.Duration(n)
		began = time.Now()
		for _, a := range all {
			a.states.removeReferences(c)
		}
		t.Logf("%d actors that name one: %v an update, all end in %v", n, per[i], time.Since(began))
		require.Empty(t, c.copies.referrers)
	}
}

// TestArgumentFullOfRefs: one message of a client that is full of references to what everybody has.
func TestArgumentFullOfRefs(t *testing.T) {
	const conns, refs = 1000, 60_000
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	class := NewClass("Crowded")
	b := Bind(w, class, func(*Actor) *spyObject { return new(spyObject) })
	_ = b
	a, err := w.Spawn(class, nil)
	require.NoError(t, err)
	var last *Conn
	for range conns {
		last = &Conn{world: w, server: true, shown: shown{openings: map[*Actor]*opening{a: {}}}}
		a.openings = append(a.openings, &opening{actor: a, conn: last})
	}
	arg := make([]Ref, refs)
	for i := range arg {
		arg[i] = a.ref
	}
	began := time.Now()
	require.Empty(t, last.clearUnknown(&arg))
	took := time.Since(began)
	t.Logf("%d references to an actor that is open for %d: %v", refs, conns, took)
}

// TestCallThatWaitsForOneOfMany: a call that names thousands of actors, of which all
// but the last are open, does not check them all at each open and in each Dispatch.
func TestCallThatWaitsForOneOfMany(t *testing.T) {
	w, c, a := newCrate(t)
	c.copies.byRef[1] = a
	needs := slices.Repeat([]Ref{1}, 60_000)
	needs = append(needs, 99)
	w.frame.beat.Real = time.Now()
	c.waiting.calls = append(c.waiting.calls, waitingCall{actor: a, missing: needs, until: time.Now().Add(time.Hour)})
	w.runWaiting(c)
	require.EqualValues(t, 99, needs[0], "it is looked at first the next time")
	w.runWaiting(c)
	require.Len(t, c.waiting.calls, 1)
	slices.Sort(needs)
	require.Equal(t, append(slices.Repeat([]Ref{1}, 60_000), 99), needs)
}

// TestMessageFullOfCensuses: a server that sends thousands of censuses in a message is refused.
func TestMessageFullOfCensuses(t *testing.T) {
	w, c, a := newCrate(t)
	b := state.AppendMask(nil, 1<<4, crate.fields)
	for i := range uint64(2048) {
		b = binary.AppendUvarint(b, (i+1)<<1)
		b = append(binary.AppendUvarint(b, i), 0, 0)
	}
	require.Nil(t, w.applyUpdate(c, a, updateOf(b, 1)))
	w.callRepNotifies(c)
	require.Equal(t, 2048, a.own.object.(*crateObject).items.Len())
	b = state.AppendMask(nil, 1<<4, crate.fields)
	for len(b) < 65000 {
		b = append(b, 0, 1, 1, 1, 0) // a census from 1 to 1 with 1
	}
	violation := w.applyUpdate(c, a, updateOf(b, 2))
	require.NotNil(t, violation)
	require.Equal(t, PayloadFail, violation.Code)
}

// TestKeysThatWouldNeverBeFound: a NaN is no key.
func TestKeysThatWouldNeverBeFound(t *testing.T) {
	type spot struct{ X float64 }
	require.PanicsWithValue(t, `rpc: NewList(Spots, "Items"): key type rpc.spot contains floats: a NaN key could never be found`,
		func() { NewList[spot, uint8](NewClass("Spots"), "Items") })
}

// TestTearOffOfAnUnboundList: nothing keeps the list here, so none of it is sent.
func TestTearOffOfAnUnboundList(t *testing.T) {
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	class := NewClass("Unbound")
	NewList[int, int](class, "Items")
	Bind(w, class, func(*Actor) *spyObject { return new(spyObject) })
	a, err := w.Spawn(class, nil)
	require.NoError(t, err)
	o := &opening{actor: a, conn: &Conn{world: w, server: true, terms: terms{maxBunch: 65536}}}
	o.markLists(true)
	o.mark(class.lists)
	require.Zero(t, o.lacks)
}

// TestStateUnderRun: a change while the open is in flight, or lost, is sent
// even if nothing else happens.
func TestStateUnderRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		near, far := linktest.Pipe()
		near.SetDelay(100 * time.Millisecond)
		far.SetDelay(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _ = server.Run(ctx) }()
		go func() { _ = client.Run(ctx) }()
		_, err := server.Attach(plug{far})
		require.NoError(t, err)
		c, err := client.Connect(context.Background(), plug{near})
		require.NoError(t, err)
		time.Sleep(time.Second)
		var p *puppet
		require.NoError(t, server.Do(ctx, func() {
			_, p, err = Spawn(server.binding, server.joined[0], func(p *puppet) { p.label.Text = "one" })
		}))
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, server.Do(ctx, func() { p.label.Text = "two" }))
		time.Sleep(10 * time.Second)
		var text string
		require.NoError(t, client.Do(ctx, func() {
			text = fmt.Sprint(client.heard)
		}))
		_ = c
		require.NoError(t, client.World.Close(context.Background(), 0, "end"))
		require.NoError(t, server.World.Close(context.Background(), 0, "end"))
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		require.Contains(t, text, "two", "ten seconds after the change")
	})
}
