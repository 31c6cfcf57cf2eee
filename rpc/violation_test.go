package rpc

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
)

// smuggle sends bytes on an actor's channel as no honest end would.
func smuggle(t *testing.T, a *Actor, payload []byte) {
	t.Helper()
	c := a.openings[0].conn
	c.link.Lock()
	defer c.link.Unlock()
	require.NoError(t, c.machine.Send(a.openings[0].channel, bunch.Reliable, payload))
}

// encoded is a call as it stands on the wire.
func encoded(t *testing.T, m *method, arg any) []byte {
	t.Helper()
	return append(binary.AppendUvarint(nil, uint64(m.id)), encode(t, arg)...)
}

// titleBytes is a call of Title as a hostile client writes it.
func titleBytes(arg string) []byte {
	return append(binary.AppendUvarint(nil, uint64(title.m.id)), arg...)
}

func TestViolationsCloseTheClient(t *testing.T) {
	for _, row := range []struct {
		name    string
		payload func(t *testing.T) []byte
		code    Code
		reason  string
	}{
		{"Validate", func(t *testing.T) []byte { return encoded(t, fire.m, shot{-1}) }, ValidationFailed, "Hero.Fire refused: ammo is negative"},
		{"Check", func(t *testing.T) []byte { return encoded(t, fire.m, shot{99}) }, ValidationFailed, "Hero.Fire refused: too much"},
		{"unknown method", func(*testing.T) []byte { return binary.AppendUvarint(nil, 77) }, UnknownMethod, `method 77 of class "Hero"`},
		{"owner message", func(*testing.T) []byte { return append(binary.AppendUvarint(nil, ownerMethod), 1) }, UnknownMethod, `of class "Hero", which has`},
		{"wrong direction", func(t *testing.T) []byte { return encoded(t, hit.m, 1) }, WrongDirection, "Hero.Hit is a Client RPC"},
		{"left over", func(t *testing.T) []byte { return append(encoded(t, fire.m, shot{1}), 0) }, PayloadFail, "Hero.Fire"},
		{"undecodable", func(*testing.T) []byte { return append(binary.AppendUvarint(nil, 0), 0xc1) }, PayloadFail, "Hero.Fire"},
		{"string over its bound", func(*testing.T) []byte { return titleBytes("\x92\xa9ninebytes\x90") }, PayloadFail,
			"Hero.Title: argument of 12 bytes: Name: has 9 bytes; the limit is 8"},
		{"element over its bound", func(*testing.T) []byte { return titleBytes("\x92\xa0\x92\xa1a\xa5fiveb") }, PayloadFail,
			"Hero.Title: argument of 11 bytes: Known: element 1: has 5 bytes; the limit is 4"},
		{"slice over its bound", func(*testing.T) []byte { return titleBytes("\x92\xa0\x93\xa0\xa0\xa0") }, PayloadFail,
			"Known: has 3 elements; the limit is 2"},
		{"not UTF-8", func(*testing.T) []byte { return titleBytes("\x92\xa2\xc3\x28\x90") }, PayloadFail, "Name: string is not valid UTF-8"},
		{"no method", func(*testing.T) []byte { return nil }, PayloadFail, "no method id"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log strings.Builder
			inNet(t, 1, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
				Check(n.server.binding, fire, func(_ *puppet, _ *Call, s shot) error {
					if s.Ammo > 9 {
						return errors.New("too much")
					}
					return nil
				})
				a := n.spawn(0)
				smuggle(t, n.mirror(0, a), row.payload(t))
				n.tick(4)

				require.Empty(t, n.server.take()[1:], "only the destroyed actor's close")
				require.Len(t, n.server.left, 1)
				var here, there *CloseError
				require.ErrorAs(t, n.server.left[0], &here)
				require.Equal(t, row.code, here.Code)
				require.False(t, here.Remote)
				require.Contains(t, here.Reason, row.reason)
				require.ErrorAs(t, n.clients[0].left[0], &there)
				require.Equal(t, here.Code, there.Code)
				require.Equal(t, here.Reason, there.Reason)
				require.True(t, there.Remote)
				require.Contains(t, log.String(), row.code.String())
				require.Contains(t, log.String(), strings.ReplaceAll(row.reason, `"`, `\"`))
				require.False(t, a.Alive(), "actors go with their owner")
			})
		})
	}
}

func TestClientMayNotOpenOrCloseChannels(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(c *Conn, channel uint64) error
		code Code
	}{
		{"open", func(c *Conn, _ uint64) error {
			channel, err := c.machine.Open(bunch.Normal)
			return errors.Join(err, c.machine.Send(channel, bunch.Reliable, []byte("x")))
		}, BunchWrongChannel},
		{"close", func(c *Conn, channel uint64) error { return c.machine.Close(channel, nil) }, BunchWrongChannel},
		{"control", func(c *Conn, _ uint64) error { return c.machine.Send(0, bunch.Reliable, control.AppendJoin(nil)) }, ControlChannelMessageFail},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, 1, Config{}, func(n *network) {
				a := n.spawn(0)
				c := n.ends[0]
				c.link.Lock()
				require.NoError(t, row.do(c, a.openings[0].channel))
				c.link.Unlock()
				n.tick(4)
				var closed *CloseError
				require.ErrorAs(t, c.Err(), &closed)
				require.Equal(t, row.code, closed.Code, closed.Reason)
			})
		})
	}
}

// TestCallBehindAClientsClose: a client's close breaks a rule, and the game
// does not notice it: its call is counted, as any for a connection that ends.
func TestCallBehindAClientsClose(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		c := n.ends[0]
		c.link.Lock()
		require.NoError(t, c.machine.Close(a.openings[0].channel, []byte{byte(Dormancy)}))
		c.link.Unlock()
		time.Sleep(time.Second / 2)
		require.NoError(t, tell.Call(a, "too late"))
		require.EqualValues(t, 1, a.openings[0].conn.Stats().Drops.Gone)
		n.tick(4)
		require.ErrorContains(t, c.Err(), BunchWrongChannel.String())
	})
}

func TestServerViolationsCloseTheClientsEnd(t *testing.T) {
	for _, row := range []struct {
		name    string
		payload []byte
		code    Code
	}{
		{"unknown class", []byte{9, 0}, PayloadFail},
		{"flags", []byte{0, 6}, PayloadFail},
		{"short", []byte{0}, PayloadFail},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, 1, Config{}, func(n *network) {
				c := n.conns[0]
				c.link.Lock()
				channel, err := c.machine.Open(bunch.Normal)
				require.NoError(t, errors.Join(err, c.machine.Send(channel, bunch.Reliable, row.payload)))
				c.link.Unlock()
				n.tick(3)
				var closed *CloseError
				require.ErrorAs(t, n.ends[0].Err(), &closed)
				require.Equal(t, row.code, closed.Code, closed.Reason)
			})
		})
	}
}

// UE: a client ignores such a function from then on.
func TestServerCallsInTheWrongDirection(t *testing.T) {
	for _, row := range []struct {
		name string
		call func(t *testing.T) []byte
		code Code
	}{
		{"a Server RPC", func(t *testing.T) []byte { return encoded(t, fire.m, shot{1}) }, WrongDirection},
		{"unknown", func(*testing.T) []byte { return binary.AppendUvarint(nil, 77) }, UnknownMethod},
		{"bytes left over", func(t *testing.T) []byte { return append(encoded(t, hit.m, 1), 0) }, PayloadFail},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, 1, Config{}, func(n *network) {
				a := n.spawn(0)
				smuggle(t, a, row.call(t))
				n.tick(4)
				var closed *CloseError
				require.ErrorAs(t, n.ends[0].Err(), &closed)
				require.Equal(t, row.code, closed.Code, closed.Reason)
				require.False(t, closed.Remote)
			})
		})
	}
}

func TestDroppedCallsAreCounted(t *testing.T) {
	var log strings.Builder
	inNet(t, 1, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
		a := n.spawn(-1, AlwaysRelevant())
		mirror := n.mirror(0, a)
		for range 5 {
			smuggle(t, mirror, encoded(t, fire.m, shot{1}))
		}
		n.tick(3)
		require.Empty(t, n.server.take())
		require.EqualValues(t, 5, n.conns[0].Stats().Drops.NotOwner)
		require.Equal(t, 1, strings.Count(log.String(), "call dropped"), "one warning a second:\n%s", &log)
		require.Regexp(t, `conn\.id=1 rpc=Hero\.Fire reason="caller does not own the actor" more=0 channel=\d+ owner=nobody`, log.String())

		require.NoError(t, n.server.SetOwner(a, n.conns[0]))
		n.tick(3)
		for range 10 {
			require.NoError(t, spam.Call(mirror, 1))
		}
		n.tick(3)
		require.Equal(t, []string{"spam", "spam", "spam"}, n.server.take())
		require.EqualValues(t, 7, n.conns[0].Stats().Drops.RateLimited)
		require.Contains(t, log.String(), `rpc=Hero.Spam reason="method exceeds its RateLimit" more=0 limit=RateLimit(3)`)
		time.Sleep(time.Second)
		require.NoError(t, spam.Call(mirror, 1))
		n.tick(3)
		require.Equal(t, []string{"spam"}, n.server.take(), "the bucket fills again")
	})
}

func TestOverflowNamesItsCulprits(t *testing.T) {
	var log strings.Builder
	inNet(t, 1, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		var err error
		calls := 0
		for ; err == nil && calls < 100; calls++ { // the naive loop: no gate
			err = bulk.Call(a, make(Raw, 32<<10))
		}
		require.Equal(t, 9, calls, "8 calls of 30 entries and the hit fit 255")
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, ReliableBufferOverflow, closed.Code)
		require.Contains(t, closed.Reason, "8 × Hero.Bulk (240 entries)")
		require.Contains(t, closed.Reason, "1 × Hero.Hit (1 entry)")
		require.Contains(t, closed.Reason, "Config.Bunch.ReliableBuffer")
		require.Contains(t, closed.Reason, "use package stream for bulk", "what to do instead")
		require.Contains(t, log.String(), "8 × Hero.Bulk")
		require.NoError(t, bulk.Call(a, nil), "told once, then counted")
		require.EqualValues(t, 1, n.conns[0].Stats().Drops.Gone)
		n.tick(5)
		require.ErrorAs(t, n.clients[0].left[0], &closed)
		require.Equal(t, ReliableBufferOverflow, closed.Code)
		require.Contains(t, closed.Reason, "8 × Hero.Bulk", "the peer hears it too")
	})
}

func TestOverflowNamesTheOpen(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.named(0, "fresh")
		var err error
		for err == nil {
			err = bulk.Call(a, make(Raw, 32<<10))
		}
		require.ErrorContains(t, err, "1 × open Hero (1 entry)")
		n.tick(5)
	})
}

func TestOverflowErrorLeavesTheConnection(t *testing.T) {
	inNet(t, 1, Config{Bunch: bunch.Config{Overflow: bunch.OverflowError}}, func(n *network) {
		a := n.spawn(0)
		var err error
		sent := -1
		for ; err == nil; sent++ {
			err = bulk.Call(a, make(Raw, 32<<10))
		}
		require.ErrorIs(t, err, bunch.ErrReliableBufferFull)
		require.ErrorContains(t, err, "8 × Hero.Bulk (240 entries)")
		n.tick(30)
		require.Equal(t, sent*32<<10, n.clients[0].received)
		require.NoError(t, bulk.Call(a, make(Raw, 1)))
	})
}
