package rpc

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/rpc/emulation"
)

// TestEmulation: each side's emulation delays what it sends, over both
// carriers, and is switched while running.
func TestEmulation(t *testing.T) {
	for _, name := range []string{"QUIC", "sealed"} {
		t.Run(name, func(t *testing.T) {
			config := Config{Sealed: name == "sealed", Emulation: &emulation.Settings{PktLag: 40 * time.Millisecond}}
			overSealedWith(t, netsim.Config{Delay: time.Millisecond}, config, config, func(n *sealedNet) {
				if config.Sealed {
					n.reach(n.near, sealed.Open)
				}
				a := n.mirror(0, n.spawn(0))
				require.InDelta(t, 41*time.Millisecond, n.oneWay(a), float64(3*time.Millisecond))

				require.NoError(t, n.clients[0].SetEmulation(emulation.Settings{}))
				require.NoError(t, n.server.SetEmulation(emulation.Settings{PktIncomingLagMin: 10 * time.Millisecond, PktIncomingLagMax: 10 * time.Millisecond}))
				require.InDelta(t, 11*time.Millisecond, n.oneWay(a), float64(3*time.Millisecond))

				require.NoError(t, n.clients[0].SetEmulation(emulation.Settings{PktLoss: 100}))
				require.NoError(t, shout.Call(a, "away"))
				n.tick(30)
				require.NotContains(t, n.server.heard, "shout away")
				require.NoError(t, n.clients[0].SetEmulation(emulation.Settings{PktLoss: 30}))
				n.tick(300)
				require.Contains(t, n.server.heard, "shout away", "nothing that is reliable is lost")
			})
		})
	}
}

// oneWay returns how long a call of the client takes, to the next millisecond.
func (n *sealedNet) oneWay(a *Actor) time.Duration {
	n.t.Helper()
	n.tick(10)
	before, began := len(n.server.heard), time.Now()
	require.NoError(n.t, shout.Call(a, "now"))
	n.clients[0].Tick(time.Now())
	for range 1000 {
		if len(n.server.heard) > before {
			break
		}
		time.Sleep(time.Millisecond)
		n.server.Tick(time.Now())
	}
	return time.Since(began)
}

// TestEmulationsEnd: a world keeps no sockets that it no longer uses.
func TestEmulationsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := Config{Emulation: &emulation.Settings{PktLag: time.Millisecond}}
		server, client := newTestWorld(t, config), newTestWorld(t, config)
		serverTLS, clientTLS := credentials(t)
		for range 3 {
			near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
			listener, err := ListenPacket(far, serverTLS, server.World)
			require.NoError(t, err)
			end, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
			require.NoError(t, err)
			require.Equal(t, 1, server.sockets.Len())
			require.Equal(t, 1, client.sockets.Len())
			end.Close(0, "")
			require.NoError(t, listener.Close())
			require.NoError(t, end.Wait(context.Background()))
			server.Tick(time.Now())
			client.Tick(time.Now())
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		}
		require.Zero(t, server.sockets.Len())
		require.Zero(t, client.sockets.Len())
	})
}

// TestEmulationOfAnySocket: a socket of the caller may be any net.PacketConn,
// also behind an emulation.
func TestEmulationOfAnySocket(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := Config{Sealed: sealed, Emulation: &emulation.Settings{PktLag: time.Millisecond}}
			server, client := newTestWorld(t, config), newTestWorld(t, config)
			serverTLS, clientTLS := credentials(t)
			near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
			listener, err := ListenPacket(struct{ net.PacketConn }{far}, serverTLS, server.World)
			require.NoError(t, err)
			end, err := DialPacket(t.Context(), struct{ net.PacketConn }{near}, far.LocalAddr(), clientTLS, client.World)
			require.NoError(t, err)
			end.Close(0, "")
			require.NoError(t, listener.Close())
			require.NoError(t, end.Wait(context.Background()))
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		})
	}
}

func TestEmulationsThatMakeNoSense(t *testing.T) {
	for _, row := range []struct {
		e    emulation.Settings
		want string
	}{
		{emulation.Settings{PktLoss: 101}, "Settings.PktLoss is 101; it must be a percentage"},
		{emulation.Settings{PktIncomingLoss: -1}, "Settings.PktIncomingLoss is -1"},
		{emulation.Settings{PktLag: time.Second, PktLagVariance: time.Second}, ""},
		{emulation.Settings{PktLag: time.Second, PktLagVariance: 2 * time.Second}, "Settings.PktLagVariance is 2s; the limit is 1s (PktLag)"},
		{emulation.Settings{PktLagMin: 2, PktLagMax: 1}, "Settings.PktLagMin is 2ns"},
		{emulation.Settings{PktLag: -1}, "Settings.PktLag"},
		{emulation.Settings{Rate: -1}, "Settings.Rate is -1"},
	} {
		_, err := NewWorld(Config{Emulation: &row.e})
		if row.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, row.want)
	}
	w := newTestWorld(t, Config{})
	require.ErrorContains(t, w.SetEmulation(emulation.Settings{}), "without Config.Emulation")
}
