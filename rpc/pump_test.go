package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
)

// TestPumpUnderRun is what a streamer does: calls from OnTick while less than half of the
// buffer is taken, and a watch for the rest. Nobody ticks; freed entries wake the world.
func TestPumpUnderRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := netsim.Config{Delay: 10 * time.Millisecond, Loss: 0.01, Seed: 3}
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		near, far := netsim.Pipe(path, path)
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		end, err := DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)

		const size, part = 2 << 20, 32 << 10
		ctx, cancel := context.WithCancel(t.Context())
		sent, peak, ticks := 0, 0, 0
		var a *Actor
		server.OnTick(func(time.Time) {
			if a == nil && len(server.joined) == 1 {
				a, err = server.Spawn(hero, server.joined[0])
				require.NoError(t, err)
			}
			if a == nil || !a.Alive() || sent == size {
				return
			}
			ticks++
			channel := a.Channel(server.joined[0])
			out, slots := channel.Reliable()
			for ; out < slots/2 && sent < size; out, _ = channel.Reliable() {
				require.NoError(t, bulk.Call(a, make(Raw, part)))
				sent += part
			}
			peak = max(peak, out)
			channel.Watch(slots/2, time.Second)
		})
		ended := make(chan error, 2)
		go func() { ended <- server.Run(ctx) }()
		go func() { ended <- client.Run(ctx) }()
		received := func() (n int) {
			require.NoError(t, client.Do(ctx, func() { n = client.received }))
			return n
		}
		start := time.Now()
		for received() < size {
			time.Sleep(10 * time.Millisecond)
			require.Less(t, time.Since(start), 10*time.Second)
		}
		require.LessOrEqual(t, peak, 256/2-1+bunch.Entries(part+1))
		require.Greater(t, ticks, 10)
		require.NoError(t, listener.Close())
		cancel()
		<-ended
		<-ended
		require.NoError(t, end.Wait(context.Background()))
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
	})
}
