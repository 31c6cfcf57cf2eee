package input_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/input"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// kart has nothing but inputs.
type kart struct {
	queue input.Queue[int]
	moves *input.Predictor[int]
}

var (
	karts60, karts120, karts240 = rpc.NewClass("Kart60"), rpc.NewClass("Kart120"), rpc.NewClass("Kart240")
	turns60                     = input.New[int](karts60, "Turn", 60)
	turns120                    = input.New[int](karts120, "Turn", 120)
	turns240                    = input.New[int](karts240, "Turn", 240)
)

// bears240 is dos.Default with the quotas that 240 calls a second need, as New says.
func bears240() *dos.Profile {
	profile := dos.Default()
	for i := range profile.States {
		profile.States[i].Frame.Calls *= 2
		profile.States[i].Period.Calls *= 2
	}
	return profile
}

// TestInputsAreNoFlood: honest inputs are Normal to a server with dos.Default
// up to 120 Hz, and at 240 Hz with twice its quotas.
func TestInputsAreNoFlood(t *testing.T) {
	for _, row := range []struct {
		class   *rpc.Class
		turns   *input.Handle[int]
		hz      int
		profile *dos.Profile
	}{{karts60, turns60, 60, dos.Default()}, {karts120, turns120, 120, dos.Default()}, {karts240, turns240, 240, bears240()}} {
		for name, path := range map[string]emulation.Settings{"off": rpctest.Off, "average": rpctest.Average, "bad": rpctest.Bad} {
			t.Run(row.class.String()+" "+name, func(t *testing.T) {
				rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
					net.SetTickRate(row.hz)
					var far *rpc.Conn
					var here, there *kart
					server, err := rpc.NewWorld(rpc.Config{DoS: row.profile, OnConnect: func(w *rpc.World, c *rpc.Conn) {
						far = c
						_, err := w.Spawn(row.class, c)
						require.NoError(t, err)
					}})
					require.NoError(t, err)
					b := rpc.Bind(server, row.class, func(*rpc.Actor) *kart { here = new(kart); return here })
					input.Serve(b, row.turns, func(k *kart) *input.Queue[int] { return &k.queue })
					client, err := rpc.NewWorld(rpc.Config{})
					require.NoError(t, err)
					b = rpc.Bind(client, row.class, func(a *rpc.Actor) *kart { there = &kart{moves: row.turns.Predictor(a)}; return there })
					input.Predict(b, row.turns, func(k *kart) *input.Predictor[int] { return k.moves })
					tick := uint64(0)
					net.OnTick(func(now time.Time) {
						if tick++; here != nil {
							here.queue.Take(now, tick)
						}
						if there != nil {
							_ = there.moves.Tick(now, func(uint64) int { return 1 })
						}
					})
					net.Server(server)
					conn := net.Client(client)
					for n := range 20 {
						if n%10 == 5 {
							net.Dark(conn, 2*time.Second)
						}
						net.Advance(time.Second)
						require.NoError(t, conn.Err())
						require.Equal(t, "Normal", far.Stats().Severity)
					}
					require.Zero(t, far.Stats().Drops.Blocked)
				})
			})
		}
	}
}
