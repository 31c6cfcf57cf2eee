package rpctest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// The level's classes of the tests of travel.
var (
	levelProp   = rpc.NewClass("LevelProp")
	levelLook   = rpc.NewState[levelLooks](levelProp)
	levelHit    = rpc.Multicast[uint32](levelProp, "Hit", rpc.Reliable)
	levelTouch  = rpc.Server[uint32](levelProp, "Touch", rpc.Reliable, rpc.AnyCaller())
	levelPlayer = rpc.NewClass("LevelPlayer")
	levelAsk    = rpc.ServerRequest[uint32, uint32](levelPlayer, "Where")
	levelBlob   = stream.NewBlob("level")
)

// levelLooks is the state of what stands in a level.
type levelLooks struct {
	Level uint32
	Place uint32
	Kind  string `quiver:"max=16"`
}

// levelThing is what stands in a level, at either side.
type levelThing struct {
	actor *rpc.Actor
	looks levelLooks
}

// travelScene is a server that travels, and its players.
type travelScene struct {
	t       *testing.T
	net     *rpctest.Network
	random  *rand.Rand
	server  *rpc.World
	streams *stream.Streams
	things  *rpc.Binding[*levelThing]
	level   uint32
	props   []*levelThing
	players map[*rpc.Conn]*rpc.Actor
	wrong   int // what was heard of another level than its actor's

	clients   []*travelClient
	gone      []*travelClient // those whose connections have ended
	transfers []*stream.Transfer
}

// travelClient is one client.
type travelClient struct {
	world  *rpc.World
	conn   *rpc.Conn
	peer   *stream.Peer
	name   string
	things map[rpc.Ref]*levelThing
	player *rpc.Actor

	asked, told int // questions, and their answers
}

// newTravelScene starts the server.
func newTravelScene(t *testing.T, net *rpctest.Network) *travelScene {
	r := &travelScene{t: t, net: net, random: rand.New(rand.NewPCG(net.Seed(), 9)), players: make(map[*rpc.Conn]*rpc.Actor)}
	var err error
	r.server, err = rpc.NewWorld(rpc.Config{
		DoS:          dos.Default(),
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnConnect: func(w *rpc.World, c *rpc.Conn) {
			a, err := w.Spawn(levelPlayer, c)
			require.NoError(t, err)
			r.players[c] = a
		},
		OnDisconnect: func(w *rpc.World, c *rpc.Conn, _ error) { delete(r.players, c) },
	})
	require.NoError(t, err)
	r.streams, err = stream.Install(r.server, stream.Config{Store: disk.New(t.TempDir())})
	require.NoError(t, err)
	r.things = r.bind(r.server, nil)
	levelBlob.Handle(r.streams, func(in *stream.IncomingBlob) { go io.Copy(io.Discard, in) })
	net.Server(r.server)
	return r
}

// bind binds the level's classes, for the server when at is nil.
func (r *travelScene) bind(w *rpc.World, at *travelClient) *rpc.Binding[*levelThing] {
	b := rpc.Bind(w, levelProp, func(a *rpc.Actor) *levelThing {
		s := &levelThing{actor: a}
		if at != nil {
			at.things[a.Ref()] = s
		} else {
			s.looks = levelLooks{Level: r.level, Place: uint32(len(r.props)), Kind: "barrel"}
		}
		return s
	})
	rpc.Replicate(b, levelLook, func(s *levelThing) *levelLooks { return &s.looks })
	rpc.On(b, levelHit, func(s *levelThing, _ *rpc.Call, level uint32) {
		if level != s.looks.Level {
			r.wrong++
		}
	})
	rpc.On(b, levelTouch, func(s *levelThing, _ *rpc.Call, level uint32) {
		if level != s.looks.Level {
			r.wrong++
		}
		s.looks.Place += 100
	})
	rpc.OnClose(b, func(s *levelThing, _ rpc.CloseReason) {
		if at != nil {
			delete(at.things, s.actor.Ref())
		}
	})
	p := rpc.Bind(w, levelPlayer, func(a *rpc.Actor) *rpc.Actor {
		if at != nil {
			at.player = a
		}
		return a
	})
	rpc.OnRequest(p, levelAsk, func(_ *rpc.Actor, _ *rpc.Call, n uint32) (uint32, error) { return r.level, nil })
	return b
}

// join has a client come, of which there may be another one by the name.
func (r *travelScene) join(name string) {
	client := &travelClient{name: name, things: make(map[rpc.Ref]*levelThing)}
	var err error
	client.world, err = rpc.NewWorld(rpc.Config{Token: []byte(name)})
	require.NoError(r.t, err)
	streams, err := stream.Install(client.world, stream.Config{})
	require.NoError(r.t, err)
	levelBlob.Handle(streams, func(in *stream.IncomingBlob) { go io.Copy(io.Discard, in) })
	r.bind(client.world, client)
	client.conn, err = r.net.Join(client.world)
	if err != nil {
		return
	}
	client.peer = streams.Peer(client.conn)
	r.clients = append(r.clients, client)
}

// travel is ServerTravel, as PORTING.md has it.
func (r *travelScene) travel() {
	for _, s := range r.props {
		if s.actor.Alive() {
			require.NoError(r.t, r.server.Destroy(s.actor))
		}
	}
	r.level, r.props = r.level+1, nil
	for range 20 + r.random.IntN(40) {
		_, s, err := rpc.Spawn(r.things, nil, nil, rpc.AlwaysRelevant())
		require.NoError(r.t, err)
		r.props = append(r.props, s)
	}
}

// act does one thing at random.
func (r *travelScene) act() {
	n := r.random.IntN(40)
	switch {
	case n < 2:
		r.travel()
		return
	case n < 8 && len(r.clients) < 6:
		r.join(fmt.Sprint("p", r.random.IntN(5)))
		return
	}
	for _, s := range r.props[:3] {
		s.looks.Place++
		_ = levelHit.Call(s.actor, s.looks.Level)
	}
	if len(r.clients) == 0 {
		return
	}
	i := r.random.IntN(len(r.clients))
	r.have(r.clients[i], n)
	if r.clients[i].conn.Err() != nil {
		r.gone = append(r.gone, r.clients[i])
		r.clients = slices.Delete(r.clients, i, i+1)
	}
}

// have has a client act, or the server send to those of its name. Clients leave
// only when six are there, for act has others join before.
func (r *travelScene) have(client *travelClient, n int) {
	switch n {
	case 3:
		r.net.Crash(client.world)
		client.asked, client.told = 0, 0 // none of its functions runs any more
	case 4:
		client.conn.Close(1025, "elsewhere")
	case 5, 6, 7, 10, 11:
		r.send(client.peer, client.name, stream.Key("up"+client.name))
	case 8, 9:
		for _, c := range r.server.Conns() {
			if c.Identity() == client.name {
				r.send(r.streams.Peer(c), client.name)
			}
		}
	default:
		if s := client.things[r.props[r.random.IntN(len(r.props))].actor.Ref()]; s != nil {
			_ = levelTouch.Call(s.actor, s.looks.Level)
		}
		if client.player != nil && client.player.Alive() && levelAsk.Then(client.player, 1, func(uint32, error) { client.told++ }) == nil {
			client.asked++
		}
	}
}

func (r *travelScene) send(to *stream.Peer, name string, options ...stream.Option) {
	data := bytes.Repeat([]byte(name), 20_000)
	if t, err := levelBlob.Start(to, bytes.NewReader(data), int64(len(data)), options...); err == nil {
		r.transfers = append(r.transfers, t)
	}
}

// TestTravel: a server changes levels while players call, ask and send, leave
// in the middle, crash and join twice under one name. Then every player has the
// level as it is, every question has an answer, and every transfer an end.
func TestTravel(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		t.Logf("seed %d", net.Seed())
		r := newTravelScene(t, net)
		r.travel()
		for range 120 {
			r.act()
			net.Advance(time.Duration(r.random.IntN(200)) * time.Millisecond)
		}
		net.Advance(2 * time.Minute)
		for _, tr := range r.transfers {
			select {
			case <-tr.Done():
			default:
				t.Errorf("%v goes on", tr)
			}
		}
		require.Zero(t, r.wrong)
		alive := 0
		for _, client := range slices.Concat(r.clients, r.gone) {
			require.Equal(t, client.asked, client.told)
			if client.conn.Err() != nil {
				continue
			}
			alive++
			require.Len(t, client.things, len(r.props))
			for _, s := range r.props {
				require.Equal(t, s.looks, client.things[s.actor.Ref()].looks)
			}
		}
		t.Logf("%d at level %d, %d transfers", alive, r.level, len(r.transfers))
		require.Len(t, r.server.Conns(), alive)
		require.Len(t, r.players, alive)
		for _, c := range r.server.Conns() {
			require.Zero(t, r.streams.Peer(c).Stats().Receiving)
			require.Zero(t, c.Stats().Drops.Blocked, "honest players")
		}
	})
}
