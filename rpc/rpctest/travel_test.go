package rpctest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
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
	stageProp   = rpc.NewClass("StageProp")
	stageLook   = rpc.NewState[stageLooks](stageProp)
	stageHit    = rpc.Multicast[uint32](stageProp, "Hit", rpc.Reliable)
	stageTouch  = rpc.Server[uint32](stageProp, "Touch", rpc.Reliable, rpc.AnyCaller())
	stagePlayer = rpc.NewClass("StagePlayer")
	stageAsk    = rpc.ServerRequest[uint32, uint32](stagePlayer, "Where")
	stageBlob   = stream.NewBlob("stage")
)

// stageLooks is the state of what stands in a level.
type stageLooks struct {
	Level uint32
	Place uint32
	Kind  string `quiver:"max=16"`
}

// stageThing is what stands in a level, at either side.
type stageThing struct {
	actor *rpc.Actor
	looks stageLooks
}

// tour is a server that travels, and its players.
type tour struct {
	t       *testing.T
	net     *rpctest.Network
	random  *rand.Rand
	server  *rpc.World
	streams *stream.Streams
	things  *rpc.Binding[*stageThing]
	level   uint32
	props   []*stageThing
	players map[*rpc.Conn]*rpc.Actor
	wrong   int // what was heard of another level than its actor's

	tourists  []*tourist
	transfers []*stream.Transfer
}

// tourist is one client.
type tourist struct {
	world  *rpc.World
	conn   *rpc.Conn
	peer   *stream.Peer
	name   string
	things map[rpc.Ref]*stageThing
	player *rpc.Actor

	asked, told int // questions, and their answers
}

// newTour starts the server.
func newTour(t *testing.T, net *rpctest.Network) *tour {
	r := &tour{t: t, net: net, random: rand.New(rand.NewPCG(net.Seed(), 9)), players: make(map[*rpc.Conn]*rpc.Actor)}
	var err error
	r.server, err = rpc.NewWorld(rpc.Config{
		DoS:          dos.Default(),
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnConnect: func(w *rpc.World, c *rpc.Conn) {
			a, err := w.Spawn(stagePlayer, c)
			require.NoError(t, err)
			r.players[c] = a
		},
		OnDisconnect: func(w *rpc.World, c *rpc.Conn, _ error) { delete(r.players, c) },
	})
	require.NoError(t, err)
	r.streams, err = stream.Install(r.server, stream.Config{Store: disk.New(t.TempDir())})
	require.NoError(t, err)
	r.things = r.bind(r.server, nil)
	stageBlob.Handle(r.streams, func(in *stream.IncomingBlob) { go io.Copy(io.Discard, in) })
	net.Server(r.server)
	return r
}

// bind binds the level's classes, for the server when at is nil.
func (r *tour) bind(w *rpc.World, at *tourist) *rpc.Binding[*stageThing] {
	b := rpc.Bind(w, stageProp, func(a *rpc.Actor) *stageThing {
		s := &stageThing{actor: a}
		if at != nil {
			at.things[a.Ref()] = s
		} else {
			s.looks = stageLooks{Level: r.level, Place: uint32(len(r.props)), Kind: "barrel"}
		}
		return s
	})
	rpc.Replicate(b, stageLook, func(s *stageThing) *stageLooks { return &s.looks })
	rpc.On(b, stageHit, func(s *stageThing, _ *rpc.Call, level uint32) {
		if level != s.looks.Level {
			r.wrong++
		}
	})
	rpc.On(b, stageTouch, func(s *stageThing, _ *rpc.Call, level uint32) {
		if level != s.looks.Level {
			r.wrong++
		}
		s.looks.Place += 100
	})
	rpc.OnClose(b, func(s *stageThing, _ rpc.CloseReason) {
		if at != nil {
			delete(at.things, s.actor.Ref())
		}
	})
	p := rpc.Bind(w, stagePlayer, func(a *rpc.Actor) *rpc.Actor {
		if at != nil {
			at.player = a
		}
		return a
	})
	rpc.OnRequest(p, stageAsk, func(_ *rpc.Actor, _ *rpc.Call, n uint32) (uint32, error) { return r.level, nil })
	return b
}

// join has a client come, of which there may be another one by the name.
func (r *tour) join(name string) {
	u := &tourist{name: name, things: make(map[rpc.Ref]*stageThing)}
	var err error
	u.world, err = rpc.NewWorld(rpc.Config{Token: []byte(name)})
	require.NoError(r.t, err)
	streams, err := stream.Install(u.world, stream.Config{})
	require.NoError(r.t, err)
	stageBlob.Handle(streams, func(in *stream.IncomingBlob) { go io.Copy(io.Discard, in) })
	r.bind(u.world, u)
	u.conn, err = r.net.Join(u.world)
	if err != nil {
		return
	}
	u.peer = streams.Peer(u.conn)
	r.tourists = append(r.tourists, u)
}

// travel is ServerTravel, as PORTING.md has it.
func (r *tour) travel() {
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
func (r *tour) act() {
	n := r.random.IntN(40)
	if n < 2 {
		r.travel()
		return
	}
	if n < 8 && len(r.tourists) < 6 {
		r.join(fmt.Sprint("p", r.random.IntN(5)))
		return
	}
	for _, s := range r.props[:min(3, len(r.props))] {
		s.looks.Place++
		_ = stageHit.Call(s.actor, s.looks.Level)
	}
	if len(r.tourists) == 0 {
		return
	}
	i := r.random.IntN(len(r.tourists))
	u := r.tourists[i]
	data := bytes.Repeat([]byte(u.name), 20_000)
	switch n {
	case 3:
		r.net.Crash(u.world)
	case 4:
		u.conn.Close(1025, "elsewhere")
	case 5, 6, 7, 10, 11:
		if t, err := stageBlob.Start(u.peer, bytes.NewReader(data), int64(len(data)), stream.Key("up"+u.name)); err == nil {
			r.transfers = append(r.transfers, t)
		}
	case 8, 9:
		for c := range r.players {
			if c.Identity() == u.name {
				if t, err := stageBlob.Start(r.streams.Peer(c), bytes.NewReader(data), int64(len(data))); err == nil {
					r.transfers = append(r.transfers, t)
				}
			}
		}
	default:
		for _, s := range u.things {
			_ = stageTouch.Call(s.actor, s.looks.Level)
			break
		}
		if u.player != nil && u.player.Alive() {
			if stageAsk.Then(u.player, 1, func(uint32, error) { u.told++ }) == nil {
				u.asked++
			}
		}
	}
	if u.conn.Err() != nil {
		r.tourists = append(r.tourists[:i], r.tourists[i+1:]...)
	}
}

// TestTravel: a server goes from level to level while players call, ask and send, leave in the middle, crash and come twice under one name. Then
// whoever is there has the level as it is, every question has an answer, and every transfer an end.
func TestTravel(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		t.Logf("seed %d", net.Seed())
		r := newTour(t, net)
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
		for _, u := range r.tourists {
			require.Equal(t, u.asked, u.told)
			if u.conn.Err() != nil {
				continue
			}
			alive++
			require.Len(t, u.things, len(r.props))
			for _, s := range r.props {
				require.Equal(t, s.looks, u.things[s.actor.Ref()].looks)
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
