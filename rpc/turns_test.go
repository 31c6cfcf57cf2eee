package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// The class of a game whose handler is slow.
var (
	mill  = NewClass("Mill")
	grind = Server[grain](mill, "Grind", Reliable)
)

// grain is a call in the order of its sender, with the server's tick before which it left.
type grain struct {
	Serial, Tick int
	Quick        bool
}

const grindTime = time.Millisecond

// millScene is a server whose handler takes a millisecond, with clients.
type millScene struct {
	*network
	mills   []*Actor // of the clients
	ticks   int
	longest time.Duration // tick of the server
	served  []int         // calls, by client
	waited  []int         // ticks, at most, by client
	calls   []int         // made, by client
	quick   func(serial int) bool
}

func inMill(t *testing.T, clients int, config Config, fn func(s *millScene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &millScene{network: &network{t: t, server: newTestWorld(t, config)}}
		s.served, s.waited, s.calls = make([]int, clients), make([]int, clients), make([]int, clients)
		b := Bind(s.server.World, mill, func(*Actor) struct{} { return struct{}{} })
		On(b, grind, func(_ struct{}, call *Call, g grain) { s.grind(int(call.Conn.id)-1, g) })
		for range clients {
			w := newTestWorld(t, Config{Classes: []*Class{mill}})
			_, err := s.connect(w)
			require.NoError(t, err)
		}
		s.tick(3)
		s.conns = s.server.joined
		for _, c := range s.conns {
			a, err := s.server.Spawn(mill, c)
			require.NoError(t, err)
			s.mills = append(s.mills, a)
		}
		s.tick(3)
		fn(s)
		s.close()
	})
}

func (s *millScene) grind(client int, g grain) {
	if !g.Quick {
		time.Sleep(grindTime)
	}
	if g.Serial != s.served[client] { // an equal one is not worth require's time, a hundred thousand times
		require.Equal(s.t, s.served[client], g.Serial, "calls of client %d run in order, once", client)
	}
	s.served[client]++
	s.waited[client] = max(s.waited[client], s.ticks-g.Tick)
}

func (s *millScene) call(client, times int) {
	mirror := s.mirror(client, s.mills[client])
	for range times {
		require.NoError(s.t, grind.Call(mirror, grain{Serial: s.calls[client], Tick: s.ticks, Quick: s.quick != nil && s.quick(s.calls[client])}))
		s.calls[client]++
	}
}

// flood calls far more often than the server can serve, as long as the reliable buffer has room.
func (s *millScene) flood(client int) {
	a := s.mirror(client, s.mills[client])
	if out, slots := a.Channel(s.ends[client]).Reliable(); out < slots/2 {
		s.call(client, 64)
	}
}

// step is a tick at 30 Hz of everybody.
func (s *millScene) step() {
	start := time.Now()
	s.ticks++
	s.server.Tick(start)
	s.longest = max(s.longest, time.Since(start))
	for _, w := range s.clients {
		w.Tick(time.Now())
	}
	time.Sleep(time.Until(start.Add(time.Second / 30)))
	synctest.Wait()
}

// TestFloodersDoNotStarveOthers: before, a single flooding client made ticks of
// 1.6 s, in which no other client's calls ran.
func TestFloodersDoNotStarveOthers(t *testing.T) {
	const honest = 15
	ticks := testkit.Brief(40, 100)
	for _, flooders := range []int{1, 8, 40} {
		t.Run(fmt.Sprint(flooders), func(t *testing.T) {
			inMill(t, flooders+honest, Config{}, func(s *millScene) {
				for range ticks {
					for i := range flooders {
						s.flood(i)
					}
					for i := range honest {
						s.call(flooders+i, 1)
					}
					s.step()
				}
				s.step()
				s.step()
				t.Logf("honest calls wait %d ticks at most", slices.Max(s.waited[flooders:]))
				require.LessOrEqual(t, s.longest, 33*time.Millisecond)
				t.Logf("longest tick %v; of client 0 %d of %d calls", s.longest, s.served[0], s.calls[0])
				for i := range flooders {
					require.NoError(t, s.conns[i].Err())
					require.Greater(t, s.calls[i]-s.served[i], 1000, "a flooder waits")
					require.Greater(t, s.served[i], 5, "but is served")
					require.Greater(t, s.conns[i].Stats().Deferred, uint64(ticks*9/10))
					require.LessOrEqual(t, len(s.conns[i].turn.taken), turnCalls)
				}
				for i := flooders; i < flooders+honest; i++ {
					require.Equal(t, s.calls[i], s.served[i])
					if flooders < 10 {
						require.Equal(t, 2, s.waited[i], "it runs in the first tick after it arrived")
					}
				}
			})
		})
	}
}

// TestLateMessagesAreExplained: the warning says which limit was reached, by
// which connection, and what took longest.
func TestLateMessagesAreExplained(t *testing.T) {
	for _, row := range []struct {
		clients int
		want    string
	}{
		{1, `handlers of this connection used up its share (rpc.Config.DispatchTime)" conn.id=1 waiting=` +
			`56 used=8ms more=0 slowest=Mill.Grind longest=1ms limit=8ms`},
		{40, `handlers of all connections used up the total time (rpc.Config.DispatchTime)" conn.id=40 waiting=` +
			`64 used=0s more=0 limit=24ms all=24ms`},
	} {
		var log strings.Builder
		inMill(t, row.clients, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(s *millScene) {
			for i := range row.clients {
				s.call(i, 64)
			}
			s.step()
			s.step()
		})
		require.Contains(t, log.String(), row.want)
		require.Equal(t, strings.Count(log.String(), "\n"), strings.Count(log.String(), "time="), "slog's own, once a record")
	}
}

// TestOneConnectionAloneGetsMore: a connection that is alone cannot starve
// another, but the length of a tick is still bounded.
func TestOneConnectionAloneGetsMore(t *testing.T) {
	inMill(t, 1, Config{}, func(s *millScene) {
		for range 10 {
			s.flood(0)
			s.step()
		}
		require.Equal(t, aloneShares*2*time.Millisecond, s.longest)
	})
}

// TestQuickCallsHideNoSlowOnes: the clock is not read after every quick call.
func TestQuickCallsHideNoSlowOnes(t *testing.T) {
	inMill(t, 2, Config{}, func(s *millScene) {
		s.quick = func(serial int) bool { return serial/(quickCalls+1)%2 == 0 }
		for range 50 {
			s.flood(0)
			s.call(1, 1)
			s.step()
		}
		require.LessOrEqual(t, s.longest, (2+quickCalls+1)*grindTime)
		require.Greater(t, s.calls[0]-s.served[0], 1000)
	})
}

func TestDispatchTimeMayBeEndless(t *testing.T) {
	inMill(t, 2, Config{DispatchTime: -1}, func(s *millScene) {
		s.call(0, 500)
		s.call(1, 3)
		s.step()
		s.step()
		require.Equal(t, []int{500, 3}, s.served)
		require.Equal(t, 503*grindTime, s.longest)
		require.Zero(t, s.conns[0].Stats().Deferred)
	})
}

// TestDispatchTimeOfAnyLength: the longest DispatchTime overflows nothing.
func TestDispatchTimeOfAnyLength(t *testing.T) {
	inMill(t, 1, Config{DispatchTime: math.MaxInt64}, func(s *millScene) {
		require.NoError(t, grind.Call(s.mirror(0, s.mills[0]), grain{}))
		s.tick(3)
		require.Equal(t, 1, s.served[0])
	})
}

// TestRunGoesOnWithWhatIsLeft: Run handles messages that remain from a Dispatch
// even if nothing arrives that would wake the world.
func TestRunGoesOnWithWhatIsLeft(t *testing.T) {
	inMill(t, 2, Config{}, func(s *millScene) {
		s.call(0, 300)
		s.call(1, 100)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.server.Run(ctx) }()
		for range 10 {
			for _, w := range s.clients {
				w.Tick(time.Now())
			}
			time.Sleep(50 * time.Millisecond)
		}
		cancel()
		<-ended
		require.Equal(t, []int{300, 100}, s.served)
	})
}

// TestWhatCameBeforeTheEndIsServed: messages that arrived before the end of
// their connection run, even if that takes many Dispatches.
func TestWhatCameBeforeTheEndIsServed(t *testing.T) {
	inMill(t, 2, Config{}, func(s *millScene) {
		s.server.OnDisconnect(func(c *Conn, _ error) { require.Equal(t, 30, s.served[0]) })
		s.call(0, 30)
		s.ends[0].Close(0, "leaves")
		for range 20 {
			s.call(1, 1)
			s.step()
		}
		require.Len(t, s.server.left, 1)
		require.Equal(t, 30, s.served[0])
		require.Zero(t, s.conns[0].Stats().Drops.Ended)
	})
}

// TestFlooderThatLeaves: a flooding client that leaves keeps its place for a
// second, not until all of its messages have run. Those that have not are counted.
func TestFlooderThatLeaves(t *testing.T) {
	var log strings.Builder
	inMill(t, 2, Config{MaxConns: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(s *millScene) {
		for range 20 {
			s.flood(0)
			s.call(1, 1)
			s.step()
		}
		s.ends[0].abort(&CloseError{})
		<-s.conns[0].Done()
		start := time.Now()
		for len(s.server.left) == 0 {
			s.call(1, 1)
			s.step()
		}
		require.InDelta(t, endedTime.Seconds(), time.Since(start).Seconds(), 0.1)
		require.Equal(t, 1, s.server.lobby.door.Conns())
		require.Greater(t, s.conns[0].Stats().Drops.Ended, uint64(500))
		synctest.Wait()
		require.Regexp(t, `messages dropped with their connection" .* messages=(\d+) calls="(\d+) × Mill.Grind`, log.String())
		require.Empty(t, s.server.turns.late)
		s.step()
		require.Equal(t, s.calls[1], s.served[1])
	})
}
