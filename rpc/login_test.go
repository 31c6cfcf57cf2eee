package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLoginThatPanics: the client is told, what it was given is gone, and the world goes on.
func TestLoginThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []*Conn
		n := &network{t: t, server: newTestWorld(t, Config{
			Login: func(w *World, c *Conn) error {
				_, err := w.Spawn(hero, c)
				require.NoError(t, err)
				panic("boom")
			},
			OnPanic: func(c *Conn, _ string, _ any, _ []byte) { told = append(told, c) },
		})}
		failed := make(chan error, 1)
		w := newTestWorld(t, Config{})
		go func() { _, err := n.connect(w); failed <- err }()
		synctest.Wait()
		n.tick(3)
		var closed *CloseError
		require.ErrorAs(t, <-failed, &closed)
		require.Equal(t, HandlerPanic, closed.Code)
		require.Equal(t, "Config.Login panicked", closed.Reason)
		n.tick(2)
		require.Len(t, told, 1)
		require.NotNil(t, told[0])
		require.Equal(t, []string{"close Destroyed"}, n.server.take())
		require.Empty(t, n.server.left)
		require.Zero(t, n.server.lobby.door.Conns())
		n.close()
	})
}

// logIn has one more client join a server whose Login runs in its ticks.
func (n *network) logIn() {
	joined := make(chan error, 1)
	go func() { _, err := n.connect(newTestWorld(n.t, Config{})); joined <- err }()
	for len(joined) == 0 {
		time.Sleep(testDelay)
		n.server.Tick(time.Now())
	}
	require.NoError(n.t, <-joined)
	n.tick(3)
}

// TestLoginComesBehindTheEndBefore: what a game saves in OnDisconnect it may load in Login, whether the player has left and come again before
// the world looked, or logs in from elsewhere. The progress of an old connection would else be lost, and the new one's overwrite it.
func TestLoginComesBehindTheEndBefore(t *testing.T) {
	for name, leaves := range map[string]bool{"left": true, "from elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard []string
				n := &network{t: t, server: newTestWorld(t, Config{
					MaxConnsPerIdentity: 1,
					Authenticate:        func(context.Context, []byte) (string, error) { return "ann", nil },
					Login:               func(*World, *Conn) error { heard = append(heard, "login"); return nil },
					OnConnect:           func(*World, *Conn) { heard = append(heard, "connect") },
					OnDisconnect:        func(*World, *Conn, error) { heard = append(heard, "disconnect") },
				})}
				n.logIn()
				if leaves {
					n.ends[0].Close(0, "bye")
					<-n.ends[0].Done()
				}
				n.logIn()
				require.Equal(t, []string{"login", "connect", "disconnect", "login", "connect"}, heard)
				require.Empty(t, n.server.loggingIn)
				n.close()
			})
		})
	}
}

// TestLastOwnerOfALogin: what Login gave to a client closes there like all else when another one gets it, also in Login. It stayed open, for
// the library had opened it as a game does; and while the other one had yet to join, nobody told the last owner.
func TestLastOwnerOfALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pawn *Actor
		n := &network{t: t, server: newTestWorld(t, Config{Login: func(w *World, c *Conn) (err error) {
			if pawn == nil {
				pawn, err = w.Spawn(hero, c)
				return err
			}
			return w.SetOwner(pawn, c)
		}})}
		join := func() *Actor {
			n.logIn()
			n.conns = n.server.joined
			copied := n.mirror(len(n.clients)-1, pawn)
			require.True(t, copied.Owned())
			return copied
		}
		first := join()
		second := join()
		require.True(t, first.dead)
		require.NoError(t, n.server.SetOwner(pawn, n.conns[0]))
		n.tick(3)
		require.True(t, second.dead)
		require.True(t, n.mirror(0, pawn).Owned())
		n.close()
	})
}
