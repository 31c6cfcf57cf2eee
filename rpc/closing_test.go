package rpc

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
)

// openBytes is an open message as a hostile server writes it.
func openBytes(class int, flags byte, ref Ref, states ...byte) []byte {
	b := append(binary.AppendUvarint(nil, uint64(class)), flags)
	return append(binary.AppendUvarint(b, uint64(ref)), states...)
}

// forge opens a channel with a message of a hostile server.
func (n *network) forge(message []byte) {
	n.t.Helper()
	c := n.conns[0]
	c.link.Lock()
	defer c.link.Unlock()
	channel, err := c.machine.Open(bunch.Normal)
	require.NoError(n.t, err)
	require.NoError(n.t, c.machine.Send(channel, bunch.Reliable, message))
}

// forgeClose closes a hero's channel as a hostile server does.
func (n *network) forgeClose(a *Actor, payload ...byte) {
	n.t.Helper()
	c, channel := n.conns[0], a.openings[0].channel
	a.forget(a.openings[0])
	c.channels.set(channel, nil)
	c.link.Lock()
	defer c.link.Unlock()
	require.NoError(n.t, c.machine.Close(channel, payload))
}

// TestHostileServers: what breaks the rules of opens and closes closes the
// connection, and nothing panics.
func TestHostileServers(t *testing.T) {
	const heroID, cargoID = 0, 1
	for name, attack := range map[string]func(n *network, a *Actor){
		"open of what is open": func(n *network, a *Actor) { n.forge(openBytes(heroID, 0, a.ref)) },
		"open of what is torn off": func(n *network, a *Actor) {
			n.forgeClose(a, byte(TearOff))
			n.tick(3)
			n.forge(openBytes(heroID, 0, a.ref))
		},
		"dormant copy of another class": func(n *network, a *Actor) {
			n.forgeClose(a, byte(Dormancy))
			n.tick(3)
			n.forge(openBytes(cargoID, 0, a.ref))
		},
		"dormant copy with a bad state": func(n *network, a *Actor) {
			n.forgeClose(a, byte(Dormancy))
			n.tick(3)
			n.forge(openBytes(heroID, flagState, a.ref, 0xff))
		},
		"dormant copy with bytes left": func(n *network, a *Actor) {
			n.forgeClose(a, byte(Dormancy))
			n.tick(3)
			n.forge(openBytes(heroID, 0, a.ref, 1))
		},
		"open without a number":         func(n *network, a *Actor) { n.forge(openBytes(heroID, 0, 0)) },
		"open with a flag that is none": func(n *network, a *Actor) { n.forge(openBytes(heroID, 0x80, 99)) },
		"placed under no name":          func(n *network, a *Actor) { n.forge(openBytes(heroID, flagPlaced, 99, 0)) },
		"placed under half a name":      func(n *network, a *Actor) { n.forge(openBytes(heroID, flagPlaced, 99, 5, 'a')) },
		"placed under a long name": func(n *network, a *Actor) {
			n.forge(openBytes(heroID, flagPlaced, 99, append([]byte{0xff, 1}, make([]byte, 255)...)...))
		},
		"open copy under another name": func(n *network, a *Actor) {
			n.forgeClose(a, byte(Dormancy))
			n.tick(3)
			n.forge(openBytes(heroID, flagPlaced, a.ref, 1, 'a'))
		},
		"placed copy of another class": func(n *network, a *Actor) {
			_, _, err := Place(n.clients[0].binding, "gate", nil)
			require.NoError(n.t, err)
			n.forge(openBytes(cargoID, flagPlaced, 99, 4, 'g', 'a', 't', 'e'))
		},
		"close for a reason that is none":  func(n *network, a *Actor) { n.forgeClose(a, 5) },
		"close for Disconnected":           func(n *network, a *Actor) { n.forgeClose(a, byte(Disconnected)) },
		"close with bytes left":            func(n *network, a *Actor) { n.forgeClose(a, byte(Relevancy), 1) },
		"dormancy with a bad state":        func(n *network, a *Actor) { n.forgeClose(a, byte(Dormancy), 1) },
		"dormancy with fields that are no": func(n *network, a *Actor) { n.forgeClose(a, byte(Dormancy), 0xff, 0xff, 0xff) },
		"tear-off with a bad state":        func(n *network, a *Actor) { n.forgeClose(a, byte(TearOff), 1, 99) },
		"a bad last state": func(n *network, a *Actor) {
			require.NoError(n.t, a.send(a.openings[0], stateMessage, binary.AppendUvarint(nil, stateMethod)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 1, Config{Classes: []*Class{cargo}}, func(n *network) {
				a := n.spawn(0)
				attack(n, a)
				n.tick(4)
				var closed *CloseError
				require.ErrorAs(t, n.ends[0].Err(), &closed)
				require.Equal(t, PayloadFail, closed.Code, closed.Reason)
				require.False(t, closed.Remote)
				t.Log(closed.Reason)
				n.tick(2)
				require.Empty(t, n.ends[0].channels.byNumber)
			})
		})
	}
}

// TestEmptyCloseDestroys: a close without a reason is one for Destroyed.
func TestEmptyCloseDestroys(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		n.forgeClose(n.spawn(0))
		n.tick(3)
		require.Equal(t, []string{"close Destroyed"}, n.clients[0].take())
	})
}

// TestOpenThatClosesADormantCopy: one message opens and closes the channel of a dormant copy.
func TestOpenThatClosesADormantCopy(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		n.forgeClose(a, byte(Dormancy))
		n.tick(3)
		require.Empty(t, n.clients[0].take())
		c := n.conns[0]
		c.link.Lock()
		channel, err := c.machine.Open(bunch.Normal)
		require.NoError(t, err)
		require.NoError(t, c.machine.Close(channel, openBytes(0, 0, a.ref)))
		c.link.Unlock()
		n.tick(3)
		require.Equal(t, []string{"close Destroyed"}, n.clients[0].take())
		require.NoError(t, n.ends[0].Err())
	})
}

// TestClientsSendNoLastState: only servers do.
func TestClientsSendNoLastState(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		smuggle(t, n.mirror(0, n.spawn(0)), binary.AppendUvarint(nil, stateMethod))
		n.tick(4)
		var closed *CloseError
		require.ErrorAs(t, n.conns[0].Err(), &closed)
		require.Equal(t, UnknownMethod, closed.Code)
	})
}

// TestDismissalsWaitForChannels: a client has more dormant copies than
// channels. The end of all of them reaches it.
func TestDismissalsWaitForChannels(t *testing.T) {
	inNet(t, 1, Config{Bunch: bunch.Config{MaxChannels: 4}}, func(n *network) {
		var all []*Actor
		for range 20 {
			a := n.spawn(0)
			require.NoError(t, a.SetDormant(true))
			n.tick(4)
			all = append(all, a)
		}
		require.Len(t, n.ends[0].copies.byRef, 20)
		for _, a := range all {
			require.NoError(t, n.server.Destroy(a))
		}
		require.NotEmpty(t, n.conns[0].shown.dismissals)
		n.tick(60)
		require.Empty(t, n.conns[0].shown.dismissals)
		require.Empty(t, n.ends[0].copies.byRef)
		require.Zero(t, n.clients[0].actors.alive.Load())
		require.NoError(t, n.conns[0].Err())
	})
}

// TestDormantActorsCostNothing: neither at a tick nor in what a connection holds once it has ended.
func TestDormantActorsCostNothing(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, a.OpenTo(n.conns[0]), "it stays open there, whoever owns it")
		require.NotEmpty(t, n.server.replicator.states)
		require.NoError(t, a.SetDormant(true))
		n.tick(3)
		require.Empty(t, n.server.replicator.states)
		require.Empty(t, n.conns[0].channels.byNumber)
		require.Empty(t, n.ends[0].channels.byNumber)
		require.NoError(t, n.server.SetOwner(a, nil))
		n.tick(3)
		require.Len(t, a.dormancy.detachedAt, 1)
		n.ends[0].Close(0, "bye")
		n.tick(4)
		require.Empty(t, a.dormancy.detachedAt)
		require.NoError(t, a.FlushDormancy())
	})
}

// TestConstructorThatOpensAndCloses: the states of an actor whose constructor
// opens and closes it are replicated all the same.
func TestConstructorThatOpensAndCloses(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		n.server.onConstruct = func(a *Actor) {
			require.NoError(t, a.OpenTo(n.conns[0]))
			a.CloseTo(n.conns[0])
		}
		a := n.named(0, "first")
		n.tick(6)
		*a.text() = "second"
		n.tick(3)
		require.Equal(t, []string{"open ", "close Relevancy", "open first", "label second"}, n.clients[0].take())
	})
}

// hoard is more than a close carries.
type hoard struct {
	First, Second string `quiver:"max=900"`
}

// TestLastStatesTooLargeForAClose go before it.
func TestLastStatesTooLargeForAClose(t *testing.T) {
	class := NewClass("Hoarder")
	kept := NewState[hoard](class)
	bind := func(w *testWorld) *Binding[*hoard] {
		b := Bind(w.World, class, func(*Actor) *hoard { return &hoard{} })
		Replicate(b, kept, func(h *hoard) *hoard { return h })
		return b
	}
	long := string(make([]byte, 900))
	n := &network{t: t}
	synctest.Test(t, func(t *testing.T) {
		n.server = newTestWorld(t, Config{})
		server := bind(n.server)
		w := newTestWorld(t, Config{})
		client := bind(w)
		_, err := n.connect(w)
		require.NoError(t, err)
		n.tick(3)
		for _, leave := range []func(a *Actor) error{func(a *Actor) error { return a.SetDormant(true) }, (*Actor).TearOff} {
			a, h, err := Spawn(server, n.server.joined[0], nil)
			require.NoError(t, err)
			n.tick(3)
			h.First, h.Second = long, long
			require.NoError(t, leave(a))
			n.tick(3)
			copied, ok := client.At(a.Ref())
			require.True(t, ok)
			require.Equal(t, h, copied)
			require.Zero(t, len(a.openings))
		}
		n.close()
		time.Sleep(time.Second)
	})
}
