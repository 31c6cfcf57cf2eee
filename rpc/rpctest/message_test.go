package rpctest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// letter is a message as it was heard.
type letter struct {
	id   uint8
	text string
}

// TestMessagesOfTheGame: in both directions, before there is any actor, in
// order, each once, on any network.
func TestMessagesOfTheGame(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var here, there []letter
		var at *rpc.Conn
		server, err := rpc.NewWorld(rpc.Config{
			Login: func(_ *rpc.World, c *rpc.Conn) error {
				require.ErrorContains(t, c.SendMessage(1, nil), "has not joined yet")
				return nil
			},
			OnConnect: func(_ *rpc.World, c *rpc.Conn) {
				at = c
				require.NoError(t, c.SendMessage(0, []byte("welcome")))
			},
			OnMessage: func(_ *rpc.World, c *rpc.Conn, id uint8, payload []byte) error {
				require.Same(t, at, c)
				here = append(here, letter{id, string(payload)})
				return nil
			},
		})
		require.NoError(t, err)
		client, err := rpc.NewWorld(rpc.Config{
			OnConnect: func(_ *rpc.World, c *rpc.Conn) {
				require.NoError(t, c.SendMessage(255, bytes.Repeat([]byte("x"), 4096)))
			},
			OnMessage: func(_ *rpc.World, _ *rpc.Conn, id uint8, payload []byte) error {
				there = append(there, letter{id, string(payload)})
				return nil
			},
		})
		require.NoError(t, err)
		net.Server(server)
		from := net.Client(client)
		require.True(t, net.Until(10*time.Second, func() bool { return len(here) == 1 && len(there) == 1 }))
		require.Equal(t, letter{0, "welcome"}, there[0])
		require.Equal(t, uint8(255), here[0].id)
		require.Len(t, here[0].text, 4096)

		random := rand.New(rand.NewPCG(net.Seed(), 4))
		here, there = nil, nil
		var up, down []letter
		send := func(c *rpc.Conn, sent []letter) []letter {
			p := letter{uint8(len(sent)), fmt.Sprint(len(sent), string(make([]byte, random.IntN(1000))))}
			if err := c.SendMessage(p.id, []byte(p.text)); err != nil {
				require.ErrorIs(t, err, rpc.ErrBacklogFull)
				return sent
			}
			return append(sent, p)
		}
		for i := range 500 {
			up, down = send(from, up), send(at, down)
			if random.IntN(3) == 0 {
				net.Advance(30 * time.Millisecond)
			}
			if i == 250 {
				net.Dark(from, 5*time.Second)
			}
		}
		require.True(t, net.Until(60*time.Second, func() bool { return len(here) == len(up) && len(there) == len(down) }))
		require.Equal(t, up, here)
		require.Equal(t, down, there)
		require.Greater(t, len(up), 20)
		from.Close(0, "bye")
		require.ErrorIs(t, from.SendMessage(1, nil), rpc.ErrClosed)
	})
}

// TestMessagesWaitForTheirReader: to a world that does not tick 16 messages are
// sent and no more, and none is lost. The sender gets an error.
func TestMessagesWaitForTheirReader(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		heard := 0
		config := rpc.Config{OnMessage: func(*rpc.World, *rpc.Conn, uint8, []byte) error { heard++; return nil }}
		_, there, at, _ := pairOf(t, net, func(*rpc.World) {}, func(*rpc.World) {}, config)
		net.Pause(there, 25*time.Second)
		sent := 0
		for range 40 {
			for at.SendMessage(1, make([]byte, 4096)) == nil {
				sent++
			}
			net.Advance(500 * time.Millisecond)
		}
		require.Equal(t, 16, sent)
		err := at.SendMessage(1, nil)
		require.ErrorIs(t, err, rpc.ErrBacklogFull)
		require.ErrorContains(t, err, "16 messages are in flight")
		net.Advance(10 * time.Second)
		require.Equal(t, 16, heard)
		require.NoError(t, at.SendMessage(1, nil))
		require.ErrorIs(t, at.SendMessage(1, make([]byte, 4097)), bunch.ErrBunchTooLarge)
		require.NoError(t, at.Err())
	})
}

// TestMessageRate: the sender is slowed down, and nothing is dropped.
func TestMessageRate(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		heard := 0
		config := rpc.Config{MessageRate: 10, OnMessage: func(*rpc.World, *rpc.Conn, uint8, []byte) error { heard++; return nil }}
		_, _, _, from := pairOf(t, net, func(*rpc.World) {}, func(*rpc.World) {}, config)
		for range 300 {
			for from.SendMessage(1, nil) == nil {
			}
			net.Advance(time.Second / 30)
		}
		require.InDelta(t, 16+10+100, heard, 5, "the window, the burst, and ten a second")
	})
}

// TestMessagesThatAreRefused: a server closes the connection, and a client
// drops and counts them. Without OnMessage all are dropped and counted.
func TestMessagesThatAreRefused(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		config := rpc.Config{OnMessage: func(_ *rpc.World, _ *rpc.Conn, id uint8, _ []byte) error {
			if id == 9 {
				return errors.New("nobody says nine")
			}
			return nil
		}}
		_, _, at, from := pairOf(t, net, func(*rpc.World) {}, func(*rpc.World) {}, config)
		require.NoError(t, at.SendMessage(9, nil))
		require.NoError(t, from.SendMessage(8, nil))
		net.Advance(time.Second)
		require.EqualValues(t, 1, from.Stats().Drops.Invalid)
		require.NoError(t, at.Err())
		require.NoError(t, from.SendMessage(9, nil))
		net.Advance(time.Second)
		var closed *rpc.CloseError
		require.ErrorAs(t, from.Err(), &closed)
		require.Equal(t, rpc.ValidationFailed, closed.Code)
		require.Equal(t, "message 9 refused: nobody says nine", closed.Reason)
	})
	off(t, func(t *testing.T, net *rpctest.Network) {
		_, _, at, from := pairOf(t, net, func(*rpc.World) {}, func(*rpc.World) {}, rpc.Config{})
		for range 40 {
			require.NoError(t, from.SendMessage(9, nil))
			net.Advance(100 * time.Millisecond)
		}
		require.EqualValues(t, 40, at.Stats().Drops.Messages)
		require.NoError(t, at.Err())
	})
}
