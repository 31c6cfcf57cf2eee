package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// rawPeer is a client without a world: it sends what it likes.
type rawPeer struct {
	t       testing.TB
	link    *link.Link
	machine *bunch.Conn
}

func newRawPeer(t *testing.T, server *World) *rawPeer {
	t.Helper()
	near, far := linktest.Pipe()
	_, err := server.Attach(plug{far})
	require.NoError(t, err)
	return rawPeerOn(t, near)
}

// rawPeerOn is newRawPeer on a pipe whose other end is the server's.
func rawPeerOn(t testing.TB, near *linktest.Carrier) *rawPeer {
	t.Helper()
	machine, err := bunch.NewConn(time.Now(), bunch.Config{Client: true})
	require.NoError(t, err)
	return &rawPeer{t: t, machine: machine, link: link.New(near, link.Config{}, machine)}
}

func (p *rawPeer) send(channel uint64, message []byte) {
	p.t.Helper()
	p.link.Lock()
	defer p.link.Unlock()
	require.NoError(p.t, p.machine.Send(channel, bunch.Reliable, message))
}

// closed waits for the end and returns the server's code and reason.
func (p *rawPeer) closed() *link.CloseError {
	p.t.Helper()
	<-p.link.Done()
	var closed *link.CloseError
	require.ErrorAs(p.t, p.link.Err(), &closed)
	require.True(p.t, closed.Remote)
	return closed
}

func (p *rawPeer) hello(server *World) []byte {
	return control.AppendHello(nil, control.Hello{Version: control.Version, Params: p.machine.Params(), Shape: server.table.hash})
}

func TestHandshakeViolations(t *testing.T) {
	for _, row := range []struct {
		name   string
		do     func(p *rawPeer, server *World)
		code   Code
		reason string
	}{
		{"Join first", func(p *rawPeer, _ *World) { p.send(0, control.AppendJoin(nil)) },
			ControlChannelMessageFail, "Join arrived while waiting for the client's Hello"},
		{"Hello twice", func(p *rawPeer, s *World) { p.send(0, p.hello(s)); p.send(0, p.hello(s)) },
			ControlChannelMessageFail, "Hello arrived while waiting for Login"},
		{"unknown", func(p *rawPeer, _ *World) { p.send(0, []byte{99}) },
			ControlChannelMessageUnknown, "unknown control message 99"},
		{"cut short", func(p *rawPeer, s *World) { p.send(0, p.hello(s)[:9]) },
			ControlChannelMessagePayloadFail, "Hello of 9 bytes"},
		{"left over", func(p *rawPeer, s *World) { p.send(0, append(p.hello(s), 0)) },
			ControlChannelMessagePayloadFail, "bytes left over"},
		{"version", func(p *rawPeer, s *World) {
			p.send(0, control.AppendHello(nil, control.Hello{Version: 7, Params: p.machine.Params()}))
		},
			ProtocolMismatch, "the client speaks version 7 and the server version 2: the server is older"},
		{"a later version with more to say", func(p *rawPeer, s *World) {
			hello := control.AppendHello(nil, control.Hello{Version: 7, Features: 1 << 63, Params: p.machine.Params()})
			p.send(0, append(hello, make([]byte, 100)...))
		},
			ProtocolMismatch, "the client speaks version 7 and the server version 2: the server is older"},
		{"a later version with less", func(p *rawPeer, s *World) { p.send(0, []byte{0, 7}) },
			ProtocolMismatch, "the client speaks version 7 and the server version 2: the server is older"},
		{"params", func(p *rawPeer, s *World) {
			params := p.machine.Params()
			params.ReliableBuffer = 100
			p.send(0, control.AppendHello(nil, control.Hello{Version: control.Version, Params: params, Shape: s.table.hash}))
		}, ControlChannelMessagePayloadFail, "ReliableBuffer is 100"},
		{"other channel", func(p *rawPeer, s *World) { p.openAndSend() },
			BunchPrematureChannel, "channel 1: the peer may not open channels"},
		{"shape without an answer", func(p *rawPeer, s *World) {
			p.send(0, control.AppendHello(nil, control.Hello{Version: control.Version, Params: p.machine.Params()}))
		}, ProtocolMismatch, "classes differ: shape "},
		{"silence", func(*rawPeer, *World) {},
			HandshakeTimeout, "still waiting for the client's Hello after 2s (Config.HelloTimeout)"},
		{"no Login", func(p *rawPeer, s *World) { p.send(0, p.hello(s)) },
			HandshakeTimeout, "still waiting for Login after 10s (Config.HandshakeTimeout)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newTestWorld(t, Config{})
				p := newRawPeer(t, server.World)
				row.do(p, server.World)
				closed := p.closed()
				require.Equal(t, row.code, Code(closed.Code), closed.Reason)
				require.Contains(t, closed.Reason, row.reason)
				synctest.Wait()
				server.Tick(time.Now())
				require.Empty(t, server.joined)
				require.Empty(t, server.left)
				require.Zero(t, server.HandshakeStats().Open)
				require.Zero(t, server.lobby.memory.Reserved())
			})
		})
	}
}

func (p *rawPeer) openAndSend() {
	p.link.Lock()
	channel, err := p.machine.Open(bunch.Normal)
	p.link.Unlock()
	require.NoError(p.t, err)
	p.send(channel, []byte("x"))
}

// TestMismatchSaysWhoseShapeIsWhich: the client's log contains the server's
// sentence, in which "here" named the wrong end.
func TestMismatchSaysWhoseShapeIsWhich(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		n := &network{t: t, server: newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})}
		client, err := NewWorld(Config{Classes: []*Class{NewClass("Other")}})
		require.NoError(t, err)
		_, err = n.connect(&testWorld{World: client})
		want := fmt.Sprintf("shape %x at the client, %x at the server", client.table.hash[:4], n.server.table.hash[:4])
		require.ErrorContains(t, err, want)
		time.Sleep(testDelay)
		synctest.Wait()
		require.Contains(t, log.String(), want)
	})
}

func TestMismatchNamesTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		n := &network{t: t, server: newTestWorld(t, Config{ExplainMismatch: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})}
		older := NewClass("Hero")
		Server[shot](older, "Fire", Reliable)
		Server[string](older, "Shout", Unreliable, AnyCaller())
		client, err := NewWorld(Config{Classes: []*Class{older}})
		require.NoError(t, err)
		_, err = n.connect(&testWorld{World: client})
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, ProtocolMismatch, closed.Code)
		require.Contains(t, closed.Reason, "Hero.Shout")
		require.Regexp(t, `^1 class at the client, \d+ at the server: `, closed.Reason)
		time.Sleep(testDelay)
		synctest.Wait()
		n.server.Tick(time.Now())
		require.Empty(t, n.server.joined)
		require.Contains(t, log.String(), "Hero.Shout", "the server's log names it too")
	})
}

// TestMismatchNamesTheField: before, the error said that a state has one field more, but not which.
func TestMismatchNamesTheField(t *testing.T) {
	inNet(t, 0, Config{ExplainMismatch: true, Classes: []*Class{gateOf[struct{ Open bool }]()}}, func(n *network) {
		client, err := NewWorld(Config{Classes: []*Class{gateOf[struct{ Open, Locked bool }]()}})
		require.NoError(t, err)
		_, err = n.connect(&testWorld{World: client})
		require.ErrorContains(t, err, "Locked")
	})
}

// TestMismatchWithASmallMaxBunch: the server describes as many of its classes as fit into a
// message.
func TestMismatchWithASmallMaxBunch(t *testing.T) {
	small := bunch.Config{MaxBunch: control.MinBunch}
	inNet(t, 0, Config{ExplainMismatch: true, Bunch: small}, func(n *network) {
		_, err := n.connect(newTestWorld(t, Config{Classes: []*Class{NewClass("Another")}}))
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, ProtocolMismatch, closed.Code)
		require.Contains(t, closed.Reason, "Another")
	})
}

// gateOf declares a class with a state.
func gateOf[S any]() *Class {
	c := NewClass("Gate")
	NewState[S](c)
	return c
}

// TestClassesStaySecret: a client that has not logged in learns no name of a
// class, a method or a field, unless ExplainMismatch is set.
func TestClassesStaySecret(t *testing.T) {
	for _, explain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := newTestWorld(t, Config{ExplainMismatch: explain})
			p := newRawPeer(t, server.World)
			p.send(0, control.AppendHello(nil, control.Hello{Version: control.Version, Params: p.machine.Params()}))
			time.Sleep(time.Second)
			heard := make([]bunch.Message, 8)
			p.link.Lock()
			heard = heard[:p.machine.Take(heard)]
			p.link.Unlock()
			closed := p.closed()
			told := closed.Reason
			for _, m := range heard {
				told += string(m.Payload)
			}
			require.Equal(t, explain, strings.Contains(told, "Hero"), told)
			require.Contains(t, closed.Reason, fmt.Sprintf("shape 00000000 at the client, %x at the server", server.table.hash[:4]))
		})
	}
}

func TestAuthenticate(t *testing.T) {
	authenticate := func(_ context.Context, token []byte) (string, error) {
		if name, ok := strings.CutPrefix(string(token), "token of "); ok {
			return name, nil
		}
		return "", errors.New("nobody knows this token")
	}
	inNet(t, 0, Config{Authenticate: authenticate}, func(n *network) {
		n.join(Config{Token: []byte("token of ann")})
		require.Equal(t, "ann", n.conns[0].Identity())
		require.Equal(t, "ann", n.ends[0].Identity())

		_, err := n.connect(newTestWorld(t, Config{Token: []byte("guess")}))
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, PreLoginFailure, closed.Code)
		require.Equal(t, "nobody knows this token", closed.Reason)
		require.True(t, closed.Remote)
		require.ErrorIs(t, err, ErrClosed)
		n.tick(2)
		require.Len(t, n.server.joined, 1)
	})
}

// TestRefusedWithACodeOfTheGame: the client gets the code and the reason as they are, from
// Authenticate and from Login. Codes of this package that aren't Temporary are not for a refusal.
func TestRefusedWithACodeOfTheGame(t *testing.T) {
	for _, row := range []struct {
		err    error
		code   Code
		reason string
	}{
		{&CloseError{Code: firstGameCode + 6, Reason: "banned until May"}, firstGameCode + 6, "banned until May"},
		{fmt.Errorf("of ann: %w", &CloseError{Code: firstGameCode, Reason: "banned"}), firstGameCode, "banned"},
		{&CloseError{Code: ServerFull, Reason: "maintenance"}, ServerFull, "maintenance"},
		{(*CloseError)(nil), PreLoginFailure, "rpc: a nil *CloseError"},
		{&CloseError{Code: firstGameCode - 1, Reason: "r"}, PreLoginFailure, "rpc: connection closed: Code(1023): r"},
	} {
		for name, config := range map[string]Config{
			"Authenticate": {Authenticate: func(context.Context, []byte) (string, error) { return "", row.err }},
			"Login":        {Login: func(*World, *Conn) error { return row.err }},
		} {
			inNet(t, 0, config, func(n *network) {
				drive, stop := context.WithCancel(context.Background())
				var driving sync.WaitGroup
				driving.Go(func() { _ = n.server.Run(drive) })
				_, err := n.connect(newTestWorld(t, Config{}))
				var closed *CloseError
				require.ErrorAs(t, err, &closed, name)
				require.Equal(t, row.code, closed.Code, name)
				require.Equal(t, row.reason, closed.Reason, name)
				require.True(t, closed.Remote, name)
				stop()
				driving.Wait()
			})
		}
	}
}

// TestIdentityFromAnyGoroutine: Identity is empty before the connection has
// joined, and a concurrent call is no race.
func TestIdentityFromAnyGoroutine(t *testing.T) {
	inNet(t, 0, Config{Authenticate: func(context.Context, []byte) (string, error) { return "ann", nil }}, func(n *network) {
		near, far := linktest.Pipe()
		c, err := n.server.Attach(plug{far})
		require.NoError(t, err)
		require.Empty(t, c.Identity())
		var asking sync.WaitGroup
		asking.Go(func() {
			for c.Identity() == "" {
				time.Sleep(time.Microsecond)
			}
		})
		client := newTestWorld(t, Config{})
		_, err = client.Connect(context.Background(), plug{near})
		require.NoError(t, err)
		asking.Wait()
		require.Equal(t, "ann", c.Identity())
		depart(t, client)
	})
}

// TestClientLeavesWhileItIsWelcomed: the connection ends and learns its
// identity in the same instant.
func TestClientLeavesWhileItIsWelcomed(t *testing.T) {
	authenticate := func(context.Context, []byte) (string, error) {
		time.Sleep(2 * testDelay)
		return "ann", nil
	}
	inNet(t, 0, Config{Authenticate: authenticate, MaxConnsPerIdentity: 1}, func(n *network) {
		for range 100 {
			near, far := linktest.Pipe()
			near.SetDelay(testDelay)
			_, err := n.server.Attach(plug{far})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 2*testDelay)
			_, err = newTestWorld(t, Config{}).Connect(ctx, plug{near})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		time.Sleep(time.Second)
		l := &n.server.lobby
		l.mu.Lock()
		defer l.mu.Unlock()
		_, others, _ := l.door.Claims.Claim("ann", new(Conn))
		require.Zero(t, others)
	})
}

// TestAuthenticateHasATimeLimit: an answer of Authenticate that is too late is
// not sent to the client, and has no effect.
func TestAuthenticateHasATimeLimit(t *testing.T) {
	for _, verdict := range []error{nil, errors.New("nobody knows this token"), context.DeadlineExceeded} {
		var canceled error
		slow := func(ctx context.Context, _ []byte) (string, error) {
			<-ctx.Done()
			canceled = ctx.Err()
			return "too late", verdict
		}
		inNet(t, 0, Config{Authenticate: slow, HandshakeTimeout: time.Second}, func(n *network) {
			_, err := n.connectFrom(host("192.0.2.1"), newTestWorld(t, Config{}))
			require.ErrorContains(t, err, "HandshakeTimeout: still authenticating the client after 1s (Config.HandshakeTimeout)")
			synctest.Wait()
			require.Error(t, canceled, "by its own deadline, or with the handshake: they end at the same time")
			require.Zero(t, n.server.HandshakeStats().LoginsFailed)
			may, _ := n.server.lobby.door.Failures.Ask(door.AddressOf(host("192.0.2.1")), nil, 1<<20, time.Now())
			require.False(t, may, "a token that nobody heard to be right is asked about in turn")
		})
	}
}

func TestLongIdentityIsRefused(t *testing.T) {
	long := func(context.Context, []byte) (string, error) { return strings.Repeat("x", control.MaxIdentity+1), nil }
	inNet(t, 0, Config{Authenticate: long}, func(n *network) {
		_, err := n.connect(newTestWorld(t, Config{}))
		require.ErrorContains(t, err, "an identity of 1025 bytes; the limit is 1024")
	})
}

func TestConnectEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newTestWorld(t, Config{})
		near, _ := linktest.Pipe() // nobody answers
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := client.Connect(ctx, plug{near})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, client.lobby.attached)
	})
}

func TestLimitsOfAWorld(t *testing.T) {
	for _, row := range []struct {
		name   string
		config Config
		fits   int
		reason string
	}{
		{"MaxConns", Config{MaxConns: 2}, 2, "connection limit of 2 reached (Config.MaxConns)"},
		{"ReceiveBudget", Config{ReceiveBudget: 600 << 10}, 2, "less than 262144 bytes are free of the server's 614400 (Config.ReceiveBudget)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, row.fits, row.config, func(n *network) {
				_, err := n.connect(newTestWorld(t, Config{}))
				var closed *CloseError
				require.ErrorAs(t, err, &closed)
				require.Equal(t, ServerFull, closed.Code)
				require.Equal(t, row.reason, closed.Reason)

				n.ends[0].Close(0, "room for another")
				n.tick(3)
				late := newTestWorld(t, Config{})
				_, err = n.connect(late)
				require.NoError(t, err)
			})
		})
	}
}

func TestTheOldestSilentOneMakesRoom(t *testing.T) {
	inNet(t, 1, Config{MaxHandshakes: 2}, func(n *network) {
		first := newRawPeer(t, n.server.World)
		second := newRawPeer(t, n.server.World)
		n.join(Config{})
		require.Equal(t, ServerBusy, Code(first.closed().Code))
		require.Contains(t, first.closed().Reason, "Config.MaxHandshakes")
		require.NoError(t, n.conns[0].Err(), "those inside stay")
		require.Equal(t, HandshakeTimeout, Code(second.closed().Code), "it was not in the way")
		synctest.Wait()
		require.Equal(t, HandshakeStats{Begun: 4, Evicted: 1, Failed: 2}, n.server.HandshakeStats())
	})
}

// TestNewcomersTakeOverMemory: a client whose handshake ends in favor of another one leaves it its
// memory. When ReceiveBudget was used up, the handshake ended, and the other client was refused.
func TestNewcomersTakeOverMemory(t *testing.T) {
	for _, config := range []Config{{MaxHandshakes: 2}, {MaxConns: 2}} {
		config.ReceiveBudget = 2 * minReceiveLimit
		inNet(t, 0, config, func(n *network) {
			first, second := newRawPeer(t, n.server.World), newRawPeer(t, n.server.World)
			n.join(Config{})
			require.Equal(t, ServerBusy, Code(first.closed().Code))
			require.Equal(t, HandshakeTimeout, Code(second.closed().Code), "it was not in the way")
			synctest.Wait()
			require.Equal(t, minReceiveLimit, n.server.lobby.memory.Reserved())
			n.join(Config{})
			require.Equal(t, 2*minReceiveLimit, n.server.lobby.memory.Reserved())
			require.Equal(t, HandshakeStats{Begun: 4, Evicted: 1, Failed: 2}, n.server.HandshakeStats())
			for _, c := range n.ends {
				c.Close(0, "")
			}
			n.tick(3)
			require.Zero(t, n.server.lobby.memory.Reserved())
		})
	}
}

func TestReceiveLimitGrowsWithUse(t *testing.T) {
	inNet(t, 2, Config{ReceiveBudget: 16 << 20, MaxConns: 8}, func(n *network) {
		first, second := n.conns[0].Stats().ReceiveLimit, n.conns[1].Stats().ReceiveLimit
		require.Equal(t, 704<<10, first, "what it has at Join: a 16th of the 7 MiB that those who use it leave")
		require.Less(t, second, first)
		require.Greater(t, second, 256<<10)
		n.conns[0].raiseReceiveLimit()
		require.Equal(t, 4*first, n.conns[0].Stats().ReceiveLimit)
		require.Equal(t, second, n.conns[1].Stats().ReceiveLimit)
		require.Equal(t, 4*first+second, n.server.lobby.memory.Reserved())
		n.ends[0].Close(0, "")
		n.tick(3)
		require.Equal(t, second, n.server.lobby.memory.Reserved())
	})
}

// TestReceiveLimitAtJoin: a connection has its whole limit from Join on, and
// the peer is told before the first tick that would reach the smaller one.
func TestReceiveLimitAtJoin(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		require.Equal(t, 8<<20, n.conns[0].Stats().ReceiveLimit)
		require.Equal(t, 8<<20, n.ends[0].Stats().ReceiveLimit)
	})
	inNet(t, 1, Config{ReceiveLimit: 1 << 20}, func(n *network) {
		require.Equal(t, 1<<20, n.conns[0].Stats().ReceiveLimit)
	})
}

func TestRoles(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		near, far := linktest.Pipe()
		_, err := n.clients[0].Attach(plug{far})
		require.ErrorIs(t, err, ErrWrongRole)
		require.ErrorContains(t, err, "use Connect for the client's end")
		_, _, closed := far.Closed()
		require.True(t, closed)
		_, err = n.server.Connect(context.Background(), plug{near})
		require.ErrorIs(t, err, ErrWrongRole)
		require.False(t, n.clients[0].IsServer())
		require.True(t, n.server.IsServer())
	})
}
