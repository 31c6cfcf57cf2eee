package rpc

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/netsim"
)

// TestDialWaitsForItsTurn: a client that is refused because of other handshakes
// tries again until there is room. One that finds the server full does not.
func TestDialWaitsForItsTurn(t *testing.T) {
	ms := time.Millisecond
	for name, row := range map[string]struct {
		config      Config
		free        time.Duration // when the place at the door becomes free; 0 = never
		evict       bool          // the first login gives its place away
		ctx         func() (context.Context, context.CancelFunc)
		least, most time.Duration // until Dial returns
		want        string        // of its error; empty = none
	}{
		"room":      {Config{MaxHandshakes: 1}, 3000 * ms, false, forever, 3000 * ms, 4200 * ms, ""},
		"no room":   {Config{MaxHandshakes: 1}, 0, false, forever, 8900 * ms, 10000 * ms, "ServerBusy: the server refused the handshake"},
		"a limit":   {Config{MaxHandshakes: 1}, 0, false, within(2000 * ms), 900 * ms, 2000 * ms, "ServerBusy: the server refused the handshake"},
		"gives up":  {Config{MaxHandshakes: 1}, 0, false, canceledAfter(2000 * ms), 2000 * ms, 2000 * ms, "context canceled"},
		"gave way":  {Config{}, 0, true, forever, 50 * ms, 500 * ms, ""},
		"many in":   {Config{MaxConns: 1}, 0, false, forever, 0, 500 * ms, "ServerFull: connection limit of 1 reached (Config.MaxConns)"},
		"a refusal": {Config{Authenticate: func(context.Context, []byte) (string, error) { return "", errors.New("no") }}, 0, false, forever, 0, 500 * ms, "PreLoginFailure: no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server *testWorld
				if row.evict {
					row.config.Authenticate = evictOnce(&server)
				}
				server = newTestWorld(t, row.config)
				takePlace(t, server, row.free)
				near, far := netsim.Pipe(netsim.Config{Delay: ms}, netsim.Config{Delay: ms})
				serverTLS, clientTLS := credentials(t)
				listener, err := ListenPacket(far, serverTLS, server.World)
				require.NoError(t, err)
				ctx, cancel := row.ctx()
				defer cancel()
				began := time.Now()
				c, err := DialPacket(ctx, near, far.LocalAddr(), clientTLS, newTestWorld(t, Config{}).World)
				took := time.Since(began)
				if row.want == "" {
					require.NoError(t, err)
					c.Close(0, "")
					require.NoError(t, c.Wait(context.Background()))
				} else {
					require.ErrorContains(t, err, row.want)
				}
				require.GreaterOrEqual(t, took, row.least)
				require.LessOrEqual(t, took, row.most)
				require.NoError(t, near.Close())
				require.NoError(t, listener.Close())
				require.NoError(t, far.Close())
			})
		})
	}
}

func forever() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func within(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
}

func canceledAfter(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) {
		ctx, cancel := forever()
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// takePlace takes the place of the one handshake, or of the one connection,
// that a server's config allows.
func takePlace(t *testing.T, server *testWorld, free time.Duration) {
	if server.config.MaxHandshakes == 1 {
		v, _, full := server.lobby.arrive(host("192.0.2.1"), true)
		require.Nil(t, full)
		if free > 0 {
			time.AfterFunc(free, func() { server.lobby.leave(v) })
		}
	}
	if server.config.MaxConns == 1 {
		v, _, full := server.lobby.door.Admit(nil, netip.Prefix{}, time.Now(), func(*Conn) *door.Full { return nil })
		require.Nil(t, full)
		server.lobby.door.Join(v)
	}
}

// evictOnce returns an Authenticate that has the first client give its place away.
func evictOnce(server **testWorld) func(context.Context, []byte) (string, error) {
	var evicted atomic.Bool
	return func(context.Context, []byte) (string, error) {
		if !evicted.Swap(true) {
			for _, c := range (*server).lobby.all() {
				(*server).evict(c)
			}
		}
		return "", nil
	}
}

// TestACrowdDialsAtOnce: a party behind one address that is larger than the
// limit on handshakes all gets in with one Dial each. Before, of 200 clients
// that dialed a server with the default limits 25 were refused.
func TestACrowdDialsAtOnce(t *testing.T) {
	server := newTestWorld(t, Config{MaxHandshakes: 6})
	serverTLS, clientTLS := credentials(t)
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	var crowd sync.WaitGroup
	failed := make(chan error, 24)
	for range cap(failed) {
		client := newTestWorld(t, Config{HandshakeTimeout: time.Minute})
		crowd.Go(func() {
			_, err := Dial(context.Background(), listener.Addr().String(), clientTLS, client.World)
			failed <- err
		})
	}
	crowd.Wait()
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	stats := server.HandshakeStats()
	require.Positive(t, stats.Refused+stats.Evicted, "there was a crowd")
	require.NoError(t, listener.Close())
}
