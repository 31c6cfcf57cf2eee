package rpctest_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// unpunished demands that a client of a server with dos.Default is where the honest are.
func unpunished(t *testing.T, conn, far *rpc.Conn, most ...string) {
	t.Helper()
	require.NoError(t, conn.Err())
	require.Contains(t, append(most, "Normal"), far.Stats().Severity)
	require.Zero(t, far.Stats().Drops.Blocked)
}

// litter spawns actors that all clients have.
func (g *guardhouse) litter(n int) (all []*rpc.Actor) {
	for range n {
		a, err := g.server.Spawn(bailey, nil, rpc.AlwaysRelevant())
		require.NoError(g.t, err)
		if all = append(all, a); len(all)%100 == 0 {
			g.net.Advance(time.Second / 10)
		}
	}
	return all
}

// TestOneGunnerPunishesNobody: one client fires 60 times a second, and each shot is three
// projectiles that exist for half a second: the other clients answer 180 closes a second.
func TestOneGunnerPunishesNobody(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		t.Logf("seed %d", net.Seed())
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		honest, gunner := g.join("ann"), g.join("eve")
		mine, gun := honest.mine, gunner.mine
		var flying [][]*rpc.Actor // by tick
		fired := 0
		g.play(15*time.Second, func(int) {
			honest.mine = mine
			g.step(honest, 2)
			_, _ = knock.Call(gun, 1), knock.Call(gun, 1)
			flying = append(flying, g.litter(3*(g.ran["knock"]-fired)))
			fired = g.ran["knock"]
			if len(flying) > 15 {
				for _, a := range flying[0] {
					require.NoError(t, g.server.Destroy(a))
				}
				flying = flying[1:]
			}
			unpunished(t, honest.conn, g.conns["ann"][0])
			unpunished(t, gunner.conn, g.conns["eve"][0])
		})
		require.Greater(t, fired, 800)
		answers := g.conns["ann"][0].Stats().Methods
		i := slices.IndexFunc(answers, func(c dos.Count) bool { return c.Method == "(answer)" })
		require.GreaterOrEqual(t, i, 0)
		require.Greater(t, answers[i].Calls, uint64(2000), "they are told")
	})
}

// TestClosesOfTheServerPunishNobody: at the end of a level, and with frequent
// dormancy, a client answers each close.
func TestClosesOfTheServerPunishNobody(t *testing.T) {
	for name, shut := range map[string]func(g *guardhouse, all []*rpc.Actor){
		"level": func(g *guardhouse, all []*rpc.Actor) {
			for _, a := range all {
				require.NoError(g.t, g.server.Destroy(a))
			}
		},
		"relevancy": func(g *guardhouse, all []*rpc.Actor) {
			for _, a := range all {
				a.CloseTo(g.conns["ann"][0])
			}
		},
		"dormancy": func(g *guardhouse, all []*rpc.Actor) {
			for range 3 {
				for _, asleep := range []bool{true, false} {
					for _, a := range all {
						require.NoError(g.t, a.SetDormant(asleep))
					}
					g.net.Advance(2 * time.Second)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
				g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
				i := g.join("ann")
				mine := i.mine
				all := g.litter(2200)
				net.Advance(5 * time.Second)
				i.mine = mine
				shut(g, all)
				g.play(10*time.Second, func(int) {
					g.step(i, 1)
					unpunished(t, i.conn, g.conns["ann"][0])
				})
			})
		})
	}
}

// TestMessagesOfTheServerPunishNobody: a client calls 140 times a second, and
// also reports to the server that its messages have run.
func TestMessagesOfTheServerPunishNobody(t *testing.T) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		net.SetTickRate(60)
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		i := g.join("ann")
		sent := 0
		g.play(15*time.Second, func(n int) {
			g.step(i, 2+n%3/2)
			for range 3 {
				if g.conns["ann"][0].SendMessage(1, []byte("hello")) == nil {
					sent++
				}
			}
			unpunished(t, i.conn, g.conns["ann"][0])
		})
		require.Greater(t, sent, 100)
	})
}

// The class of questions under Config.DoS.
var (
	office = rpc.NewClass("Office")
	survey = rpc.ClientRequest[int, int](office, "Survey")
)

// TestQuestionsOfTheServerPunishNobody: a server that asks 240 questions a
// second causes the answers.
func TestQuestionsOfTheServerPunishNobody(t *testing.T) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		var far *rpc.Conn
		var here *rpc.Actor
		server, err := rpc.NewWorld(rpc.Config{DoS: dos.Default(), OnConnect: func(w *rpc.World, c *rpc.Conn) {
			far = c
			_, err := w.Spawn(office, c)
			require.NoError(t, err)
		}})
		require.NoError(t, err)
		client, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		rpc.Bind(server, office, func(a *rpc.Actor) *rpc.Actor { here = a; return a })
		b := rpc.Bind(client, office, func(a *rpc.Actor) *rpc.Actor { return a })
		rpc.OnRequest(b, survey, func(_ *rpc.Actor, _ *rpc.Call, n int) (int, error) { return n, nil })
		net.Server(server)
		conn := net.Client(client)
		net.Advance(time.Second)
		answered := 0
		for range 10 * 30 {
			for range 8 {
				require.NoError(t, survey.Then(here, 1, func(_ int, err error) {
					require.NoError(t, err)
					answered++
				}))
			}
			net.Advance(time.Nanosecond)
			unpunished(t, conn, far)
		}
		net.Advance(time.Second)
		require.Equal(t, 2400, answered)
	})
}

// TestTransfersOfTheServerPunishNobody: a server that sends 290 small blobs a
// second causes the 580 messages by which the client receives them. One that
// receives 160 blobs a second from a client accepts them in 160 messages, which
// the client answers with as many ends. Before, both clients were kicked.
func TestTransfersOfTheServerPunishNobody(t *testing.T) {
	const atOnce = 16
	topic := stream.NewBlob("crumbs")
	for name, row := range map[string]struct{ rate, least int }{"down": {60, 4500}, "up": {30, 2500}} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
				net.SetTickRate(row.rate)
				take := func(w *rpc.World) *stream.Streams {
					streams, err := stream.Install(w, stream.Config{MaxTransfers: atOnce})
					require.NoError(t, err)
					topic.Handle(streams, func(in *stream.IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
					return streams
				}
				server, err := rpc.NewWorld(rpc.Config{DoS: dos.Default()})
				require.NoError(t, err)
				client, err := rpc.NewWorld(rpc.Config{})
				require.NoError(t, err)
				near, at := take(server), take(client)
				net.Server(server)
				conn := net.Client(client)
				far := server.Conns()[0]
				from := near.Peer(far)
				if name == "up" {
					from = at.Peer(conn)
				}
				for tick := range 18 * row.rate {
					for s := from.Stats(); s.Sending+s.Waiting < 2*atOnce; s.Waiting++ {
						_, err := topic.Start(from, strings.NewReader("a crumb"), 7)
						require.NoError(t, err)
					}
					net.Advance(time.Nanosecond)
					if tick%row.rate == 0 {
						unpunished(t, conn, far)
					}
				}
				require.Greater(t, int(from.Stats().Sent), row.least)
			})
		})
	}
}

// TestOneSlowHandlerPunishesNobody: a disk or a busy machine makes one handler of a client slow.
// The client, which calls 60 times a second over a path with jitter, continues as before, and
// none of its calls is blocked. The path loses nothing, because some calls that losses hold back
// for longer than 1.4 s may be blocked then: see TestOutageAfterASlowHandler of package dos.
func TestOneSlowHandlerPunishesNobody(t *testing.T) {
	for _, slow := range []time.Duration{130, 210, 410, 700} {
		slow *= time.Millisecond
		t.Run(slow.String(), func(t *testing.T) {
			path := rpctest.Bad
			path.PktLoss = 0
			rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
				g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
				i := g.join("ann")
				g.play(30*time.Second, func(n int) {
					g.step(i, 2)
					if n == 200 {
						g.sleep = slow
					}
					unpunished(t, i.conn, g.conns["ann"][0], "Hitch", "Burst", "PersistentBurst", "DoS", "ExpensiveDoS")
				})
				require.Zero(t, g.sleep, "it was slow")
				net.Advance(10 * time.Second)
				require.NoError(t, i.conn.Err())
				require.Equal(t, i.made, g.stepped, "all ran")
			})
		})
	}
}
