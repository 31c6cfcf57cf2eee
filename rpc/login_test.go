package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestLoginThatPanics: the client is told, the actors that it was given are
// gone, and the world continues.
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

// TestLoginBehindAFullQueue: a full queue of the world is not the player's
// fault. Before, the client was told that it was refused permanently, and if
// Authenticate had called Do, the login of its address counted as failed, too.
func TestLoginBehindAFullQueue(t *testing.T) {
	var asked *network
	for name, config := range map[string]Config{
		"Login": {MaxPosts: 1, Login: func(*World, *Conn) error { return nil }},
		"Authenticate": {MaxPosts: 1, Authenticate: func(ctx context.Context, token []byte) (string, error) {
			return string(token), asked.server.Do(ctx, func() {})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 0, config, func(n *network) {
				asked = n
				n.server.Post(func() {})
				for range 2 * config.withDefaults().MaxLoginFailures {
					_, err := n.connectFrom(host("192.0.2.1"), newTestWorld(t, Config{}))
					var closed *CloseError
					require.ErrorAs(t, err, &closed)
					require.Equal(t, ServerFull, closed.Code, closed)
					require.Contains(t, closed.Reason, "Config.MaxPosts")
				}
				require.Zero(t, n.server.HandshakeStats().LoginsFailed)
				n.server.Tick(time.Now())
				n.logIn()
			})
		})
	}
}

// TestLoginInAClosingWorld: the client gets the code and reason of World.Close,
// and not that its login failed.
func TestLoginInAClosingWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		n := &network{t: t, server: newTestWorld(t, Config{
			Authenticate: func(context.Context, []byte) (string, error) { <-goOn; return "", nil },
			Login:        func(*World, *Conn) error { return nil },
		})}
		failed := make(chan error, 1)
		client := newTestWorld(t, Config{})
		go func() { _, err := n.connect(client); failed <- err }()
		time.Sleep(time.Second)
		n.server.lobby.close(&CloseError{Code: 2000, Reason: "the match is over"}) // World.Close begins with it
		close(goOn)
		synctest.Wait()
		require.NoError(t, n.server.Close(context.Background(), 2000, "the match is over"))
		require.ErrorContains(t, <-failed, "Code(2000): the match is over")
	})
}

// TestAuthenticateThatDoesNotReturn: a panic, or runtime.Goexit, is the server's fault: no login
// of the address has failed, and a client that tries again once it is repaired gets in at once.
func TestAuthenticateThatDoesNotReturn(t *testing.T) {
	for name, fail := range map[string]func(){"panics": func() { panic("boom") }, "did not return": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			inNet(t, 0, Config{
				OnPanic: func(*Conn, string, any, []byte) {},
				Authenticate: func(context.Context, []byte) (string, error) {
					if !repaired.Load() {
						fail()
					}
					return "ann", nil
				},
			}, func(n *network) {
				for range 2 * n.server.config.MaxLoginFailures {
					_, err := n.connectFrom(host("192.0.2.1"), newTestWorld(t, Config{}))
					var closed *CloseError
					require.ErrorAs(t, err, &closed)
					require.Equal(t, HandlerPanic, closed.Code, closed)
					require.Contains(t, closed.Reason, "Config.Authenticate "+strings.TrimSuffix(name, "s"))
				}
				require.Zero(t, n.server.HandshakeStats().LoginsFailed)
				repaired.Store(true)
				honest := newTestWorld(t, Config{})
				_, err := n.connectFrom(host("192.0.2.1"), honest)
				require.NoError(t, err)
				depart(t, honest)
			})
		})
	}
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

// TestARefusedLoginIsOneLine: before, it was two warnings, neither of which
// said that an address tried repeatedly.
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

// TestLoginComesBehindTheEndBefore: Login may load what a game saves in OnDisconnect, whether
// the player has left and returned before the world noticed, or logs in from elsewhere.
// Otherwise the progress of the old connection would be lost, or would overwrite the new one's.
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
				require.Empty(t, n.server.admission.loggingIn)
				n.close()
			})
		})
	}
}

// TestLastOwnerOfALogin: an actor that Login gave to a client closes there, as any other does, when
// another client gets it, even in Login. Before, it stayed open, because the library had opened it
// as a game does, and while the other client had yet to join, the previous owner was not told.
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
