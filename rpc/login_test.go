package rpc

import (
	"testing"
	"testing/synctest"

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
			OnPanic: func(c *Conn, _ any, _ []byte) { told = append(told, c) },
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
