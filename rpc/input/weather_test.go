package input_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

const ms = time.Millisecond

// few is how many ticks of a thousand may miss their input once the margin has
// settled: of the inputs of six seconds, which are remembered at least, one may
// be the slowest. Half as many again are for weather that comes in spells.
func (k kind) few() float64 { return lenient * 1.5 * 1000 / float64(6*k.rate) }

func (k kind) ticks(n int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(k.rate)
}

func (f figures) log(t *testing.T, k kind, what string) {
	t.Logf("%d Hz, %s: settled after %.2f s, then %.1f of a thousand missed, margin %v, latency %v",
		k.rate, what, f.settled.Seconds(), f.missed, f.margin.Round(ms), f.latency.Round(ms))
}

// TestMargin plays for two minutes on each path, at 30 and 60 Hz. The margin consists of
// the variation of the way, a tick for late frames and for the wait of the server's tick,
// and a tick for each copy in a row that is lost: at 20 % seven are lost once in 80,000.
// If many are lost, one that is very late is not alone. At 20 % QUIC's window is down to
// two packets, and if both are lost nothing is sent before a probe arrives: about once in
// an hour eight ticks in a row at 30 Hz have no input, whatever the margin.
func TestMargin(t *testing.T) {
	for _, test := range []struct {
		name    string
		weather emulation.Settings
		varies  time.Duration
		copies  int
	}{
		{"calm", lag(40 * ms), 0, 0},
		{"Average", rpctest.Average, 30 * ms, 1},
		{"Bad", rpctest.Bad, 100 * ms, 1},
		{"PktJitter", emulation.Settings{PktJitter: 30 * ms}, 30 * ms, 0},
		{"1 % lost", emulation.Settings{PktLag: 20 * ms, PktLoss: 1}, 0, 2},
		{"5 % lost", emulation.Settings{PktLag: 20 * ms, PktLoss: 5}, 0, 3},
		{"20 % lost", emulation.Settings{PktLag: 20 * ms, PktLoss: 20}, 0, 7},
	} {
		for _, k := range []kind{walkers30, walkers60} {
			t.Run(test.name, func(t *testing.T) {
				rpctest.Run(t, test.weather, func(t *testing.T, net *rpctest.Network) {
					g := newGame(t, net, k)
					c := g.join(1)
					f := g.play(c, stretch)
					f.log(t, k, test.name)
					if test.weather.PktLoss < 20 {
						require.Less(t, f.settled, 4*time.Second)
					}
					require.LessOrEqual(t, f.missed, k.few()*(1+test.weather.PktLoss/40))
					require.LessOrEqual(t, f.margin, test.varies+k.ticks(2+test.copies))
					require.LessOrEqual(t, f.latency, test.weather.PktLag*2+test.weather.PktLagMax*2+test.varies+k.ticks(4+test.copies))
					require.LessOrEqual(t, c.self.steps.Stats().Begun, uint64(3), "answers to the first questions")
					require.Zero(t, g.at(c).queue.Stats().Outside)
				})
			})
		}
	}
}

// TestClumps: packets that arrive in clumps, every 20 ms.
func TestClumps(t *testing.T) {
	for _, k := range []kind{walkers30, walkers60} {
		rpctest.Run(t, emulation.Settings{PktLag: 20 * ms}, func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, k)
			c := g.join(1)
			late := 0
			net.OnTick(func(now time.Time) { // the next packets are up to 20 ms later than those before, in turn
				late = (late + 7) % 20
				net.Emulate(emulation.Settings{PktLag: 20*ms + time.Duration(20-late)*ms})
			})
			f := g.play(c, stretch)
			f.log(t, k, "clumps of 20 ms")
			require.Less(t, f.settled, 2*time.Second)
			require.LessOrEqual(t, f.missed, k.few())
			require.LessOrEqual(t, f.margin, 20*ms+k.ticks(2))
		})
	}
}

// TestStep: the round trip rises from 40 to 200 ms, and falls again. The rise is made up
// for within a second: a round trip until the client learns of it, and as long again as
// inputs were too late. The fall is accepted after 12 s at most, and then takes 80 ms × 16.
func TestStep(t *testing.T) {
	for _, k := range []kind{walkers30, walkers60} {
		rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, k)
			c := g.join(1)
			g.play(c, 20*time.Second)
			net.Emulate(lag(200 * ms))
			up := g.play(c, 20*time.Second)
			up.log(t, k, "40 to 200 ms")
			require.Less(t, up.settled, time.Second)
			require.Zero(t, up.missed)
			require.LessOrEqual(t, up.margin, k.ticks(2))
			net.Emulate(lag(40 * ms))
			down := g.play(c, 14*time.Second)
			down.log(t, k, "200 to 40 ms")
			require.Zero(t, down.settled)
			require.LessOrEqual(t, down.missed, k.few())
			down = g.play(c, time.Second)
			require.LessOrEqual(t, down.margin, k.ticks(2))
			require.LessOrEqual(t, down.latency, 40*ms+k.ticks(3))
		})
	}
}

// TestTwoClients: each has a path and a margin of its own.
func TestTwoClients(t *testing.T) {
	rpctest.Run(t, lag(20*ms), func(t *testing.T, net *rpctest.Network) {
		g := newGame(t, net, walkers60)
		near, far := g.join(1), g.join(1)
		net.EmulateOne(far.conn, rpctest.Bad)
		net.Advance(5 * time.Second)
		from := len(g.at(near).ticks)
		net.Advance(time.Minute)
		for _, c := range []*client{near, far} {
			f := g.figures(c, min(from, len(g.at(c).ticks)-50*60))
			f.log(t, walkers60, "of two")
			require.LessOrEqual(t, f.missed, walkers60.few())
		}
		require.Less(t, near.self.steps.Stats().Latency, 60*ms)
		require.Greater(t, far.self.steps.Stats().Latency, 200*ms)
	})
}

// TestFrames: a client that draws 20 or 30 frames a second makes the inputs of
// 60 ticks, several a frame.
func TestFrames(t *testing.T) {
	for _, frames := range []int{2, 3} {
		rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, walkers60)
			c := g.join(frames)
			f := g.play(c, time.Minute)
			f.log(t, walkers60, "slow frames")
			require.LessOrEqual(t, f.missed, float64(frames)*walkers60.few(), "the inputs of a frame share their fate")
			require.LessOrEqual(t, f.margin, 30*ms+walkers60.ticks(3+2*frames), "a frame waits, and one is lost")
			require.Zero(t, c.self.steps.Stats().Skipped)
		})
	}
}

// TestFrameThatTakesLong: the ticks of 300 ms are made up for. Of two seconds
// all but the last ones are skipped.
func TestFrameThatTakesLong(t *testing.T) {
	rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
		g := newGame(t, net, walkers60)
		c := g.join(1)
		g.play(c, 10*time.Second)
		c.frames, c.count = 18, 0 // 300 ms
		g.net.Advance(300 * ms)
		c.frames = 1
		g.net.Advance(5 * time.Second)
		require.Zero(t, c.self.steps.Stats().Skipped)
		c.frames, c.count = 120, 0
		g.net.Advance(2 * time.Second)
		c.frames = 1
		g.net.Advance(time.Second)
		require.InDelta(t, 120-30, float64(c.self.steps.Stats().Skipped), 3)
		f := g.play(c, 30*time.Second)
		f.log(t, walkers60, "after it stood still")
		require.LessOrEqual(t, f.missed, walkers60.few())
	})
}

// TestLongTicks: the server simulates nothing for 150 ms, every second, and
// then all that is due at once.
func TestLongTicks(t *testing.T) {
	for _, k := range []kind{walkers30, walkers60} {
		rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, k)
			g.halted = func(now time.Time) bool { return now.Sub(g.began)%time.Second < 150*ms }
			c := g.join(1)
			f := g.play(c, time.Minute)
			f.log(t, k, "long ticks")
			require.LessOrEqual(t, f.missed, 2*k.few(), "one answer for all ticks that are taken at once tells less of them")
			require.LessOrEqual(t, f.latency, 400*ms)
		})
	}
}

// TestServerStandsStill: a world is not driven for two seconds, and then catches up, or does not,
// or restarts its ticks. Inputs more than a second ahead of its last tick are dropped in that time.
func TestServerStandsStill(t *testing.T) {
	for name, after := range map[string]func(g *game){
		"it catches up":   func(*game) {},
		"it does not":     func(g *game) { g.began = g.began.Add(2 * time.Second) },
		"it begins anew":  func(g *game) { g.began, g.tick = time.Now(), 0 },
		"it leaps":        func(g *game) { g.began, g.tick = g.began.Add(-time.Hour), g.tick+3600*60 },
		"it goes back 3s": func(g *game) { g.began = g.began.Add(5 * time.Second); g.tick -= 180 },
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
				g := newGame(t, net, walkers60)
				c := g.join(1)
				g.play(c, 10*time.Second)
				g.standStill(2 * time.Second)
				after(g)
				f := g.play(c, 3*time.Second)
				require.Less(t, f.settled, 2500*ms)
				f = g.play(c, 30*time.Second)
				f.log(t, walkers60, name)
				require.Zero(t, f.settled)
				require.LessOrEqual(t, f.missed, walkers60.few())
				require.Less(t, f.latency, 40*ms+walkers60.ticks(5))
			})
		})
	}
}

// TestInputsOfAStandstill: a server that counts its ticks applies the inputs that arrived while
// it stood still afterwards, because the first copy of an input counts. So the client keeps
// these inputs, and neither predicts their ticks again nor learns the server's tick again.
func TestInputsOfAStandstill(t *testing.T) {
	for _, k := range []kind{walkers30, walkers60} {
		rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, k)
			c := g.join(1)
			g.play(c, 10*time.Second)
			g.standStill(2 * time.Second)
			g.began = g.began.Add(2 * time.Second)
			net.Advance(200 * ms) // the client hears of it
			differ := 0
			for range 3 * k.rate {
				net.Advance(k.ticks(1))
				for tick, s := range c.self.steps.After(g.tick - 1) {
					if served := g.at(c).last; tick == served.Tick && s != served {
						differ++
					}
				}
			}
			require.Zero(t, differ, "ticks that the client has predicted by another input than the server")
			require.LessOrEqual(t, c.self.steps.Stats().Begun, uint64(2))
			require.Less(t, c.self.steps.Stats().Margin, 60*ms)
		})
	}
}

// TestServerCatchesUpByAndBy: a server that stood still for two seconds takes more than one
// tick a frame until it has caught up. Its first answers are of old ticks. The client continues
// as before; otherwise it would go back, and jump again once the server has caught up.
func TestServerCatchesUpByAndBy(t *testing.T) {
	for _, most := range []uint64{0, 10, 5, 4} {
		rpctest.Run(t, lag(2*ms), func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, walkers60)
			c := g.join(1)
			g.play(c, 10*time.Second)
			g.standStill(2 * time.Second)
			g.most = most
			net.Advance(time.Second)
			skipped := c.self.steps.Stats().Skipped
			f := g.play(c, 10*time.Second)
			f.log(t, walkers60, "caught up")
			require.EqualValues(t, 1, c.self.steps.Stats().Begun, "%d ticks a frame", most)
			require.Zero(t, skipped)
			require.LessOrEqual(t, f.missed, walkers60.few())
		})
	}
}

// TestServerRunsAhead: if a server's ticks are a little earlier than the client assumed, as
// on a busy machine, the client predicts more, and keeps what it has learned about the path.
func TestServerRunsAhead(t *testing.T) {
	for _, ticks := range []int{1, 2, 3, 6, 20} {
		rpctest.Run(t, lag(2*ms), func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, walkers60)
			c := g.join(1)
			g.play(c, 10*time.Second)
			g.began = g.began.Add(-walkers60.ticks(ticks))
			from := len(g.at(c).ticks)
			net.Advance(time.Second)
			t.Log(ticks, "ticks ahead:", missed(g.at(c).ticks[from:]), "missed, begun", c.self.steps.Stats().Begun)
			require.LessOrEqual(t, missed(g.at(c).ticks[from:]), ticks+min(ticks, 3)+3)
			if ticks <= 3 {
				require.EqualValues(t, 1, c.self.steps.Stats().Begun)
			}
			f := g.play(c, 10*time.Second)
			require.LessOrEqual(t, f.missed, walkers60.few())
		})
	}
}

// TestServerGoesBack: a server whose ticks go back by less than a second, as
// those of a clock that is set may, still has their inputs.
func TestServerGoesBack(t *testing.T) {
	for _, ticks := range []uint64{1, 6, 30} {
		rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
			g := newGame(t, net, walkers60)
			c := g.join(1)
			g.play(c, 10*time.Second)
			g.tick, g.began = g.tick-ticks, g.began.Add(walkers60.ticks(int(ticks)))
			from := len(g.at(c).ticks)
			net.Advance(2 * time.Second)
			require.LessOrEqual(t, missed(g.at(c).ticks[from:]), 1, "%d ticks back", ticks)
			f := g.play(c, 30*time.Second)
			require.Zero(t, f.settled)
			require.LessOrEqual(t, f.missed, walkers60.few())
			require.Less(t, f.latency, 40*ms+walkers60.ticks(5))
		})
	}
}

// TestOutage: all packets vanish for two seconds; afterwards the margin is what it was.
func TestOutage(t *testing.T) {
	rpctest.Run(t, lag(40*ms), func(t *testing.T, net *rpctest.Network) {
		g := newGame(t, net, walkers60)
		c := g.join(1)
		g.play(c, 10*time.Second)
		net.Dark(c.conn, 2*time.Second)
		f := g.play(c, 20*time.Second)
		f.log(t, walkers60, "an outage of 2 s")
		require.Less(t, f.settled, 2500*ms)
		require.LessOrEqual(t, f.missed, walkers60.few())
		require.LessOrEqual(t, f.margin, walkers60.ticks(6))
	})
}
