package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// unplugged is a socket of a machine that may have no network: then the system refuses each packet.
type unplugged struct {
	net.PacketConn
	out atomic.Bool
}

var errUnplugged = &net.OpError{Op: "write", Net: "udp", Err: os.NewSyscallError("sendmsg", syscall.ENETUNREACH)}

func (u *unplugged) WriteTo(p []byte, to net.Addr) (int, error) {
	if u.out.Load() {
		return 0, errUnplugged
	}
	return u.PacketConn.WriteTo(p, to)
}

// dialOver joins a client to a server over two sockets, near and far, of which each end uses
// what wraps it. hangUp ends the connection, unless it has ended, and closes both sockets.
func dialOver(t *testing.T, sealed bool, client, server net.PacketConn) (n *network, hangUp func()) {
	n = &network{t: t, server: newTestWorld(t, Config{Sealed: sealed}), clients: []*testWorld{newTestWorld(t, Config{Sealed: sealed})}}
	serverTLS, clientTLS := credentials(t)
	listener, err := ListenPacket(server, serverTLS, n.server.World)
	require.NoError(t, err)
	end, err := DialPacket(t.Context(), client, server.LocalAddr(), clientTLS, n.clients[0].World)
	require.NoError(t, err)
	n.ends = []*Conn{end}
	n.tick(8)
	n.await()
	return n, func() {
		require.NoError(t, listener.Close())
		require.NoError(t, end.Wait(context.Background()))
		n.tick(1)
		require.NoError(t, errors.Join(client.Close(), server.Close()))
	}
}

// TestConnectionsSurviveWithoutANetwork: between two networks a machine has none,
// and the system refuses what it sends. On a client and on a server such packets
// count as lost in the network: within IdleTimeout the connection continues.
func TestConnectionsSurviveWithoutANetwork(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := netsim.Config{Delay: 20 * time.Millisecond}
			near, far := netsim.Pipe(path, path)
			client, server := &unplugged{PacketConn: near}, &unplugged{PacketConn: far}
			n, hangUp := dialOver(t, sealed, client, server)
			end := n.ends[0]

			for _, u := range []*unplugged{client, server} {
				u.out.Store(true)
				require.NoError(t, end.SendMessage(1, []byte("from a tunnel")))
				n.tick(8 * 30)
				u.out.Store(false)
				n.tick(4 * 30)
				require.NoError(t, end.Err())
				require.Zero(t, end.Stats().Queued+end.Stats().InFlight, "the message has arrived")
			}

			hangUp()
		})
	}
}

// TestTimeoutSaysThatNothingCouldLeave: if a connection times out because this
// machine refuses each packet, as a firewall or a VPN does, the error says so.
func TestTimeoutSaysThatNothingCouldLeave(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for _, out := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
				client := &unplugged{PacketConn: near}
				n, hangUp := dialOver(t, sealed, client, far)
				end := n.ends[0]

				client.out.Store(out)
				if !out {
					near.To(far).SetConfig(netsim.Config{Loss: 1})
				}
				require.NoError(t, end.SendMessage(1, []byte("from behind a firewall")))
				n.tick(60 * 30)
				for _, c := range []*Conn{end, n.conns[0]} {
					var closed *CloseError
					require.ErrorAs(t, c.Err(), &closed)
					require.Equal(t, ConnectionTimeout, closed.Code)
					if out && c == end {
						require.ErrorContains(t, closed, "; this machine cannot send: "+errUnplugged.Error())
						require.ErrorIs(t, closed, syscall.ENETUNREACH)
					} else {
						require.NotContains(t, closed.Error(), "this machine")
					}
				}

				hangUp()
			})
		}
	}
}

// aborted is a socket of which some reads fail.
type aborted struct {
	net.PacketConn
	err   error
	left  atomic.Int64 // reads that will fail
	tries atomic.Int64 // reads that failed
}

func (a *aborted) ReadFrom(p []byte) (int, net.Addr, error) {
	if a.left.Add(-1) >= 0 {
		a.tries.Add(1)
		return 0, nil, &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("recvfrom", a.err)}
	}
	return a.PacketConn.ReadFrom(p)
}

// TestConnectionsSurviveFailedReads: when a network goes away, Linux may abort the sockets that
// used it, as `ss -K` does, and Android's netd. The next read fails once with ECONNABORTED, and
// the socket continues, from another port. Before, all connections of the socket ended.
func TestConnectionsSurviveFailedReads(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for _, no := range []syscall.Errno{syscall.ECONNABORTED, syscall.ENETDOWN, syscall.ENOBUFS} {
			synctest.Test(t, func(t *testing.T) {
				path := netsim.Config{Delay: 20 * time.Millisecond}
				near, far := netsim.Pipe(path, path)
				client, server := &aborted{PacketConn: near, err: no}, &aborted{PacketConn: far, err: no}
				n, hangUp := dialOver(t, sealed, client, server)
				end := n.ends[0]

				for _, a := range []*aborted{client, server} {
					a.left.Store(3)
					for range 4 {
						require.NoError(t, end.SendMessage(1, []byte("from a network that goes")))
						n.tick(30)
					}
					require.EqualValues(t, 3, a.tries.Load())
					require.NoError(t, end.Err())
					require.Zero(t, end.Stats().Queued+end.Stats().InFlight, "the messages have arrived")
				}

				client.left.Store(1 << 40) // for good: the connection says why it ended, and nobody turns without a pause
				require.NoError(t, end.SendMessage(1, []byte("the last one")))
				n.tick(20 * 30)
				require.ErrorContains(t, end.Err(), no.Error())
				require.Less(t, client.tries.Load(), int64(1000))
				client.left.Store(0)

				hangUp()
			})
		}
	}
}

// TestListenerSaysThatItsSocketFailed: a server that no client can join any
// more, and that has no connection by which its game could notice, logs it.
func TestListenerSaysThatItsSocketFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		server := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
		serverTLS, _ := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, far.Close())
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), `level=ERROR msg="listener socket failed; no longer accepting connections"`), log.String())
		require.Contains(t, log.String(), net.ErrClosed.Error())
		_ = listener.Close()

		log.Reset()
		listener, err = ListenPacket(near, serverTLS, newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}).World)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		require.NotContains(t, log.String(), "ERROR", "who closes it knows")
		require.NoError(t, near.Close())
	})
}

// TestDialWithoutANetwork: between two networks a client may try again, and the
// error contains the system's. If the network returns in time, the dial succeeds.
func TestDialWithoutANetwork(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
			near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
			socket := &unplugged{PacketConn: near}
			socket.out.Store(true)
			serverTLS, clientTLS := credentials(t)
			listener, err := ListenPacket(far, serverTLS, server.World)
			require.NoError(t, err)
			if back {
				time.AfterFunc(2*time.Second, func() { socket.out.Store(false) })
			}
			conn, err := DialPacket(t.Context(), socket, far.LocalAddr(), clientTLS, client.World)
			if back {
				require.NoError(t, err)
				conn.Close(0, "")
				require.NoError(t, conn.Wait(context.Background()))
			} else {
				var late net.Error
				require.ErrorAs(t, err, &late)
				require.True(t, late.Timeout(), err)
				require.ErrorContains(t, err, syscall.ENETUNREACH.Error())
			}
			require.NoError(t, listener.Close())
			time.Sleep(time.Minute)
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		})
	}
}
