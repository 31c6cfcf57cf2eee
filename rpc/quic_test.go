package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/rpc/cert"
)

// credentials are those of a server and of a client that pins it.
func credentials(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	certificate, err := cert.Development()
	require.NoError(t, err)
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{certificate}}, pin
}

// overQUIC connects two worlds by quic-go over an emulated path, in the fake
// time of a bubble. At a loss of 20 % one Hello in 600 is lost four times,
// which takes longer than the default HelloTimeout.
func overQUIC(t *testing.T, path netsim.Config, server Config, fn func(n *network)) {
	t.Helper()
	server.HelloTimeout = cmp.Or(server.HelloTimeout, server.withDefaults().HandshakeTimeout)
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, server), clients: []*testWorld{newTestWorld(t, Config{})}}
		near, far := netsim.Pipe(path, path)
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, n.server.World)
		require.NoError(t, err)
		end, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, n.clients[0].World)
		require.NoError(t, err)
		n.ends = []*Conn{end}
		n.tick(8)
		n.await()

		fn(n)

		require.NoError(t, listener.Close())
		require.NoError(t, end.Wait(context.Background()))
		n.tick(1)
		require.Len(t, n.server.left, 1)
		require.Len(t, n.clients[0].left, 1)
		require.NoError(t, errors.Join(near.Close(), far.Close()))
	})
}

// await ticks until the client has joined, which a bad path delays.
func (n *network) await() {
	for range 100 {
		if len(n.server.joined) == 0 {
			n.tick(1)
		}
	}
	require.Len(n.t, n.server.joined, 1)
	n.conns = n.server.joined
}

// TestSendQueue: quic-go does not report how much its queue holds, and a tick must never block.
// While time stands still the pacer allows a burst; what is accepted beyond it is the queue.
func TestSendQueue(t *testing.T) {
	overQUIC(t, netsim.Config{Delay: 25 * time.Millisecond}, Config{}, func(n *network) {
		carrier := n.ends[0].carrier.(*quicconn.Carrier)
		before := carrier.Conn.ConnectionStats().PacketsSent
		var taken atomic.Int64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if carrier.SendDatagram(make([]byte, 1000)) == nil {
					taken.Add(1)
				}
			}
		}()
		synctest.Wait()
		require.Greater(t, taken.Load()-int64(carrier.Conn.ConnectionStats().PacketsSent-before), int64(carrier.SendQueue()))
		close(stop)
		<-stopped
	})
}

func TestOverQUIC(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.05, Seed: 7}
	overQUIC(t, path, Config{}, func(n *network) {
		a := n.named(0, "up")
		const calls = 50
		for i := range calls {
			require.NoError(t, bulk.Call(a, make(Raw, 10_000)))
			require.NoError(t, hit.Call(a, i))
			n.tick(5)
		}
		n.tick(60)
		client := n.clients[0]
		require.Equal(t, calls*10_000, client.received)
		heard := client.take()
		require.Len(t, heard, 1+calls)
		require.Equal(t, "open up", heard[0])
		require.NoError(t, fire.Call(n.mirror(0, a), shot{1}))
		n.tick(30)
		require.Equal(t, []string{"fire"}, n.server.take())

		stats := n.conns[0].Stats()
		require.InDelta(t, 0.05, stats.LossOut, 0.05)
		require.GreaterOrEqual(t, stats.MinRTT, 50*time.Millisecond)
		require.Less(t, stats.MinRTT, 60*time.Millisecond)
		require.NotNil(t, n.conns[0].RemoteAddr())
	})
}

func TestCloseReasonTravelsOverQUIC(t *testing.T) {
	overQUIC(t, netsim.Config{Delay: 10 * time.Millisecond}, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		n.conns[0].Close(2000, "thrown out")
		n.tick(10)
		require.Contains(t, n.clients[0].take(), "hit", "what was sent before the close is delivered")
		require.EqualError(t, n.ends[0].Err(), "rpc: connection closed by the peer: Code(2000): thrown out")
		require.EqualError(t, n.conns[0].Err(), "rpc: connection closed: Code(2000): thrown out")
	})
}

// TestCloseOfAQuietConnectionIsRepeated: QUIC repeats a lost close only to a peer that sends, and
// this peer has nothing to send. So pings are sent before the close, which the peer acknowledges.
func TestCloseOfAQuietConnectionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		var lost atomic.Bool
		lost.Store(true) // until the client is idle
		reason := strings.Repeat("x", 200)
		back := netsim.Config{Delay: 25 * time.Millisecond, Lose: func(_ uint64, p []byte) bool { return len(p) > len(reason) && !lost.Swap(true) }}
		near, far := netsim.Pipe(netsim.Config{Delay: 25 * time.Millisecond}, back)
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		c, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		lost.Store(false)
		server.Conns()[0].Close(2000, reason)
		time.Sleep(time.Second)
		require.True(t, lost.Load(), "the close was lost once")
		require.EqualError(t, c.Err(), "rpc: connection closed by the peer: Code(2000): "+reason)
		require.NoError(t, listener.Close())
		require.NoError(t, errors.Join(c.Wait(t.Context()), near.Close(), far.Close()))
	})
}

func TestQuietConnectionLives(t *testing.T) {
	overQUIC(t, netsim.Config{Delay: 10 * time.Millisecond}, Config{}, func(n *network) {
		a := n.spawn(0)
		n.tick(30 * 60) // a quiet minute
		require.Greater(t, n.conns[0].Stats().MaxDatagram, 1300, "path MTU discovery is seen, though it takes up to a second")
		require.NoError(t, n.ends[0].Err(), "keep-alives hold it")
		require.NoError(t, hit.Call(a, 1))
		n.tick(3)
		require.Equal(t, []string{"hit"}, n.clients[0].take())
	})
}

func TestPeerThatVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		near, far := netsim.Pipe(netsim.Config{Delay: time.Millisecond}, netsim.Config{Delay: time.Millisecond})
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		c, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		near.To(far).Dark(time.Hour)
		far.To(near).Dark(time.Hour)

		t.Log("# nobody hears anybody: the idle timeout ends the client's side")
		start := time.Now()
		<-c.Done()
		var closed *CloseError
		require.ErrorAs(t, c.Err(), &closed)
		require.Equal(t, ConnectionTimeout, closed.Code, closed.Error())
		require.InDelta(t, 30, time.Since(start).Seconds(), 11, "and up to one keep-alive")

		t.Log("# closing the listener does not wait for who does not answer")
		start = time.Now()
		require.NoError(t, listener.Close())
		require.LessOrEqual(t, time.Since(start), 3*time.Second)
		require.NoError(t, c.Wait(context.Background()))
		time.Sleep(time.Second) // the server's side may still send pings so that its close is repeated
		require.NoError(t, errors.Join(near.Close(), far.Close()))
	})
}

// A server that shuts down closes its world, which says why, and then its listener.
// A close that is lost on the way is repeated all the same, to who still sends.
func TestCloseOfAWorldIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		near, far := netsim.Pipe(netsim.Config{Delay: 25 * time.Millisecond}, netsim.Config{Delay: 25 * time.Millisecond})
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		c, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		time.Sleep(time.Second)
		_ = c.SendMessage(1, make([]byte, 100))
		client.Tick(time.Now())
		time.Sleep(30 * time.Millisecond)
		far.To(near).Dark(20 * time.Millisecond)
		require.NoError(t, server.Close(t.Context(), 1024, "maintenance"))
		free := make(chan error, 1)
		go func() { free <- listener.Close() }()
		for range 20 {
			_ = c.SendMessage(1, make([]byte, 100)) // until it is told
			client.Tick(time.Now())
			time.Sleep(10 * time.Millisecond)
		}
		told := c.Err()
		c.Close(0, "the test is over")
		require.NoError(t, <-free)
		require.NoError(t, c.Wait(t.Context()))
		require.EqualError(t, told, "rpc: connection closed by the peer: Code(1024): maintenance")
		require.NoError(t, errors.Join(near.Close(), far.Close()))
	})
}

// TestYoungConnectionsCloseAtOnce: before, a listener whose server was full
// took up to 5 ms for each client that it refused.
func TestYoungConnectionsCloseAtOnce(t *testing.T) {
	for _, age := range []time.Duration{0, 2 * time.Second} {
		overQUIC(t, netsim.Config{Delay: 25 * time.Millisecond}, Config{}, func(n *network) {
			time.Sleep(age)
			began := time.Now()
			require.NoError(t, n.conns[0].carrier.CloseWithError(uint64(ServerFull), "full"))
			require.Equal(t, age == 0, time.Now().Equal(began), "%v later", age)
		})
	}
}

// TestIdleServerStopsAtOnce: before, a server without clients, or whose client
// had nothing to send, waited three probe timeouts for packets: up to a second,
// because the round trips of a handshake are long on a busy processor.
func TestIdleServerStopsAtOnce(t *testing.T) {
	for name, clients := range map[string]int{"no client": 0, "an idle one": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
				near, far := netsim.Pipe(netsim.Config{Delay: 100 * time.Millisecond}, netsim.Config{Delay: 100 * time.Millisecond})
				serverTLS, clientTLS := credentials(t)
				listener, err := ListenPacket(far, serverTLS, server.World)
				require.NoError(t, err)
				for range clients {
					_, err = DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
					require.NoError(t, err)
				}
				time.Sleep(5 * time.Second)
				began := time.Now()
				require.NoError(t, server.Close(t.Context(), HostClosedConnection, "the server shuts down"))
				require.NoError(t, listener.Close())
				require.WithinDuration(t, began, time.Now(), 10*time.Millisecond)
				time.Sleep(time.Second)
				require.Empty(t, client.lobby.all(), "and the client knows")
				require.NoError(t, errors.Join(near.Close(), far.Close()))
			})
		})
	}
}

func TestDialFails(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	_, otherTLS := credentials(t)
	server := newTestWorld(t, Config{Authenticate: func(context.Context, []byte) (string, error) {
		return "", errors.New("no entry")
	}})
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	defer listener.Close()
	addr := listener.Addr().String()
	for _, row := range []struct {
		name   string
		addr   string
		config *tls.Config
		want   string
	}{
		{"another certificate", addr, otherTLS, "fingerprint"},
		{"how to trust it", addr, &tls.Config{}, "use cert.Pinned with its fingerprint"},
		{"a bad token", addr, clientTLS, "PreLoginFailure: no entry"},
		{"no TLS", addr, nil, "a TLS config is required"},
		{"no port", "localhost", clientTLS, `Dial "localhost"`},
		{"no host", "host.invalid:1", clientTLS, `Dial "host.invalid:1"`},
	} {
		client := newTestWorld(t, Config{})
		_, err := Dial(t.Context(), row.addr, row.config, client.World)
		require.ErrorContains(t, err, row.want, row.name)
		require.Empty(t, client.lobby.attached)
	}
	_, err = Listen(addr, serverTLS, newTestWorld(t, Config{}).World)
	require.ErrorContains(t, err, addr, "the port is taken")
	for _, none := range []*tls.Config{nil, {}} {
		_, err = Listen("127.0.0.1:0", none, newTestWorld(t, Config{}).World)
		require.ErrorContains(t, err, "certificate")
	}
}

// TestDialFromAServer: Dial of a world that cannot become a client fails at
// once, however long it would take to find the server.
func TestDialFromAServer(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	synctest.Test(t, func(t *testing.T) {
		world := newTestWorld(t, Config{})
		near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
		listener, err := ListenPacket(far, serverTLS, world.World)
		require.NoError(t, err)
		began := time.Now()
		_, err = DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, world.World) // where nobody takes its packets
		require.ErrorIs(t, err, ErrWrongRole)
		require.Equal(t, began, time.Now())
		require.NoError(t, errors.Join(listener.Close(), near.Close(), far.Close()))
	})
}

// TestDialInAClosedWorld: Dial fails at once, even if no server answers. With
// the error of silence a client would try forever.
func TestDialInAClosedWorld(t *testing.T) {
	_, clientTLS := credentials(t)
	synctest.Test(t, func(t *testing.T) {
		world := newTestWorld(t, Config{})
		near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
		require.NoError(t, world.Close(t.Context(), HostClosedConnection, "over"))
		began := time.Now()
		_, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, world.World) // where nobody takes its packets
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.ErrorContains(t, err, "the world is closed")
		require.False(t, closed.Temporary())
		require.Equal(t, began, time.Now())
		require.NoError(t, errors.Join(near.Close(), far.Close()))
	})
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	_, clientTLS := credentials(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, silent.LocalAddr().String(), clientTLS, newTestWorld(t, Config{}).World)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no server answered")
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout(), "so that a client knows that it may try again")
}

// homes is a socket of which one address is dead, and another one is a second
// address of the first peer.
type homes struct {
	net.PacketConn
	dead, second, first net.Addr
}

func (h homes) WriteTo(p []byte, addr net.Addr) (int, error) {
	switch addr {
	case h.dead:
		return len(p), nil
	case h.second:
		addr = h.first
	}
	return h.PacketConn.WriteTo(p, addr)
}

// TestDialAnotherAddress: if one address of a host is dead, Dial uses the
// other. If both are alive, the client joins once.
func TestDialAnotherAddress(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	for _, sealed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slow := netsim.Config{Delay: 200 * time.Millisecond} // the second address is tried before the first can have answered
			near, far := netsim.Pipe(slow, slow)
			dead, second := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2}
			server := newTestWorld(t, Config{Sealed: sealed})
			listener, err := ListenPacket(far, serverTLS, server.World)
			require.NoError(t, err)
			socket := homes{near, dead, second, far.LocalAddr()}
			for _, addrs := range [][]net.Addr{{dead, far.LocalAddr()}, {far.LocalAddr(), second}} {
				client := newTestWorld(t, Config{Sealed: sealed})
				d := dialer{world: client.World, socket: socket, addrs: addrs, tls: clientTLS}
				conn, err := d.attempt(t.Context())
				require.NoError(t, err)
				n := &network{t: t, server: server, clients: []*testWorld{client}}
				n.tick(60)
				require.Len(t, server.Conns(), 1)
				conn.Close(HostClosedConnection, "")
				require.NoError(t, conn.Wait(t.Context()))
				n.tick(30)
				require.Empty(t, server.Conns())
			}
			require.NoError(t, listener.Close())
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		})
	}
}

// narrow is a socket of an interface that takes no packet of more than 1,199 bytes.
type narrow struct{ net.PacketConn }

func (n narrow) WriteTo(p []byte, addr net.Addr) (int, error) {
	if len(p) > 1199 {
		return 0, &net.OpError{Op: "write", Net: "udp", Addr: addr, Err: syscall.EMSGSIZE}
	}
	return n.PacketConn.WriteTo(p, addr)
}

// TestDialFromANarrowInterface: QUIC's first packet does not fit, and Dial
// fails at once. Another try would use the same interface.
func TestDialFromANarrowInterface(t *testing.T) {
	_, clientTLS := credentials(t)
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
		for _, sealed := range []bool{false, true} {
			began := time.Now()
			_, err := DialPacket(t.Context(), narrow{near}, far.LocalAddr(), clientTLS, newTestWorld(t, Config{Sealed: sealed}).World)
			require.ErrorContains(t, err, "does not send packets of 1200 bytes")
			require.ErrorIs(t, err, syscall.EMSGSIZE)
			require.Equal(t, began, time.Now())
			var late net.Error
			require.False(t, errors.As(err, &late) && late.Timeout())
		}
		require.NoError(t, errors.Join(near.Close(), far.Close()))
	})
}

func TestListenAgainOnTheSamePort(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	addr := "127.0.0.1:0"
	for range 3 {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		listener, err := Listen(addr, serverTLS, server.World)
		require.NoError(t, err)
		addr = listener.Addr().String()
		c, err := Dial(t.Context(), addr, clientTLS, client.World)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		<-c.Done()
		var closed *CloseError
		require.ErrorAs(t, c.Err(), &closed)
		require.Equal(t, HostClosedConnection, closed.Code)
		require.NoError(t, listener.Close(), "again is nothing")
	}
}
