package rpc

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc/cert"
)

// dialAgain connects a client's world once more, and returns its copy of a hero on that connection.
func (n *network) dialAgain(w *testWorld) (end *Conn, copied *Actor) {
	n.t.Helper()
	end, err := n.connect(w)
	require.NoError(n.t, err)
	n.clients = n.clients[:1] // the same world: it ticks once
	n.tick(3)
	_, err = n.server.Spawn(hero, n.server.joined[len(n.server.joined)-1])
	require.NoError(n.t, err)
	n.tick(3)
	require.Contains(n.t, w.take(), "open ")
	require.Len(n.t, end.channels.byNumber, 1)
	for _, copied = range end.channels.byNumber {
		require.Same(n.t, end, copied.Conn())
	}
	return end, copied
}

// TestClientConnectsAgain: after a connection has ended, before the world has
// heard of its end, and beside another one.
func TestClientConnectsAgain(t *testing.T) {
	inNet(t, 0, Config{}, func(n *network) {
		w := newTestWorld(t, Config{})
		first, a := n.dialAgain(w)
		first.Close(0, "again")
		n.tick(3)
		require.Equal(t, []string{"close Disconnected"}, w.take())
		require.False(t, a.Alive())

		second, b := n.dialAgain(w)
		third, c := n.dialAgain(w)
		n.server.take()
		require.NoError(t, fire.Call(b, shot{1}))
		require.NoError(t, fire.Call(c, shot{2}))
		n.tick(3)
		require.Equal(t, []string{"fire", "fire"}, n.server.take())
		require.Equal(t, []*Conn{second, third}, w.Conns())

		second.Close(0, "one is enough")
		<-second.Done()
		require.True(t, b.Alive(), "the world has not heard of it")
		fourth, d := n.dialAgain(w)
		n.server.take()
		require.False(t, b.Alive())
		require.True(t, c.Alive(), "it is of another connection")
		require.NoError(t, fire.Call(c, shot{3}))
		require.NoError(t, fire.Call(d, shot{4}))
		n.tick(3)
		require.Equal(t, []string{"fire", "fire"}, n.server.take())
		require.Equal(t, []*Conn{third, fourth}, w.Conns())
	})
}

// TestEndComesBeforeTheNextConnection: if a client connects again before its world
// knows of the end of the old connection, OnDisconnect still runs first, so that
// actors that are placed for the new connection do not belong to the old one.
func TestEndComesBeforeTheNextConnection(t *testing.T) {
	inNet(t, 0, Config{}, func(n *network) {
		_, _, err := Place(n.server.binding, "gate", nil, AlwaysRelevant())
		require.NoError(t, err)
		w := newTestWorld(t, Config{})
		var heard []string
		var gate *Actor
		w.OnConnect(func(c *Conn) {
			heard = append(heard, "connected")
			gate, _, err = Place(w.binding, "gate", nil)
			require.NoError(t, err)
		})
		w.OnDisconnect(func(*Conn, error) { heard = append(heard, "disconnected") })
		first, err := n.connect(w)
		require.NoError(t, err)
		n.tick(3)
		require.NotZero(t, gate.Ref())
		first.Close(0, "again")
		<-first.Done()
		second, err := n.connect(w)
		require.NoError(t, err)
		n.tick(6)
		require.Equal(t, []string{"connected", "disconnected", "connected"}, heard)
		require.True(t, gate.Alive())
		require.Same(t, second, gate.Conn())
		require.Empty(t, second.entry.predecessors, "or all connections of a client would stay")
		require.NotZero(t, gate.Ref())
	})
}

// TestEndComesBeforeTheNextOfAnIdentity: on a server, too, OnDisconnect runs first
// if a player leaves and returns within a tick, or joins and leaves within one.
func TestEndComesBeforeTheNextOfAnIdentity(t *testing.T) {
	var heard []string
	config := Config{
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnConnect:    func(_ *World, c *Conn) { heard = append(heard, "connected "+c.Identity()) },
		OnDisconnect: func(_ *World, c *Conn, _ error) { heard = append(heard, "disconnected "+c.Identity()) },
	}
	inNet(t, 0, config, func(n *network) {
		var ends []*Conn
		for _, who := range []string{"ann", "bob", "ann", "ann", "bob"} {
			c, err := n.connect(newTestWorld(t, Config{Token: []byte(who)}))
			require.NoError(t, err)
			time.Sleep(2 * testDelay)
			c.Close(0, "bye")
			<-c.Done()
			time.Sleep(2 * testDelay)
			ends = append(ends, c)
		}
		n.tick(6)
		require.Len(t, heard, 2*len(ends))
		in := map[string]bool{}
		for _, what := range heard {
			verb, who, _ := strings.Cut(what, " ")
			require.Equal(t, verb == "disconnected", in[who], "%v", heard)
			in[who] = verb == "connected"
		}
	})
}

// TestCloseWaitsForWhatIsAttached: a connection that began before Close has
// ended when that returns.
func TestCloseWaitsForWhatIsAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWorld(Config{})
		require.NoError(t, err)
		near, _ := linktest.Pipe()
		c := &Conn{world: w, server: true, carrier: carrierAdapter{plug{near}}}
		_, refused := w.lobby.enlist(c, c.origin(), nil)
		require.Nil(t, refused)
		closed := make(chan error, 1)
		go func() { closed <- w.Close(t.Context(), HostClosedConnection, "over") }()
		synctest.Wait()
		require.Empty(t, closed, "one is being attached")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Close(ctx, HostClosedConnection, "over"), context.DeadlineExceeded)
		w.lobby.attaching.Done()
		require.NoError(t, <-closed)
		_, err = w.Attach(plug{near})
		require.ErrorContains(t, err, "the world is closed")
		require.NoError(t, w.Close(t.Context(), HostClosedConnection, "over"))
	})
}

// TestCloseWithoutTime: Close with a ctx that has ended still closes the
// connections, and returns an error that they are still closing.
func TestCloseWithoutTime(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := n.server.Close(ctx, HostClosedConnection, "no time")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "still")
		n.tick(30)
		require.ErrorContains(t, n.ends[0].Err(), "no time")
	})
}

// TestListenThatFailed leaves the world what it was.
func TestListenThatFailed(t *testing.T) {
	w := newTestWorld(t, Config{})
	_, err := Listen("127.0.0.1:0", nil, w.World)
	require.ErrorContains(t, err, "TLS config")
	require.NoError(t, w.lobby.becomeClient(0))
	require.ErrorIs(t, w.lobby.addListener(), ErrWrongRole)

	w = newTestWorld(t, Config{})
	certificate, err := cert.Development()
	require.NoError(t, err)
	l, err := Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, w.World)
	require.NoError(t, err)
	require.ErrorIs(t, w.lobby.becomeClient(0), ErrWrongRole)
	require.NoError(t, l.Close())
	require.NoError(t, w.lobby.becomeClient(0), "it listens no more, and never had a client")
}
