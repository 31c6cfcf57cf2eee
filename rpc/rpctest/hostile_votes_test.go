package rpctest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestManyConnectionsOfOneSlowNobody: eight connections of a client join on a good path, and then
// delay and drop what they are sent, as if a queue did that which all share. The states of the
// others, whose path has become longer, came at a thirtieth of their rate.
func TestManyConnectionsOfOneSlowNobody(t *testing.T) {
	good, longer, bad := rpctest.Off, rpctest.Off, rpctest.Off
	good.PktLag = 10 * time.Millisecond
	longer.PktLag = 70 * time.Millisecond
	bad.PktLag, bad.PktLoss = 300*time.Millisecond, 30
	lossy := rpctest.Bad // loses packets itself, so that the queue could be on its path too
	for name, row := range map[string]struct {
		identities bool
		honest     emulation.Settings
	}{
		"of an identity, beside paths that lose packets": {true, lossy},
		"of nobody, beside paths that lose nothing":      {false, longer},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, good, func(t *testing.T, net *rpctest.Network) {
				config := rpc.Config{}
				if row.identities {
					config.Authenticate = func(_ context.Context, token []byte) (string, error) { return string(token), nil }
				}
				r := newTerrain(t, net, 0, config)
				updates := 0
				var become []func() // what each path becomes
				join := func(identity string, settings emulation.Settings) {
					w := newWilds(t, rpc.Config{Token: []byte(identity)})
					rpc.OnRep(w.scouts, scoutSpot, func(_ *scout, _ spot) {
						if identity != "mallory" {
							updates++
						}
					})
					conn := net.Client(w.World)
					become = append(become, func() { net.EmulateOne(conn, settings) })
				}
				for _, identity := range []string{"ann", "bob", "cyd", "dan"} {
					join(identity, row.honest)
				}
				for range 8 {
					join("mallory", bad)
				}
				var scouts []*scout
				for range 40 {
					scouts = append(scouts, r.scout(-1, 0, rpc.AlwaysRelevant()))
				}
				net.OnTick(func(time.Time) {
					for _, s := range scouts {
						s.spot.Count++
					}
				})
				net.Advance(10 * time.Second)
				for _, fn := range become {
					fn()
				}
				net.Advance(time.Minute)
				updates = 0
				net.Advance(10 * time.Second)
				require.Greater(t, updates, 4*40*30*10*3/4)
			})
		})
	}
}
