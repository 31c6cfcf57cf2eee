package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// The classes of the tests.
var (
	hero  = NewClass("Hero")
	fire  = Server[shot](hero, "Fire", Reliable)
	shout = Server[string](hero, "Shout", Reliable, AnyCaller())
	spam  = Server[int](hero, "Spam", Reliable, RateLimit(3))
	hit   = Client[int](hero, "Hit", Reliable)
	blink = Client[int](hero, "Blink", Unreliable)
	blast = Multicast[int](hero, "Explode", Reliable)
	voice = Multicast[string](hero, "Voice", Unreliable, SkipOwner())
	tell  = Client[string](hero, "Tell", Reliable)
	bulk  = Client[Raw](hero, "Bulk", Reliable)
	title = Server[callsign](hero, "Title", Reliable)
	wave  = Client[Raw](hero, "Wave", Unreliable)
	roar  = Multicast[Raw](hero, "Roar", Unreliable)

	heroLabel = NewState[label](hero)

	cargo = NewClass("Wagon", prioritised(bunch.Bulk))
	haul  = Client[Raw](cargo, "Haul", Reliable)
)

// label is what a hero's clients see of it.
type label struct {
	Text string `quiver:"max=160"`
}

// callsign has bounds.
type callsign struct {
	Name  string   `quiver:"max=8"`
	Known []string `quiver:"max=2,each=4"`
}

type shot struct{ Ammo int }

func (s shot) Validate() error {
	if s.Ammo < 0 {
		return errors.New("ammo is negative")
	}
	return nil
}

// puppet is the object of a hero on either side. It notes what it hears.
type puppet struct {
	world *testWorld
	actor *Actor
	label label
}

func (p *puppet) note(what string) { p.world.heard = append(p.world.heard, what) }

func (p *puppet) onClose(r CloseReason) { p.note("close " + r.String()) }

// testWorld is a world that notes what it hears.
type testWorld struct {
	*World
	heard  []string
	onFire func(call *Call, s shot)

	onConstruct func(a *Actor)
	joined      []*Conn
	left        []error
	binding     *Binding[*puppet]
	received    int // bytes of Bulk
	onBulk      func(b Raw)
	waves       int           // bytes of Wave and Roar
	wavesAt     time.Duration // the longest that one was under way: its first bytes say when it left
	hauled      int           // bytes of Haul
}

func newTestWorld(t testing.TB, config Config) *testWorld {
	t.Helper()
	world, err := NewWorld(config)
	require.NoError(t, err)
	w := &testWorld{World: world}
	w.OnConnect(func(c *Conn) { w.joined = append(w.joined, c) })
	w.OnDisconnect(func(c *Conn, err error) { w.left = append(w.left, err) })
	w.binding = Bind(world, hero, w.construct)
	Replicate(w.binding, heroLabel, func(p *puppet) *label { return &p.label })
	OnRep(w.binding, heroLabel, (*puppet).labelled)
	OnClose(w.binding, (*puppet).onClose)
	On(w.binding, fire, func(p *puppet, call *Call, s shot) {
		p.note("fire")
		if w.onFire != nil {
			w.onFire(call, s)
		}
	})
	On(w.binding, shout, func(p *puppet, _ *Call, s string) { p.note("shout " + s) })
	On(w.binding, tell, func(p *puppet, _ *Call, s string) { p.note("tell " + s) })
	On(w.binding, spam, func(p *puppet, _ *Call, n int) { p.note("spam") })
	On(w.binding, hit, func(p *puppet, _ *Call, n int) { p.note("hit") })
	On(w.binding, blink, func(p *puppet, _ *Call, n int) { p.note("blink") })
	On(w.binding, blast, func(p *puppet, _ *Call, n int) { p.note("explode") })
	On(w.binding, voice, func(p *puppet, _ *Call, s string) { p.note("voice " + s) })
	On(w.binding, title, func(p *puppet, _ *Call, s callsign) { p.note("title " + s.Name) })
	On(w.binding, wave, w.onWave)
	On(w.binding, roar, w.onWave)
	if slices.Contains(config.Classes, cargo) {
		cargoes := Bind(world, cargo, func(*Actor) *testWorld { return w })
		On(cargoes, haul, func(w *testWorld, _ *Call, b Raw) { w.hauled += len(b) })
	}
	On(w.binding, bulk, func(_ *puppet, _ *Call, b Raw) {
		w.received += len(b)
		if w.onBulk != nil {
			w.onBulk(b)
		}
	})
	return w
}

func (w *testWorld) onWave(_ *puppet, _ *Call, b Raw) {
	if w.IsServer() {
		return // a Roar of its own
	}
	w.waves += len(b)
	left := time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	w.wavesAt = max(w.wavesAt, time.Since(left))
}

func (w *testWorld) construct(a *Actor) *puppet {
	p := &puppet{world: w, actor: a}
	if w.onConstruct != nil {
		w.onConstruct(a)
	}
	if !w.IsServer() {
		p.note("open ")
	}
	return p
}

// labelled notes the label of an open with the open, which comes right before.
func (p *puppet) labelled(label) {
	heard := p.world.heard
	if n := len(heard); n > 0 && heard[n-1] == "open " {
		heard[n-1] += p.label.Text
		return
	}
	p.note("label " + p.label.Text)
}

// take returns what was heard since the last time.
func (w *testWorld) take() []string {
	heard := w.heard
	w.heard = nil
	return heard
}

// network is a server and clients joined by pipes, in the fake time of a
// bubble, ticked in lockstep.
type network struct {
	t       testing.TB
	server  *testWorld
	clients []*testWorld
	conns   []*Conn // the server's ends, by client
	ends    []*Conn // the clients' ends
	pipes   [][2]*linktest.Carrier
}

// joinBound binds a class at the server and at a new client, which joins.
func joinBound[A any](n *network, bind func(*World) *Binding[A]) (server, client *Binding[A]) {
	n.t.Helper()
	server = bind(n.server.World)
	w := newTestWorld(n.t, Config{})
	client = bind(w.World)
	_, err := n.connect(w)
	require.NoError(n.t, err)
	n.tick(10)
	return server, client
}

// plug makes the end of a pipe a Carrier.
type plug struct{ *linktest.Carrier }

func (p plug) Path() Path { return Path(p.Carrier.Path()) }

const testDelay = 5 * time.Millisecond

// inNet runs a test with so many clients that have joined.
func inNet(t *testing.T, clients int, server Config, fn func(n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, server)}
		for range clients {
			n.join(Config{Bunch: server.Bunch, Classes: server.Classes, ReceiveLimit: server.ReceiveLimit})
		}
		fn(n)
		n.close()
	})
}

// join adds a client.
func (n *network) join(config Config) *testWorld {
	n.t.Helper()
	w := newTestWorld(n.t, config)
	_, err := n.connect(w)
	require.NoError(n.t, err)
	n.tick(3)
	require.Len(n.t, n.server.joined, len(n.clients))
	require.Len(n.t, w.joined, 1)
	n.conns = append(n.conns, n.server.joined[len(n.clients)-1])
	return w
}

// connect attaches a client's world.
func (n *network) connect(w *testWorld) (*Conn, error) {
	near, far := linktest.Pipe()
	near.SetDelay(testDelay)
	far.SetDelay(testDelay)
	if _, err := n.server.Attach(plug{far}); err != nil {
		return nil, err
	}
	c, err := w.Connect(context.Background(), plug{near})
	if err == nil {
		n.clients = append(n.clients, w)
		n.ends = append(n.ends, c)
		n.pipes = append(n.pipes, [2]*linktest.Carrier{near, far})
	}
	return c, err
}

// tick drives all worlds at 30 Hz.
func (n *network) tick(times int) {
	for range times {
		n.server.Tick(time.Now())
		for _, w := range n.clients {
			w.Tick(time.Now())
		}
		time.Sleep(time.Second / 30)
		synctest.Wait()
	}
}

// close ends the connections that are left.
func (n *network) close() {
	for _, w := range n.clients {
		require.NoError(n.t, w.Close(context.Background(), 0, "end of test"))
	}
	require.NoError(n.t, n.server.Close(context.Background(), 0, "end of test"))
	n.tick(1)
}

// spawn makes a hero for the client, or for the server at -1, and lets everybody hear of it.
func (n *network) spawn(owner int, options ...SpawnOption) *Actor {
	n.t.Helper()
	var conn *Conn
	if owner >= 0 {
		conn = n.conns[owner]
	}
	a, err := n.server.Spawn(hero, conn, options...)
	require.NoError(n.t, err)
	n.tick(3)
	for _, w := range n.clients {
		w.take()
	}
	return a
}

// named makes a hero with a label for the client, or for the server at -1.
func (n *network) named(owner int, text string, options ...SpawnOption) *Actor {
	n.t.Helper()
	var conn *Conn
	if owner >= 0 {
		conn = n.conns[owner]
	}
	a, _, err := Spawn(n.server.binding, conn, func(p *puppet) { p.label.Text = text }, options...)
	require.NoError(n.t, err)
	return a
}

// text returns the label of a server's hero, to change it.
func (a *Actor) text() *string { return &a.own.object.(*puppet).label.Text }

// mirror returns a client's copy of an actor.
func (n *network) mirror(client int, a *Actor) *Actor {
	n.t.Helper()
	o := a.openingOn(n.conns[client])
	require.NotNil(n.t, o)
	copied := n.ends[client].channels.byNumber[o.channel]
	require.NotNil(n.t, copied)
	return copied
}

// prioritised is what package stream does to its classes.
func prioritised(p bunch.Priority) ClassOption { return func(c *Class) { c.extended.Priority = p } }
