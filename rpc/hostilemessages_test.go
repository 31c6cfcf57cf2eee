package rpc

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// say sends bytes on the control channel as no honest end would.
func say(t *testing.T, c *Conn, payload []byte) {
	t.Helper()
	c.link.Lock()
	defer c.link.Unlock()
	require.NoError(t, c.machine.Send(0, bunch.Reliable, payload))
}

// TestHostileMessages: what no honest end says on the control channel closes
// the connection, at either end.
func TestHostileMessages(t *testing.T) {
	message := func(size int) []byte {
		return control.AppendMessage(nil, control.Message{ID: 1, Payload: make([]byte, size)})
	}
	for name, row := range map[string]struct {
		say    func(c *Conn)
		code   Code
		reason string
	}{
		"too large": {func(c *Conn) { say(t, c, message(control.MaxMessage+1)) }, ControlChannelMessagePayloadFail, "payload has 4097 bytes; the limit is 4096 (MaxMessage)"},
		"no id":     {func(c *Conn) { say(t, c, message(0)[:1]) }, ControlChannelMessagePayloadFail, "Message of 1 byte"},
		"beyond the window": {func(c *Conn) {
			for range control.Window + 1 {
				say(t, c, message(10))
			}
		}, ControlChannelMessageFail, "exceeds the limit of 16 in flight"},
		"taken but not sent": {func(c *Conn) { say(t, c, control.AppendTaken(nil, control.Taken{Count: 1})) },
			ControlChannelMessageFail, "peer reported running 1 messages that were not sent"},
		"nothing taken": {func(c *Conn) { say(t, c, control.AppendTaken(nil, control.Taken{})) }, ControlChannelMessagePayloadFail, "count is 0"},
	} {
		for _, toServer := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", toServer), func(t *testing.T) {
				inNet(t, 1, Config{}, func(n *network) {
					from, to := n.ends[0], n.conns[0]
					if !toServer {
						from, to = to, from
					}
					row.say(from)
					n.tick(5)
					closed := to.closeError()
					require.Equal(t, row.code, closed.Code, "%v", closed)
					require.Contains(t, closed.Reason, row.reason)
				})
			})
		}
	}
}

// TestMessageFloods: a peer that ignores the window fills what the control channel may hold
// here, or is noticed in the next Dispatch. None of its messages beyond the window runs.
func TestMessageFloods(t *testing.T) {
	ran := 0
	config := Config{OnMessage: func(*World, *Conn, uint8, []byte) error { ran++; return nil }}
	inNet(t, 2, config, func(n *network) {
		flood := control.AppendMessage(nil, control.Message{ID: 1, Payload: make([]byte, 4000)})
		for range 100 {
			c := n.ends[0]
			c.link.Lock()
			for range 4 {
				_ = c.machine.Send(0, bunch.Reliable, flood)
			}
			c.link.Unlock()
			time.Sleep(20 * time.Millisecond) // the server does not tick
		}
		n.tick(5)
		require.Error(t, n.conns[0].Err())
		require.LessOrEqual(t, ran, control.Window)
		require.NoError(t, n.conns[1].Err())
	})
}

// TestMessagesBeforeJoin: messages of the game are not part of the handshake. The
// server starts after the message was sent, so that no Join can be before it.
func TestMessagesBeforeJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestWorld(t, Config{OnMessage: func(*World, *Conn, uint8, []byte) error { t.Error("it ran"); return nil }})
		near, far := linktest.Pipe()
		client := newTestWorld(t, Config{})
		from := newClientConn(client.World, carrierAdapter{plug{near}})
		require.NoError(t, client.attach(from, nil))
		say(t, from, control.AppendMessage(nil, control.Message{ID: 1}))
		c, err := server.Attach(plug{far})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, ControlChannelMessageFail, c.closeError().Code, "%v", c.closeError())
		server.Tick(time.Now())
		client.Tick(time.Now())
	})
}
