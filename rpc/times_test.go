package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/testkit"
)

// timed drives a server by a game clock of its own, beside a client at another
// tick rate, and simulates for a while between Dispatch and Flush.
type timed struct {
	*network
	began  time.Time
	game   func(since time.Duration) time.Time // the server's clock
	paused time.Time                           // until when the server's world is not driven
	late   func() time.Duration                // by how much a tick is late; nil = not at all
	next   [2]time.Time                        // of the server and the client
}

func inTime(t *testing.T, game func(since time.Duration) time.Time, fn func(n *timed)) {
	inNet(t, 1, Config{}, func(n *network) {
		now := time.Now()
		fn(&timed{network: n, began: now, game: game, next: [2]time.Time{now, now}})
	})
}

// simulation is how long a tick of the server takes.
const simulation = 9 * time.Millisecond

// run drives both for d: the server at 30 Hz, the client at 47.
func (n *timed) run(d time.Duration, look func(now time.Time)) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		side := 0
		if n.next[1].Before(n.next[0]) {
			side = 1
		}
		time.Sleep(time.Until(n.next[side]))
		now := time.Now()
		if n.late != nil {
			now = n.next[side] // as a time.Ticker says
			time.Sleep(n.late())
		}
		if side == 1 {
			n.clients[0].Dispatch(now)
			look(now)
			n.clients[0].Flush(now)
			n.next[1] = n.next[1].Add(time.Second / 47)
			continue
		}
		n.next[0] = n.next[0].Add(time.Second / 30)
		if now.Before(n.paused) {
			continue
		}
		game := n.game(now.Sub(n.began))
		n.server.Dispatch(game)
		time.Sleep(simulation)
		n.server.Flush(game)
	}
}

// off returns how far ServerTime is from the truth, having held that this is
// within its bound and that time does not run back.
func (n *timed) off(before *time.Time) func(now time.Time) {
	return func(now time.Time) {
		told, bound, ok := n.ends[0].ServerTime(now)
		if !ok {
			return
		}
		truth := n.game(now.Sub(n.began))
		require.LessOrEqual(n.t, told.Sub(truth).Abs(), bound)
		require.False(n.t, told.Before(*before), "it runs back")
		require.Less(n.t, bound, 2*time.Second)
		*before = told
	}
}

func (n *timed) require(within time.Duration) {
	n.t.Helper()
	now := time.Now()
	told, bound, ok := n.ends[0].ServerTime(now)
	require.True(n.t, ok)
	n.t.Logf("%v off, %v by its bound", told.Sub(n.game(now.Sub(n.began))), bound)
	require.LessOrEqual(n.t, told.Sub(n.game(now.Sub(n.began))).Abs(), within)
	require.Less(n.t, bound, 2*testDelay+within)
}

func shifted(by time.Duration, rate float64) func(since time.Duration) time.Time {
	base := time.Now().Add(by)
	return func(since time.Duration) time.Time { return base.Add(time.Duration(float64(since) * rate)) }
}

// TestServerTime: a second after the first call a client knows the server's
// time to some milliseconds, although ticks are longer than the round trip. It
// follows a slow drift, and a world that stands still for two seconds.
func TestServerTime(t *testing.T) {
	for name, game := range map[string]func(since time.Duration) time.Time{
		"the same": shifted(0, 1), "long ago": shifted(-50*365*24*time.Hour, 1), "ahead": shifted(90*365*24*time.Hour/2, 1), "drift": shifted(time.Hour, 1.0002),
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, game, func(n *timed) {
				a := n.spawn(0)
				_, _, ok := n.ends[0].ServerTime(time.Now())
				require.False(t, ok)
				var before time.Time
				n.run(1500*time.Millisecond, n.off(&before))
				n.require(3 * time.Millisecond)
				chat := func(now time.Time) { _ = wave.Call(a, Raw("12345678")); n.off(&before)(now) }
				n.run(30*time.Second, chat)
				n.require(3 * time.Millisecond)
				n.paused = time.Now().Add(2 * time.Second)
				n.run(20*time.Second, chat)
				n.require(3 * time.Millisecond)
				require.Zero(t, n.ends[0].Stats().ServerTime.Steps)
			})
		})
	}
}

// TestServerTimeOfLateTicks: one tick in 20 takes long, so that the next ones run late. Each is
// given the time at which it was due.
func TestServerTimeOfLateTicks(t *testing.T) {
	inTime(t, shifted(time.Hour, 1), func(n *timed) {
		a := n.spawn(0)
		random := testkit.Rand(t)
		var before time.Time
		n.run(time.Second, n.off(&before))
		n.late = func() time.Duration {
			if random.IntN(20) > 0 {
				return 0
			}
			return time.Duration(random.Int64N(int64(90 * time.Millisecond)))
		}
		n.run(time.Minute, func(now time.Time) { _ = wave.Call(a, Raw("12345678")); n.off(&before)(now) })
		require.Zero(t, n.ends[0].Stats().ServerTime.Steps)
	})
}

// TestServerTimeIsSet: the server's game clock is set by an hour, and stops for
// two seconds. Both are accepted within two seconds.
func TestServerTimeIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, -2 * time.Second} {
		game := shifted(0, 1)
		inTime(t, func(since time.Duration) time.Time {
			if since > 10*time.Second {
				since += step
			}
			return game(since)
		}, func(n *timed) {
			a := n.spawn(0)
			talk := func(now time.Time) { _ = wave.Call(a, Raw("12345678")); n.ends[0].ServerTime(now) }
			n.run(10*time.Second, talk)
			n.run(2*time.Second, talk)
			n.require(3 * time.Millisecond)
			require.EqualValues(t, 1, n.ends[0].Stats().ServerTime.Steps)
		})
	}
}

// TestTimesAreSilent: a client that never calls ServerTime sends nothing for it,
// and one that does sends no more than ten questions while nothing else is sent.
func TestTimesAreSilent(t *testing.T) {
	inTime(t, shifted(0, 1), func(n *timed) {
		quiet := func(time.Time) {}
		n.run(5*time.Second, quiet)
		before := n.ends[0].Stats()
		n.run(time.Minute, quiet)
		require.Equal(t, before.BunchesOut, n.ends[0].Stats().BunchesOut, "keep-alives hold none")
		ask := func(now time.Time) { n.ends[0].ServerTime(now) }
		n.run(3*time.Second, ask)
		before = n.ends[0].Stats()
		require.LessOrEqual(t, before.BunchesOut, uint64(15))
		n.run(10*time.Minute, ask)
		require.Equal(t, before.BunchesOut, n.ends[0].Stats().BunchesOut)
		require.Equal(t, before.BunchesIn, n.ends[0].Stats().BunchesIn)
		told, bound, ok := n.ends[0].ServerTime(time.Now())
		require.True(t, ok)
		require.LessOrEqual(t, told.Sub(n.game(time.Since(n.began))).Abs(), bound)
	})
}

// TestServerTimeOfAServer is the server's own.
func TestServerTimeOfAServer(t *testing.T) {
	inTime(t, shifted(0, 1), func(n *timed) {
		now := time.Now()
		told, bound, ok := n.conns[0].ServerTime(now)
		require.True(t, ok)
		require.Zero(t, bound)
		require.Equal(t, now, told)
	})
}

// TestTimeThatCannotBeTold: a world whose game clock is beyond all years that
// the message can hold does not answer the question, with no other effect.
func TestTimeThatCannotBeTold(t *testing.T) {
	inTime(t, func(since time.Duration) time.Time { return time.Time{}.Add(since) }, func(n *timed) {
		n.run(5*time.Second, func(now time.Time) {
			_, _, ok := n.ends[0].ServerTime(now)
			require.False(t, ok)
		})
		require.NoError(t, n.ends[0].Err())
	})
}

// TestHostileTimes: a client that asks twice at once, a server that answers
// unasked, and a client that answers break the protocol.
func TestHostileTimes(t *testing.T) {
	ask, answer := control.AppendAskTime(nil), control.AppendTime(nil, control.Time{})
	for name, test := range map[string]struct {
		from     func(n *timed) *Conn
		messages [][]byte
	}{
		"asks twice":      {func(n *timed) *Conn { return n.ends[0] }, [][]byte{ask, ask}},
		"client answers":  {func(n *timed) *Conn { return n.ends[0] }, [][]byte{answer}},
		"server asks":     {func(n *timed) *Conn { return n.conns[0] }, [][]byte{ask}},
		"server unasked":  {func(n *timed) *Conn { return n.conns[0] }, [][]byte{answer}},
		"question floods": {func(n *timed) *Conn { return n.ends[0] }, [][]byte{ask, ask, ask, ask, ask, ask, ask}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, shifted(0, 1), func(n *timed) {
				c := test.from(n)
				c.link.Lock()
				for _, m := range test.messages {
					require.NoError(t, c.machine.Send(0, bunch.Reliable, m))
				}
				c.link.Unlock()
				n.run(time.Second, func(time.Time) {})
				var closed *CloseError
				require.ErrorAs(t, c.Err(), &closed)
				require.Equal(t, ControlChannelMessageFail, closed.Code)
			})
		})
	}
}

// TestLyingServer: answers with extreme numbers, and times that jump, move a
// client's clock only if three of them agree, and close nothing.
func TestLyingServer(t *testing.T) {
	inTime(t, shifted(0, 1), func(n *timed) {
		lies := []control.Time{{Now: -1 << 63}, {Now: 1<<63 - 1}, {Now: clock.Farthest}, {Now: -clock.Farthest}, {Held: 24 * time.Hour}, {Now: 0}, {Now: 1 << 61}}
		questions := 0
		n.server.OnTick(func(time.Time) {
			s := n.conns[0]
			if s.times.askedAt.IsZero() {
				return
			}
			if questions++; questions%2 == 0 { // the others are answered
				s.times.askedAt = time.Time{}
				s.sendControl(control.AppendTime(nil, lies[questions/2%len(lies)]))
			}
		})
		n.run(20*time.Second, func(now time.Time) {
			c := n.ends[0]
			before := c.times.steps.Load()
			c.ServerTime(now)
			c.times.ask.NoteTraffic()
			require.LessOrEqual(t, c.times.steps.Load(), before+1)
		})
		require.Greater(t, questions, 2*len(lies))
		stats := n.ends[0].Stats().ServerTime
		require.NotZero(t, stats.Refused)
		require.LessOrEqual(t, stats.Steps, uint64(2))
		require.NoError(t, n.ends[0].Err())
	})
}

// TestArrived: a handler knows when its call arrived, which was between two ticks.
func TestArrived(t *testing.T) {
	inTime(t, shifted(time.Hour, 1), func(n *timed) {
		a := n.spawn(0)
		n.run(time.Second, func(time.Time) {})
		var arrived []time.Duration
		n.server.onFire = func(call *Call, _ shot) {
			arrived = append(arrived, call.Arrived.Sub(n.game(0)))
			require.False(t, call.Arrived.After(call.Now))
		}
		var sent []time.Duration
		n.run(2*time.Second, func(now time.Time) {
			require.NoError(t, fire.Call(n.mirror(0, a), shot{}))
			sent = append(sent, now.Sub(n.began))
		})
		require.NotEmpty(t, arrived)
		for i, at := range arrived {
			require.InDelta(t, float64(testDelay), float64(at-sent[i]), float64(20*time.Microsecond))
		}
	})
}

// TestNowIsTheGamesClock: for hooks without a time argument, Now is the time of
// the Dispatch or Flush in which they run, not the system's.
func TestNowIsTheGamesClock(t *testing.T) {
	inNet(t, 0, Config{}, func(n *network) {
		var heard []time.Time
		note := func() { heard = append(heard, n.server.Now()) }
		n.server.OnConnect(func(*Conn) { note() })
		n.server.OnDisconnect(func(*Conn, error) { note() })
		n.server.OnTick(func(time.Time) { note() })
		require.Zero(t, n.server.Now())
		_, err := n.connect(newTestWorld(t, Config{}))
		require.NoError(t, err)

		game := func(ms int64) time.Time { return time.UnixMilli(ms) }
		time.Sleep(time.Second)
		n.server.Dispatch(game(1000))
		require.Equal(t, game(1000), n.server.Now(), "between the two")
		n.server.Flush(game(1001))
		n.ends[0].Close(0, "bye")
		<-n.ends[0].Done()
		time.Sleep(time.Second)
		n.server.Tick(game(2000))
		require.Equal(t, []time.Time{game(1000), game(1001), game(2000), game(2000)}, heard)
	})
}
