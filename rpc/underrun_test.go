package rpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/testkit"
)

// The class of TestNothingIsLostUnderRun.
var (
	ant      = NewClass("Ant", UpdateRate(20))
	antLabel = NewState[label](ant)
	antUp    = Server[int](ant, "Up", Reliable)
	antDown  = Client[int](ant, "Down", Reliable)
	antBeat  = Client[int](ant, "Beat", Unreliable, ForceQueue())
	antAsk   = ServerRequest[int, int](ant, "Ask")
	antTell  = ClientRequest[int, int](ant, "Tell")
)

// antObject is the object of an ant at either end.
type antObject struct {
	actor *Actor
	label label
	sent  []int // reliable calls from this end
	heard []int // reliable calls from the other end
	slept bool  // it was dormant once; the server's knows
}

// antClient is a client with its newest connection and the ant of that.
type antClient struct {
	*testWorld
	name string
	conn *Conn
	ant  *antObject // nil before the first
	told int        // messages that SendMessage of conn has taken
}

// nest is a server and its clients, all under Run, to which things happen at random.
type nest struct {
	*testing.T
	ctx     context.Context
	random  *rand.Rand
	running sync.WaitGroup

	server  *testWorld
	binding *Binding[*antObject]
	ants    map[string]*antObject // by identity, of its newest connection
	heard   map[uint64]int        // messages, by number of the connection

	clients         []*antClient
	asked, answered atomic.Int64
}

// TestNothingIsLostUnderRun has up to 24 clients call, ask, leave and return at random, in
// worlds whose steps look only at the active connections. When all is quiet again, each end has
// everything that the other has sent, every question has ended, and there is room for messages.
func TestNothingIsLostUnderRun(t *testing.T) {
	lookAtTheActive(t)
	first := testkit.Seed(t)
	for i := range testkit.Brief(uint64(10), 60) {
		if !t.Run(fmt.Sprint(first+i), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testNest(t, first+i) }) }) {
			return
		}
	}
}

func testNest(t *testing.T, seed uint64) {
	n := newNest(t, rand.New(rand.NewPCG(seed, 1)))
	for range 400 {
		n.happen(n.clients[n.random.IntN(len(n.clients))])
	}
	n.settle()
	for _, k := range n.clients {
		n.check(k)
	}
	require.Equal(t, n.asked.Load(), n.answered.Load())
	for _, k := range n.clients {
		require.NoError(t, k.conn.SendMessage(1, nil))
		require.NoError(t, k.Close(n.ctx, 0, "end"))
	}
	require.NoError(t, n.server.Close(n.ctx, 0, "end"))
	n.running.Wait()
}

func newNest(t *testing.T, random *rand.Rand) *nest {
	n := &nest{T: t, ctx: t.Context(), random: random, ants: make(map[string]*antObject), heard: make(map[uint64]int)}
	n.server = newTestWorld(t, Config{
		MaxConnsPerIdentity: 1, Classes: []*Class{ant}, RequestTime: 3 * time.Second, MessageRate: 20,
		TickRate:     []int{0, 30, 100}[random.IntN(3)],
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnPanic:      func(*Conn, string, any, []byte) {},
		OnConnect: func(_ *World, c *Conn) {
			if _, o, err := Spawn(n.binding, c, nil); err == nil { // else c has ended again
				n.ants[c.Identity()] = o
			}
		},
		OnMessage: func(_ *World, c *Conn, _ uint8, _ []byte) error { n.heard[c.id]++; return nil },
	})
	n.binding = n.bind(n.server, func(*antObject) {})
	for i := range 1 + random.IntN(24) {
		k := &antClient{name: fmt.Sprint("ant ", i)}
		k.testWorld = newTestWorld(t, Config{Classes: []*Class{ant}, RequestTime: 3 * time.Second, Token: []byte(k.name)})
		n.bind(k.testWorld, func(o *antObject) {
			if k.ant == nil || k.ant.actor.conn.id <= o.actor.conn.id { // the open of an older connection may come later
				k.ant = o
			}
		})
		n.connect(k)
		n.clients = append(n.clients, k)
	}
	return n
}

// bind binds the class in a world, which then runs.
func (n *nest) bind(w *testWorld, made func(*antObject)) *Binding[*antObject] {
	b := Bind(w.World, ant, func(a *Actor) *antObject {
		o := &antObject{actor: a}
		made(o)
		return o
	})
	Replicate(b, antLabel, func(o *antObject) *label { return &o.label })
	hear := func(o *antObject, _ *Call, i int) { o.heard = append(o.heard, i) }
	On(b, antUp, hear)
	On(b, antDown, hear)
	On(b, antBeat, func(*antObject, *Call, int) {})
	answer := func(_ *antObject, _ *Call, i int) (int, error) { return i, nil }
	OnRequest(b, antAsk, answer)
	OnRequest(b, antTell, answer)
	n.running.Go(func() { _ = w.Run(context.Background()) })
	return b
}

// connect connects a client, which has a message for the server at once.
func (n *nest) connect(k *antClient) {
	near, far := linktest.Pipe()
	delay := time.Duration(1+n.random.IntN(30)) * time.Millisecond
	near.SetDelay(delay)
	far.SetDelay(delay)
	_, err := n.server.Attach(plug{far})
	require.NoError(n, err)
	k.conn, err = k.Connect(n.ctx, plug{near})
	require.NoError(n, err)
	k.told = 0
	k.tell()
}

func (k *antClient) tell() {
	if k.conn.SendMessage(1, nil) == nil {
		k.told++
	}
}

// at runs fn on the world of an end, with its ant, if it has one.
func (n *nest) at(k *antClient, server bool, fn func(o *antObject)) {
	w, o := k.testWorld, func() *antObject { return k.ant }
	if server {
		w, o = n.server, func() *antObject { return n.ants[k.name] }
	}
	require.NoError(n, w.Do(n.ctx, func() {
		if o := o(); o != nil {
			fn(o)
		}
	}))
}

// happen does one thing to a client, or at the server with the client's ant.
func (n *nest) happen(k *antClient) {
	ms := time.Duration(n.random.IntN(300)) * time.Millisecond
	server := n.random.IntN(2) == 0
	switch n.random.IntN(8) {
	case 0, 1:
		n.at(k, server, func(o *antObject) { o.call(server) })
	case 2:
		n.at(k, server, func(o *antObject) { n.ask(o, server) })
	case 3:
		n.at(k, true, func(o *antObject) {
			o.label.Text = ms.String()
			_ = antBeat.Call(o.actor, 1)
		})
	case 4:
		n.at(k, true, func(o *antObject) {
			o.slept = true
			_ = o.actor.SetDormant(server)
		})
	case 5:
		k.tell()
	case 6:
		n.comeAgain(k)
	case 7:
		if n.server.Post(func() { panic("a post") }); server {
			n.server.Post(func() { time.Sleep(ms) })
		} else {
			time.Sleep(ms)
		}
	}
}

func (o *antObject) call(server bool) {
	method := antUp.Call
	if server {
		method = antDown.Call
	}
	if i := len(o.sent); method(o.actor, i) == nil {
		o.sent = append(o.sent, i)
	}
}

func (n *nest) ask(o *antObject, server bool) {
	then := antAsk.Then
	if server {
		then = antTell.Then
	}
	if then(o.actor, 1, func(int, error) { n.answered.Add(1) }) == nil {
		n.asked.Add(1)
	}
}

// comeAgain has a client leave, or connect again, or both.
func (n *nest) comeAgain(k *antClient) {
	if n.random.IntN(3) == 0 {
		k.conn.Close(0, "")
		<-k.conn.Done()
	}
	if n.random.IntN(3) == 0 {
		n.connect(k)
	}
}

// settle has all clients connected and all ants awake, and waits.
func (n *nest) settle() {
	time.Sleep(5 * time.Second) // of two connections that cross, the earlier may replace the later
	for _, k := range n.clients {
		if k.conn.Err() != nil {
			n.connect(k)
		}
		n.at(k, true, func(o *antObject) { _ = o.actor.SetDormant(false) })
	}
	time.Sleep(time.Minute)
	require.NoError(n, n.server.Do(n.ctx, func() {})) // what it has written is the test's from here on
}

// check looks at both ends of a client's newest connection.
func (n *nest) check(k *antClient) {
	require.NoError(n, k.Do(n.ctx, func() {}))
	require.NoError(n, k.conn.Err())
	here, there := n.ants[k.name], k.ant
	require.Equal(n, here.actor.Ref(), there.actor.Ref(), k.name)
	require.Equal(n, here.label, there.label, k.name)
	require.Equal(n, here.sent, there.heard, k.name)
	if !here.slept { // else its channel may have closed before a call came
		require.Equal(n, there.sent, here.heard, k.name)
	}
	require.Equal(n, k.told, n.heard[here.actor.conn.id], k.name)
}
