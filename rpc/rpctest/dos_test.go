package rpctest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// The class of the tests of Config.DoS: what a client can flood with.
var (
	bailey   = rpc.NewClass("Bailey")
	step     = rpc.Server[int](bailey, "Step", rpc.Reliable)     // honest play: the server's tick in which it was made
	poke     = rpc.Server[int](bailey, "Poke", rpc.Unreliable)   // tiny
	knock    = rpc.Server[int](bailey, "Knock", rpc.Reliable)    // tiny
	heap     = rpc.Server[rpc.Raw](bailey, "Heap", rpc.Reliable) // big
	toil     = rpc.Server[int](bailey, "Toil", rpc.Reliable)     // its handler takes a millisecond
	inquire  = rpc.Server[int](bailey, "Ask", rpc.Reliable)      // a request: the answer is a call back
	answered = rpc.Client[int](bailey, "Answer", rpc.Reliable)
	limited  = rpc.Server[int](bailey, "Limited", rpc.Reliable, rpc.RateLimit(5))
)

// guardhouse is a server with a profile, and clients that each own a bailey.
type guardhouse struct {
	t       *testing.T
	net     *rpctest.Network
	server  *rpc.World
	ticks   int
	waited  []int // ticks between the making of an honest step and its handler
	stepped int
	sleep   time.Duration // how long the next honest step's handler takes
	ran     map[string]int
	guests  []*intruder
	conns   map[string][]*rpc.Conn // of the server, by identity
}

// intruder is one client's world.
type intruder struct {
	world *rpc.World
	conn  *rpc.Conn
	mine  *rpc.Actor
	made  int // honest steps
}

func newGuardhouse(t *testing.T, net *rpctest.Network, profile *dos.Profile, config rpc.Config) *guardhouse {
	t.Helper()
	g := &guardhouse{t: t, net: net, ran: make(map[string]int), conns: make(map[string][]*rpc.Conn)}
	config.DoS = profile
	config.Authenticate = func(_ context.Context, token []byte) (string, error) { return string(token), nil }
	config.OnConnect = func(w *rpc.World, c *rpc.Conn) {
		g.conns[c.Identity()] = append(g.conns[c.Identity()], c)
		_, err := w.Spawn(bailey, c)
		require.NoError(t, err)
	}
	var err error
	g.server, err = rpc.NewWorld(config)
	require.NoError(t, err)
	b := rpc.Bind(g.server, bailey, func(a *rpc.Actor) *rpc.Actor { return a })
	count := func(what string) { g.ran[what]++ }
	rpc.On(b, step, func(_ *rpc.Actor, _ *rpc.Call, tick int) {
		g.waited = append(g.waited, g.ticks-tick)
		g.stepped++
		time.Sleep(g.sleep)
		g.sleep = 0
	})
	rpc.On(b, poke, func(*rpc.Actor, *rpc.Call, int) { count("poke") })
	rpc.On(b, knock, func(*rpc.Actor, *rpc.Call, int) { count("knock") })
	rpc.On(b, heap, func(*rpc.Actor, *rpc.Call, rpc.Raw) { count("heap") })
	rpc.On(b, toil, func(*rpc.Actor, *rpc.Call, int) { count("toil"); time.Sleep(time.Millisecond) })
	rpc.On(b, inquire, func(a *rpc.Actor, _ *rpc.Call, n int) { count("ask"); _ = answered.Call(a, n) })
	rpc.On(b, limited, func(*rpc.Actor, *rpc.Call, int) { count("limited") })
	net.OnTick(func(time.Time) { g.ticks++ })
	net.Server(g.server)
	return g
}

// join adds a client of an identity.
func (g *guardhouse) join(identity string) *intruder {
	g.t.Helper()
	w, err := rpc.NewWorld(rpc.Config{Token: []byte(identity)})
	require.NoError(g.t, err)
	i := &intruder{world: w}
	b := rpc.Bind(w, bailey, func(a *rpc.Actor) *rpc.Actor { i.mine = a; return a })
	rpc.On(b, answered, func(*rpc.Actor, *rpc.Call, int) {})
	i.conn = g.net.Client(w)
	require.True(g.t, g.net.Until(10*time.Second, func() bool { return i.mine != nil }))
	g.guests = append(g.guests, i)
	return i
}

// step makes honest calls.
func (g *guardhouse) step(i *intruder, n int) {
	for range n {
		require.NoError(g.t, step.Call(i.mine, g.ticks))
		i.made++
	}
}

// room reports whether half of the reliable buffer is free, as a flooder takes
// care of, so that it is not closed for that.
func (i *intruder) room() bool {
	out, slots := i.mine.Channel(i.conn).Reliable()
	return out < slots/2 && i.conn.Err() == nil
}

// flood calls as often as the reliable buffer allows.
func flood[A any](i *intruder, h *rpc.ServerRPC[A], arg A, most int) {
	for range most {
		if !i.room() || h.Call(i.mine, arg) != nil {
			return
		}
	}
}

// p99 returns how many ticks honest steps waited, and forgets them.
func (g *guardhouse) p99() int {
	require.NotEmpty(g.t, g.waited)
	slices.Sort(g.waited)
	p99 := g.waited[len(g.waited)*99/100]
	g.waited = nil
	return p99
}

// kicked returns why the server closed a client, nil when it did not.
func (i *intruder) kicked() *rpc.CloseError {
	var closed *rpc.CloseError
	if errors.As(i.conn.Err(), &closed) && closed.Code == rpc.RPCDoS {
		return closed
	}
	return nil
}

// play lets a time pass, and calls each before every tick.
func (g *guardhouse) play(d time.Duration, each func(tick int)) {
	for n, end := 0, g.net.Elapsed()+d; g.net.Elapsed() < end; n++ {
		each(n)
		g.net.Advance(time.Nanosecond)
	}
}

// TestFloodersAreGone: whatever a client floods, the others' p99 grows by a
// tick at most, and it is gone within 10 s.
func TestFloodersAreGone(t *testing.T) {
	for name, attack := range map[string]func(i *intruder){
		"Bailey.Knock":   func(i *intruder) { flood(i, knock, 1, 1000) },
		"Bailey.Poke":    func(i *intruder) { flood(i, poke, 1, 300) },
		"Bailey.Heap":    func(i *intruder) { flood(i, heap, make(rpc.Raw, 60_000), 1000) },
		"Bailey.Toil":    func(i *intruder) { flood(i, toil, 1, 50) },
		"Bailey.Ask":     func(i *intruder) { flood(i, inquire, 1, 200) },
		"Bailey.Limited": func(i *intruder) { flood(i, limited, 1, 50) }, // dropped calls cost as well
	} {
		t.Run(name, func(t *testing.T) {
			path := rpctest.Average
			path.PktLoss = 0 // or the p99 is that of resends
			rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
				g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
				honest := []*intruder{g.join("ann"), g.join("bob"), g.join("")}
				steps := func(int) {
					for _, h := range honest {
						g.step(h, 2)
					}
				}
				g.play(5*time.Second, steps)
				before := g.p99()
				hostile := g.join("eve")
				g.waited = nil
				began := net.Elapsed()
				g.play(10*time.Second, func(n int) {
					steps(n)
					if hostile.conn.Err() == nil {
						attack(hostile)
					}
				})
				during := g.p99()
				g.play(time.Second, steps)
				closed := hostile.kicked()
				require.NotNil(t, closed, "it is %q: %v", g.conns["eve"][0].Stats().Severity, hostile.conn.Err())
				t.Logf("p99 %d ticks before, %d beside; ran %v of %v; %s", before, during, g.ran, net.Elapsed()-began, closed.Reason)
				require.LessOrEqual(t, during, before+1)
				require.True(t, closed.Remote)
				require.Contains(t, closed.Reason, name)
				require.Contains(t, closed.Reason, "Config.DoS: ")
				require.Contains(t, closed.Reason, "States[")
				for _, h := range honest {
					require.NoError(t, h.conn.Err())
				}
				stats := g.conns["eve"][0].Stats()
				count := stats.Methods[slices.IndexFunc(stats.Methods, func(c dos.Count) bool { return c.Method == name })]
				require.Equal(t, stats.Drops.Blocked, blockedOf(stats.Methods))
				require.Positive(t, count.Bytes)
				require.Equal(t, "Kick", stats.Severity)
				for _, c := range append(g.conns["ann"], g.conns["bob"]...) {
					require.Contains(t, []string{"Normal", "Hitch"}, c.Stats().Severity)
					require.Zero(t, c.Stats().Drops.Blocked)
				}
				total := g.server.MethodStats()
				require.True(t, slices.ContainsFunc(total, func(c dos.Count) bool { return c.Method == "Bailey.Step" && c.Calls >= uint64(g.stepped) }))
			})
		})
	}
}

func blockedOf(counts []dos.Count) (blocked uint64) {
	for _, c := range counts {
		blocked += c.Blocked
	}
	return blocked
}

// TestHonestBurstsAreNotPunished: after hitches of 2 s nothing is blocked, and
// nobody is above Burst.
func TestHonestBurstsAreNotPunished(t *testing.T) {
	for name, hitch := range map[string]func(g *guardhouse, i *intruder){
		"network": func(g *guardhouse, i *intruder) { g.net.Dark(i.conn, 2*time.Second) },
		"server":  func(g *guardhouse, _ *intruder) { g.net.Pause(g.server, 2*time.Second) },
		"bursts":  func(g *guardhouse, i *intruder) { g.step(i, 50) },
		"client": func(g *guardhouse, i *intruder) { // which makes up for what it missed
			g.net.Pause(i.world, 2*time.Second)
			g.step(i, 120)
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, net *rpctest.Network) {
				g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
				i := g.join("ann")
				g.play(30*time.Second, func(n int) {
					g.step(i, 2)
					if n%150 == 100 {
						hitch(g, i)
					}
					require.Contains(t, []string{"Normal", "Hitch", "Burst"}, g.conns["ann"][0].Stats().Severity)
				})
				net.Advance(10 * time.Second)
				require.NoError(t, i.conn.Err())
				require.Equal(t, i.made, g.stepped, "all ran")
				require.Zero(t, g.conns["ann"][0].Stats().Drops.Blocked)
			})
		})
	}
}

// TestJoinersAreTolerated: the handlers of a client's first seconds may take
// their time, and those after them may not.
func TestJoinersAreTolerated(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		i := g.join("ann")
		g.play(4*time.Second, func(int) { flood(i, toil, 1, 4) })
		require.Equal(t, "Normal", g.conns["ann"][0].Stats().Severity)
		g.play(4*time.Second, func(int) { flood(i, toil, 1, 4) })
		require.NotEqual(t, "Normal", g.conns["ann"][0].Stats().Severity)
		require.NoError(t, i.conn.Err())
	})
}

// TestManyConnectionsOfOneIdentity: they have one quota together, and are closed together.
func TestManyConnectionsOfOneIdentity(t *testing.T) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		honest := g.join("ann")
		var hostile []*intruder
		for range 8 {
			hostile = append(hostile, g.join("eve"))
		}
		idle := hostile[7] // which calls nothing
		g.play(10*time.Second, func(int) {
			g.step(honest, 2)
			for _, i := range hostile[:7] {
				if i.conn.Err() == nil {
					flood(i, poke, 1, 3) // 90 a second each
				}
			}
		})
		for _, i := range hostile[:7] {
			require.NotNil(t, i.kicked())
		}
		require.NotNil(t, idle.kicked())
		require.NoError(t, honest.conn.Err())
	})
}

// TestReconnectingResetsNothing: a client that reconnects after a kick, or
// before one, is in the state in which it left.
func TestReconnectingResetsNothing(t *testing.T) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		kicks, visits := 0, 0
		for net.Elapsed() < 60*time.Second {
			i := g.join("eve")
			visits++
			for n := 0; n < 60 && i.conn.Err() == nil; n++ { // 2 s each
				flood(i, poke, 1, 20)
				net.Advance(time.Second / 30)
			}
			if i.kicked() != nil {
				kicks++
			}
			i.conn.Close(0, "bye")
			net.Advance(100 * time.Millisecond)
		}
		t.Logf("%d kicks in %d visits; %d pokes ran", kicks, visits, g.ran["poke"])
		require.Greater(t, kicks, visits/4)
		require.Less(t, g.ran["poke"], 60*200, "of 600 a second")
	})
}

// TestFloodsBelowTheQuotas measures the cost of a client that stays just below
// each of them, which is what dos.Default promises.
func TestFloodsBelowTheQuotas(t *testing.T) {
	for name, row := range map[string]struct {
		attack func(i *intruder, n int)
		most   dos.Load // a second
	}{
		"calls": {func(i *intruder, n int) { flood(i, knock, 1, 6) }, dos.Load{Calls: 200, Bytes: 256 << 10, Time: 30 * time.Millisecond}},
		"bytes": {func(i *intruder, n int) { flood(i, heap, make(rpc.Raw, 8_000), 1) }, dos.Load{Calls: 200, Bytes: 256 << 10, Time: 30 * time.Millisecond}},
		"time":  {func(i *intruder, n int) { flood(i, toil, 1, 1-n%10/9) }, dos.Load{Calls: 200, Bytes: 256 << 10, Time: 30 * time.Millisecond}},
		"alternating methods": {func(i *intruder, n int) {
			flood(i, knock, 1, 2)
			flood(i, poke, 1, 2)
			flood(i, inquire, 1, 2)
		}, dos.Load{Calls: 200, Bytes: 256 << 10, Time: 30 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
				const seconds = 60
				g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
				i := g.join("eve")
				g.play(seconds*time.Second, func(n int) { row.attack(i, n) })
				require.NoError(t, i.conn.Err(), "it stays below")
				var used dos.Load
				for _, c := range g.conns["eve"][0].Stats().Methods {
					used.Calls += int(c.Calls) / seconds
					used.Bytes += int(c.Bytes) / seconds
					used.Time += c.Time / seconds
				}
				t.Logf("%+v a second, %s", used, g.conns["eve"][0].Stats().Severity)
				require.LessOrEqual(t, used.Calls, row.most.Calls)
				require.LessOrEqual(t, used.Bytes, row.most.Bytes)
				require.LessOrEqual(t, used.Time, row.most.Time)
				require.Zero(t, g.conns["eve"][0].Stats().Drops.Blocked)
			})
		})
	}
}

// TestAlternatingMethodsAreOneFlood: quotas are over all methods.
func TestAlternatingMethodsAreOneFlood(t *testing.T) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		g := newGuardhouse(t, net, dos.Default(), rpc.Config{})
		i := g.join("eve")
		g.play(10*time.Second, func(int) {
			if i.conn.Err() == nil {
				flood(i, knock, 1, 6)
				flood(i, poke, 1, 6)
				flood(i, inquire, 1, 6)
				flood(i, limited, 1, 6)
			}
		})
		require.NotNil(t, i.kicked())
	})
}

// TestBlockedCallsAreTold: the connection continues, other methods run, and the log names both.
func TestBlockedCallsAreTold(t *testing.T) {
	profile := &dos.Profile{States: []dos.State{
		{Name: "Normal"},
		{Name: "Strict", Frame: dos.Load{Calls: 10}, Repeat: dos.Load{Calls: 2}, RepeatWindow: time.Second, Cooloff: 2 * time.Second, Log: true},
	}}
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		log := new(strings.Builder)
		g := newGuardhouse(t, net, profile, rpc.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		i := g.join("eve")
		flood(i, knock, 1, 30)
		net.Advance(time.Second / 10)
		require.Equal(t, 11, g.ran["knock"], "nine before the tenth made it strict, and two of that state")
		g.step(i, 1)
		net.Advance(time.Second / 10)
		require.Equal(t, 1, g.stepped)
		stats := g.conns["eve"][0].Stats()
		require.EqualValues(t, 19, stats.Drops.Blocked)
		require.Equal(t, "Strict", stats.Severity)
		require.Contains(t, log.String(), "rpc=Bailey.Knock")
		require.Contains(t, log.String(), "from=Normal to=Strict")
		require.NoError(t, i.conn.Err())
		require.Contains(t, fmt.Sprint(stats.Methods), "Bailey.Knock 30 19")
		net.Advance(4 * time.Second)
		flood(i, knock, 1, 3)
		net.Advance(time.Second / 10)
		require.Equal(t, 14, g.ran["knock"])
		require.Equal(t, "Normal", g.conns["eve"][0].Stats().Severity)
	})
}

// TestWithoutAProfileNothingIsCounted: off is the default.
func TestWithoutAProfileNothingIsCounted(t *testing.T) {
	rpctest.Run(t, emulation.Settings{}, func(t *testing.T, net *rpctest.Network) {
		g := newGuardhouse(t, net, nil, rpc.Config{})
		i := g.join("eve")
		g.play(5*time.Second, func(int) { flood(i, knock, 1, 100) })
		net.Advance(5 * time.Second)
		require.NoError(t, i.conn.Err())
		require.Empty(t, g.conns["eve"][0].Stats().Methods)
		require.Empty(t, g.conns["eve"][0].Stats().Severity)
		require.Empty(t, g.server.MethodStats())
	})
}

// TestTransfersAreNoFlood: the transfers of package stream have limits of their own.
func TestTransfersAreNoFlood(t *testing.T) {
	const size = 8 << 20
	rpctest.Run(t, emulation.Settings{PktLag: 10 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		topic := stream.NewBlob("world")
		server, err := rpc.NewWorld(rpc.Config{DoS: dos.Default()})
		require.NoError(t, err)
		receiver, err := stream.Install(server, stream.Config{})
		require.NoError(t, err)
		topic.Handle(receiver, func(in *stream.IncomingBlob) {
			go func() { _, _ = io.Copy(io.Discard, in) }()
		})
		net.Server(server)
		w, sender := streaming(t)
		conn := net.Client(w)
		began := net.Elapsed()
		transfer, err := topic.Start(sender.Peer(conn), strings.NewReader(strings.Repeat("x", size)), size)
		require.NoError(t, err)
		done := false
		require.True(t, net.Until(time.Minute, func() bool {
			select {
			case <-transfer.Done():
				done = true
			default:
			}
			return done
		}))
		require.NoError(t, transfer.Err())
		t.Logf("%d bytes in %v", size, net.Elapsed()-began)
		stats := server.Conns()[0].Stats()
		require.Equal(t, "Normal", stats.Severity)
		require.Zero(t, stats.Drops.Blocked)
	})
}

// TestProfilesAreChecked: NewWorld says what makes no sense.
func TestProfilesAreChecked(t *testing.T) {
	profile := dos.Default()
	profile.States[3].Window = 90 * time.Second
	_, err := rpc.NewWorld(rpc.Config{DoS: profile})
	require.EqualError(t, err, `rpc: Config.DoS: dos: Profile.States[3] "PersistentBurst": Window is 1m30s; it must be 1 to 16 whole seconds`)
}
