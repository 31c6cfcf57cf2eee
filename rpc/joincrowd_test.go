package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A crowd that joins in the same moment, as after a restart, holds up no
// Dispatch for long: some are announced in each, in their order.
func TestCrowdIsAnnouncedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 20
		var order []*Conn
		w, err := NewWorld(Config{HelloTimeout: time.Hour, HandshakeTimeout: time.Hour, IdleTimeout: time.Hour, OnConnect: func(_ *World, c *Conn) {
			time.Sleep(3 * time.Millisecond) // as opening thousands of actors
			order = append(order, c)
		}})
		require.NoError(t, err)
		var all []*Conn
		for range crowd {
			c, err := w.Attach(silentCarrier{make(chan struct{})})
			require.NoError(t, err)
			c.joinWorld()
			all = append(all, c)
		}
		for len(order) < crowd {
			began, before := time.Now(), len(order)
			w.Dispatch(began)
			require.Greater(t, len(order), before)
			require.Less(t, time.Since(began), admitTime+3*time.Millisecond)
		}
		require.Equal(t, all, order)
		require.NoError(t, w.Close(context.Background(), 0, ""))
		w.Tick(time.Now())
	})
}

// Those who have left before their turn are announced and expelled
// nevertheless, also when the world is closed.
func TestCrowdLeavesBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 20
		came, left := 0, 0
		w, err := NewWorld(Config{HelloTimeout: time.Hour, HandshakeTimeout: time.Hour, IdleTimeout: time.Hour,
			OnConnect: func(*World, *Conn) {
				time.Sleep(3 * time.Millisecond)
				came++
			},
			OnDisconnect: func(*World, *Conn, error) { left++ }})
		require.NoError(t, err)
		for range crowd {
			c, err := w.Attach(silentCarrier{make(chan struct{})})
			require.NoError(t, err)
			c.joinWorld()
		}
		w.Dispatch(time.Now())
		require.Less(t, came, crowd)
		require.NoError(t, w.Close(context.Background(), 0, ""))
		require.ErrorIs(t, w.Run(context.Background()), ErrClosed)
		require.Equal(t, crowd, came)
		require.Equal(t, crowd, left)
	})
}
