package rpc

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/internal/wire"
)

// The classes of TestRandomServers, with all that a server can send.
var (
	lair      = NewClass("Lair")
	lairState = NewState[lairBody](lair)
	lairPack  = NewList[Ref, lairItem](lair, "Pack")
	lairStock = NewList[uint8, uint8](lair, "Stock")
	lairCall  = Client[[]Ref](lair, "Call", Reliable, WaitForActors())
	lairNoise = Client[Raw](lair, "Noise", Unreliable, ForceQueue())
	lairAsk   = ClientRequest[Ref, Ref](lair, "Ask")
	lairTell  = ServerRequest[int, int](lair, "Tell")
	lairPart  = NewComponent(lair, "Nest")
	lairEggs  = NewState[lairNest](lairPart)
	lairHatch = Client[int](lairPart, "Hatch", Reliable)
	lairWall  = NewClass("Wall")
)

type lairBody struct {
	N    int8
	Boss Ref
	Pack []Ref `quiver:"max=3"`
}

type lairItem struct {
	To   Ref
	Rank uint8
}

type lairNest struct{ Eggs uint8 }

type lairObject struct {
	actor *Actor
	body  lairBody
	pack  List[Ref, lairItem]
	stock List[uint8, uint8]
}

type lairPartObject struct{ nest lairNest }

// lairs makes a client's bindings.
func lairs(w *World) *Binding[*lairObject] {
	b := Bind(w, lair, func(a *Actor) *lairObject { return &lairObject{actor: a} })
	Replicate(b, lairState, func(o *lairObject) *lairBody { return &o.body })
	ReplicateList(b, lairPack, func(o *lairObject) *List[Ref, lairItem] { return &o.pack })
	ReplicateList(b, lairStock, func(o *lairObject) *List[uint8, uint8] { return &o.stock })
	OnRep(b, lairState, func(*lairObject, lairBody) {})
	OnList(b, lairPack, func(o *lairObject, change ListChange[Ref, lairItem]) {
		if change.Value.Rank == 7 { // the game writes its copy
			o.pack.Delete(change.Key)
			_ = o.pack.Set(change.Key+1, lairItem{To: change.Key})
		}
	})
	On(b, lairCall, func(*lairObject, *Call, []Ref) {})
	On(b, lairNoise, func(*lairObject, *Call, Raw) {})
	OnRequest(b, lairAsk, func(_ *lairObject, _ *Call, r Ref) (Ref, error) { return r, nil })
	OnTearOff(b, func(o *lairObject) { _ = o.actor.world.Destroy(o.actor) })
	nests := Bind(w, lairPart, func(*Actor) *lairPartObject { return new(lairPartObject) })
	Replicate(nests, lairEggs, func(o *lairPartObject) *lairNest { return &o.nest })
	On(nests, lairHatch, func(*lairPartObject, *Call, int) {})
	return b
}

// forger is a server that writes what it likes.
type forger struct {
	*rand.Rand
	conn     *Conn
	channels []uint64 // that it has open
	refs     []byte   // of the actors on them
	record   uint64
}

func (f *forger) ref() byte { return byte(1 + f.IntN(6)) }

// fields appends a mask of some fields and values for them, which mostly can be read.
func (f *forger) fields(b []byte) []byte {
	mask := state.Mask(1+f.IntN(1<<lair.fields-1)) &^ lair.lists
	if mask == 0 {
		mask = 1
	}
	b = state.AppendMask(b, mask, lair.fields)
	for i := range lair.fields {
		switch {
		case mask&(1<<i) == 0:
		case i == 2:
			b = append(b, 2, f.ref(), f.ref())
		default:
			b = append(b, f.ref())
		}
	}
	return b
}

// items appends an update of a list.
func (f *forger) items(b []byte) []byte {
	list := 3 + f.IntN(2)
	return f.itemsOf(list, state.AppendMask(b, 1<<list, lair.fields))
}

// itemsOf appends items of a list.
func (f *forger) itemsOf(list int, b []byte) []byte {
	for range f.IntN(6) {
		switch n := byte(1 + f.IntN(9)); f.IntN(5) {
		case 0:
			b = append(b, n<<1|1)
		case 1:
			b = append(b, 0, n/2, n, 1, n-n/2)
		default:
			b = append(b, n<<1)
			if list == 3 {
				b = append(b, n%5+1, f.ref(), byte(f.IntN(9)))
			} else {
				b = append(b, n%4, byte(f.IntN(3)))
			}
		}
	}
	return b
}

// fieldsAndLists appends what an open contains: fields, and often the items of lists.
func (f *forger) fieldsAndLists(b []byte) []byte {
	list := f.IntN(6)
	if list != 3 && list != 4 {
		return f.fields(b)
	}
	b = append(state.AppendMask(b, 1|1<<list, lair.fields), f.ref())
	return wire.AppendBytes(b, f.itemsOf(list, nil))
}

// open returns an open message. Most are right: actors 1 and 2 are placed, and
// actor 6 is a wall; what is open opens again once in a while.
func (f *forger) open() ([]byte, byte) {
	ref := f.ref()
	for f.IntN(100) > 0 && slices.Contains(f.refs, ref) {
		if ref = f.ref(); len(f.refs) == 6 {
			break
		}
	}
	class, flags := 0, byte(f.IntN(4))
	if ref == 6 {
		class, flags = 1, flags&flagOwned
	}
	b := openBytes(class, flags, Ref(ref))
	if ref <= 2 {
		b[1] |= flagPlaced
		b = wire.AppendBytes(b, []string{"gate", "door"}[ref-1])
	}
	if flags&flagState != 0 {
		b = f.fieldsAndLists(b)
	}
	return b, ref
}

// call appends a call of any method.
func (f *forger) call() []byte {
	m := lair.methods[f.IntN(len(lair.methods))]
	for f.IntN(40) > 0 && m.kind == serverRPC { // which a server does not send
		m = lair.methods[f.IntN(len(lair.methods))]
	}
	b := m.appendID(nil)
	switch {
	case f.IntN(9) == 0:
		return append(binary.AppendUvarint(nil, ownerMethod), byte(f.IntN(2)))
	case f.IntN(9) == 0:
		return f.fields(binary.AppendUvarint(nil, stateMethod))
	case f.IntN(9) == 0:
		return f.items(binary.AppendUvarint(nil, stateMethod))
	case m == lairCall.m:
		return append(b, 0x93, f.ref(), f.ref(), f.ref())
	case m.role == isQuestion:
		if number := byte(2 + f.IntN(8)); number&1 == 0 {
			return append(b, number, f.ref())
		} else {
			return append(b, number) // a cancel
		}
	case m.role == isAnswer:
		return append(b, f.ref(), byte(f.IntN(3)), 1)
	}
	return append(b, f.ref())
}

// step sends one message.
func (f *forger) step() {
	c := f.conn
	c.link.Lock()
	defer c.link.Unlock()
	if len(f.channels) == 0 || len(f.channels) < 5 && f.IntN(4) == 0 {
		channel, err := c.machine.Open(bunch.Normal)
		if err != nil {
			return
		}
		message, ref := f.open()
		_ = c.machine.Send(channel, bunch.Reliable, message)
		if f.IntN(8) == 0 {
			_ = c.machine.Close(channel, nil)
			return
		}
		f.channels, f.refs = append(f.channels, channel), append(f.refs, ref)
		return
	}
	i := f.IntN(len(f.channels))
	channel, what := f.channels[i], f.IntN(6)
	if f.refs[i] == 6 { // a wall has no calls and no states
		what = 0
	}
	switch what {
	case 0:
		payload := []byte{[]byte{0, 1, 1, 1, 2, 3, 4}[f.IntN(7)]}
		if CloseReason(payload[0]).carriesState() && f.refs[i] < 6 && f.IntN(2) == 0 {
			payload = f.fields(payload)
		}
		_ = c.machine.Close(channel, payload)
		f.channels, f.refs = slices.Delete(f.channels, i, i+1), slices.Delete(f.refs, i, i+1)
	case 1, 2:
		_ = c.machine.Send(channel, bunch.Reliable, f.call())
	case 3:
		f.record++
		_ = c.machine.SendTracked(channel, f.record, f.items(nil))
	case 4:
		f.record++
		_ = c.machine.SendTracked(channel, f.record, wire.AppendBytes(state.AppendMask(nil, 0, lair.fields), string(append(lairNoise.m.appendID(nil), 1))))
	default:
		f.record++
		_ = c.machine.SendTracked(channel, f.record, f.fields(nil))
	}
}

// play is what the client's game does meanwhile.
func (f *forger) play(w *World, b *Binding[*lairObject]) {
	switch f.IntN(8) {
	case 0:
		_, _, _ = Place(b, []string{"gate", "door"}[f.IntN(2)], func(*lairObject) {})
	case 1:
		for a := range w.Actors() {
			_ = w.Destroy(a)
			break
		}
	case 2:
		for a, o := range b.All() {
			_ = o.pack.Set(Ref(f.ref()), lairItem{To: Ref(f.ref())})
			_ = lairTell.Then(a, 1, func(int, error) {})
			break
		}
	}
}

func newPlain(t *testing.T, classes ...*Class) *World {
	w, err := NewWorld(Config{Classes: classes})
	require.NoError(t, err)
	return w
}

// TestRandomServers: a server that sends opens, closes, states, lists, calls and
// answers in any order makes no client panic, and leaves nothing behind at it.
func TestRandomServers(t *testing.T) {
	random, longest := testkit.Rand(t), 0
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			server, client := newPlain(t, lair, lairWall), newPlain(t, lairWall)
			b := lairs(client)
			near, far := linktest.Pipe()
			_, err := server.Attach(plug{far})
			require.NoError(t, err)
			end, err := client.Connect(context.Background(), plug{near})
			require.NoError(t, err)
			tick := func() {
				server.Tick(time.Now())
				client.Tick(time.Now())
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
			for range 3 {
				tick()
			}
			f, steps := &forger{Rand: random, conn: server.announced[0]}, 0
			for ; steps < 400 && end.Err() == nil; steps++ {
				f.step()
				if random.IntN(3) == 0 {
					f.play(client, b)
					tick()
				}
			}
			longest = max(longest, steps)
			if err := end.Err(); err != nil && random.IntN(20) == 0 {
				t.Log(steps, err)
			}
			_ = client.Close(context.Background(), 0, "end")
			_ = server.Close(context.Background(), 0, "end")
			tick()
			require.Empty(t, end.channels.byNumber)
			require.Empty(t, end.copies.referrers)
			for a := range client.Actors() {
				require.True(t, a.conn == nil || a.tornOff, "%v", a)
			}
		})
	}
	t.Logf("the longest went on for %d messages", longest)
}
