package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
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

// TestARefusedLoginIsOneLine: it was two warnings, and none said that an address tried again and again.
func TestARefusedLoginIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testkit.Log{}
		n := &network{t: t, server: newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil)),
			Authenticate: func(context.Context, []byte) (string, error) { return "", errors.New("the token is unknown") }})}
		for range 3 {
			_, err := n.connectFrom(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1234}, newTestWorld(t, Config{}))
			require.ErrorContains(t, err, "the token is unknown")
			time.Sleep(2 * time.Second) // a warning of each kind a second
			synctest.Wait()
		}
		lines := log.With("level=WARN")
		require.Len(t, lines, 3, "%q", lines)
		for _, line := range lines {
			require.Contains(t, line, `msg="login refused"`)
			require.Contains(t, line, "conn.addr=192.0.2.7:1234")
			require.Contains(t, line, `error="the token is unknown"`)
		}
		require.NotContains(t, lines[0], "failures=")
		require.Contains(t, lines[2], "failures=3")
	})
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
