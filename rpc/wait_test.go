package rpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
)

// TestBubbleOfAUserEnds: after Wait, or after a Dial that failed, nothing is
// left for which a test would have to wait, and its socket may be closed.
func TestBubbleOfAUserEnds(t *testing.T) {
	const delay = 10 * time.Millisecond
	for _, row := range []struct {
		name string
		end  func(server *World, dialed *Conn, near, far *netsim.PacketConn)
	}{
		{"client closes", func(_ *World, c *Conn, _, _ *netsim.PacketConn) { c.Close(2000, "enough") }},
		{"client's world closes", func(_ *World, c *Conn, _, _ *netsim.PacketConn) {
			_ = c.World().Close(context.Background(), 2000, "enough")
		}},
		{"server closes", func(server *World, _ *Conn, _, _ *netsim.PacketConn) { server.Conns()[0].Close(2000, "enough") }},
		{"client closes and nobody hears it", func(_ *World, c *Conn, near, far *netsim.PacketConn) {
			near.To(far).Dark(time.Hour)
			c.Close(2000, "enough")
		}},
		{"server vanishes", func(_ *World, _ *Conn, near, far *netsim.PacketConn) { far.To(near).Dark(time.Hour) }},
	} {
		for _, sealed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				config := Config{Sealed: sealed}
				server, client := newTestWorld(t, config), newTestWorld(t, config)
				near, far := netsim.Pipe(netsim.Config{Delay: delay}, netsim.Config{Delay: delay})
				serverTLS, clientTLS := credentials(t)
				listener, err := ListenPacket(far, serverTLS, server.World)
				require.NoError(t, err)
				c, err := DialPacket(context.Background(), near, far.LocalAddr(), clientTLS, client.World)
				require.NoError(t, err)
				for range 30 {
					server.Tick(time.Now())
					client.Tick(time.Now())
					time.Sleep(delay)
				}
				require.ErrorIs(t, c.Wait(expired()), context.Canceled, row.name)
				accepted := server.Conns()[0]
				row.end(server.World, c, near, far)
				require.NoError(t, c.Wait(context.Background()))
				require.Error(t, c.Err())
				require.NoError(t, near.Close())
				require.NoError(t, listener.Close())
				require.NoError(t, accepted.Wait(context.Background()))
				require.NoError(t, far.Close())
			})
		}
	}
}

// expired returns a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestDialThatFailsLeavesNothing(t *testing.T) {
	for _, row := range []struct {
		server Config
		client time.Duration // of its context
		want   string
	}{
		{Config{Authenticate: func(context.Context, []byte) (string, error) { return "", errors.New("no") }}, time.Hour, "PreLoginFailure: no"},
		{Config{MaxConns: 1}, time.Hour, "ServerFull"},
		{Config{Authenticate: func(ctx context.Context, _ []byte) (string, error) { <-ctx.Done(); return "", ctx.Err() }}, time.Second, "deadline"},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, client := newTestWorld(t, row.server), newTestWorld(t, Config{})
			for range row.server.MaxConns { // all places are taken
				v, _, full := server.lobby.door.Admit(nil, netip.Prefix{}, time.Now(), func(*Conn) *door.Full { return nil })
				require.Nil(t, full)
				server.lobby.door.Join(v)
			}
			near, far := netsim.Pipe(netsim.Config{Delay: time.Millisecond}, netsim.Config{Delay: time.Millisecond})
			serverTLS, clientTLS := credentials(t)
			listener, err := ListenPacket(far, serverTLS, server.World)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), row.client)
			defer cancel()
			_, err = DialPacket(ctx, near, far.LocalAddr(), clientTLS, client.World)
			require.ErrorContains(t, err, row.want)
			require.NoError(t, near.Close())
			require.NoError(t, listener.Close())
			require.NoError(t, far.Close())
		})
	}
}

// TestSealedCarrierWakesAnEndedConnection: what the carrier's goroutine does
// under the link's lock, such as a ping, may wake the connection when the link
// has just ended. It must never be the goroutine that waits for itself.
func TestSealedCarrierWakesAnEndedConnection(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
			w, err := NewWorld(Config{})
			require.NoError(t, err)
			c, err := w.Attach(silentCarrier{make(chan struct{})})
			require.NoError(t, err)
			c.joinWorld()
			carrier, err := sealed.NewCarrier(sealed.NewSocket(near, sealed.SocketConfig{}), sealed.Config{
				SessionConfig: sealed.SessionConfig{
					Exporter: func(_ string, _ []byte, n int) ([]byte, error) { return make([]byte, n), nil }, Instance: 1, Source: c.link.Source(),
				},
				Addrs: func() (net.Addr, net.Addr) { return far.LocalAddr(), near.LocalAddr() },
				Changed: func(sealed.State) {
					<-c.link.Done()
					c.onWake()
				},
			})
			require.NoError(t, err)
			c.sealed = &sealedCarrier{conn: c, carriers: carriers{newest: carrier}}
			c.abort(&CloseError{})
			require.NoError(t, c.Wait(context.Background()))
			w.Tick(time.Now())
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		})
	}
}
