package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
)

// Gameplay beside the bulk, as examples/savegame measures it.
var (
	gameplayClass = rpc.NewClass("gameplay")
	shoot         = rpc.Server[shot](gameplayClass, "Shoot", rpc.Reliable)
)

type shot struct {
	At   int64
	Rest [90]byte
}

// play sends 30 shots a second, until a blob by that backend has arrived, or for 3 seconds without one. It returns how long the
// shots took to their handler, and the blob.
func play(t *testing.T, path netsim.Config, via Backend) (latencies []time.Duration, took time.Duration) {
	var actors chan *rpc.Actor
	overQUICWith(t, path, rpc.Config{}, func(server, client *rpc.World) {
		actors = make(chan *rpc.Actor, 1) // of the bubble
		rpc.On(rpc.Bind(server, gameplayClass, func(*rpc.Actor) int { return 0 }), shoot, func(_ int, _ *rpc.Call, s shot) {
			latencies = append(latencies, time.Since(time.Unix(0, s.At)))
		})
		rpc.Bind(client, gameplayClass, func(a *rpc.Actor) int { actors <- a; return 0 })
		server.OnConnect(func(c *rpc.Conn) { _, _ = server.Spawn(gameplayClass, c) })
	}, func(t *testing.T, l loopback) {
		gun, done := <-actors, make(chan struct{})
		if via != nil {
			go func() { defer close(done); took = move(t, l.toServer, l.server, Via(via)) }()
		} else {
			go func() { defer close(done); time.Sleep(3 * time.Second) }()
		}
		for tick := time.NewTicker(time.Second / 30); ; {
			select {
			case <-done:
				tick.Stop()
				time.Sleep(time.Second)
				return
			case <-tick.C:
				require.NoError(t, gun.World().Do(t.Context(), func() { require.NoError(t, shoot.Call(gun, shot{At: time.Now().UnixNano()})) }))
			}
		}
	})
	return latencies, took
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

// TestPlayBesideBulk pools over 3,000 calls (300 with -short) beside repeated transfers.
func TestPlayBesideBulk(t *testing.T) { overBackends(t, testPlayBesideBulk) }

func testPlayBesideBulk(t *testing.T, via Backend) {
	random := testkit.Rand(t)
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6}
	alone, _ := play(t, path, nil)
	slices.Sort(alone)
	var beside []time.Duration
	calls := 3000
	if testing.Short() {
		calls = 300
	}
	for len(beside) < calls {
		path.Seed = random.Uint64()
		latencies, took := play(t, path, via)
		beside = append(beside, latencies...)
		require.Less(t, took, 4*time.Second)
	}
	slices.Sort(beside)
	t.Logf("alone p50 %v p99 %v; beside %d calls: p50 %v p98 %v p99 %v max %v", quantile(alone, 0.5), quantile(alone, 0.99),
		len(beside), quantile(beside, 0.5), quantile(beside, 0.98), quantile(beside, 0.99), quantile(beside, 1))
	require.Less(t, quantile(beside, 0.99), quantile(alone, 0.99)+40*time.Millisecond)
}
