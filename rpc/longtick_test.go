package rpc

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// calls lets one side's world call the other's at 30 Hz for d, and returns how
// many calls it made. Only the caller ticks.
func (n *network) calls(caller *testWorld, d time.Duration, call func() error) (made int) {
	n.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); made++ {
		caller.Dispatch(time.Now())
		require.NoError(n.t, call(), "call %d", made)
		caller.Flush(time.Now())
		time.Sleep(time.Second / 30)
		synctest.Wait()
	}
	return made
}

// directions runs fn with the server as the one who calls, and with the client:
// then busy is the world that does not tick.
func directions(t *testing.T, payload string, fn func(t *testing.T, n *network, caller, busy *testWorld, call func() error)) {
	for _, calling := range []string{"server", "client"} {
		t.Run(calling+" calls", func(t *testing.T) {
			inNet(t, 1, Config{ReceiveLimit: 256 << 10}, func(n *network) {
				a := n.spawn(0)
				client := n.clients[0]
				if calling == "server" {
					fn(t, n, n.server, client, func() error { return bulk.Call(a, Raw(payload)) })
					return
				}
				mirror := n.mirror(0, a)
				fn(t, n, client, n.server, func() error { return shout.Call(mirror, payload) })
			})
		})
	}
}

// heardCalls counts the calls of directions that reached w.
func heardCalls(w *testWorld, payload string) int { return len(w.heard) + w.received/len(payload) }

// TestLongTickLosesNobody: a world that takes 8.5 s between Dispatch and Flush,
// such as one that loads a level, acknowledges what arrives in that time, so 30
// reliable calls a second never fill their sender's reliable buffer.
func TestLongTickLosesNobody(t *testing.T) {
	const payload = "next"
	directions(t, payload, func(t *testing.T, n *network, caller, busy *testWorld, call func() error) {
		busy.Dispatch(time.Now())
		made := n.calls(caller, 8500*time.Millisecond, call)
		require.Zero(t, heardCalls(busy, payload))
		busy.Flush(time.Now())
		n.tick(3)
		require.Greater(t, made, 254, "a reliable buffer")
		require.Equal(t, made, heardCalls(busy, payload))
		require.Empty(t, append(caller.left, busy.left...))
	})
}

// TestStoppedWorldMakesItsPeersWait: after 37 s the calls have used up the space for
// waiting messages of the stopped world. Flow control then holds the rest at its sender,
// where waiting calls share entries: no client is kicked, and all calls arrive in the end.
func TestStoppedWorldMakesItsPeersWait(t *testing.T) {
	payload := strings.Repeat("level", 40)
	directions(t, payload, func(t *testing.T, n *network, caller, busy *testWorld, call func() error) {
		made := n.calls(caller, time.Minute, call)
		stats := caller.World.Conns()[0].Stats()
		require.Greater(t, stats.Queued, 100_000, "bytes wait at the sender")
		n.tick(60)
		require.Equal(t, made, heardCalls(busy, payload))
		require.Empty(t, append(caller.left, busy.left...))
	})
}

// TestLongTickExceedsNoRate: calls that arrived at their rate while the server
// was busy for 4 s run, and those that arrived too fast do not.
func TestLongTickExceedsNoRate(t *testing.T) {
	for name, row := range map[string]struct{ atOnce, ran int }{"at its rate": {1, 12}, "too fast": {3, 3 + 3*4}} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 1, Config{}, func(n *network) {
				mirror, client := n.mirror(0, n.spawn(0)), n.clients[0]
				for range 12 { // the limit is three a second
					for range row.atOnce {
						require.NoError(t, spam.Call(mirror, 1))
					}
					for range 10 {
						client.Tick(time.Now())
						time.Sleep(time.Second / 30)
						synctest.Wait()
					}
				}
				n.tick(3)
				require.InDelta(t, row.ran, len(n.server.take()), 1)
			})
		})
	}
}

// TestWorldThatNobodyDrives: if a client waits, its log says so, once, with
// Login and without. A world that ticks is not blamed.
func TestWorldThatNobodyDrives(t *testing.T) {
	const text = "nobody drives the world"
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	inNet(t, 1, Config{Logger: logger}, func(n *network) {
		n.tick(300)
		require.NotContains(t, log.String(), text)
		for range 2 {
			_, err := n.connect(newTestWorld(t, Config{}))
			require.NoError(t, err)
			time.Sleep(2 * undrivenTime)
			synctest.Wait()
			require.Equal(t, 1, strings.Count(log.String(), text))
		}
		n.tick(10)
	})
	log.Reset()
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, Config{Logger: logger, Login: func(*World, *Conn) error { return nil }})}
		_, err := n.connect(newTestWorld(t, Config{}))
		require.ErrorContains(t, err, "HandshakeTimeout")
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), text))
		n.close()
	})
}

// TestClientThatNobodyDrives: the log of a client that has dialed, and whose game doesn't drive the
// world, says so once. A client that is driven isn't blamed.
func TestClientThatNobodyDrives(t *testing.T) {
	const text = "a connection to a server is waiting for a Dispatch: nobody drives the world"
	for _, driven := range []bool{false, true} {
		var log strings.Builder
		inNet(t, 0, Config{}, func(n *network) {
			client := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for range 2 {
				_, err := n.connect(client)
				require.NoError(t, err)
				if driven {
					client.Tick(time.Now())
				}
				time.Sleep(2 * undrivenTime)
				synctest.Wait()
			}
			n.tick(10)
		})
		want := 1
		if driven {
			want = 0
		}
		require.Equal(t, want, strings.Count(log.String(), text), log.String())
	}
}

// TestWorldThatStopsSoonAfterAJoin: its log says so for the next client, even
// if that waits for Login instead of OnConnect.
func TestWorldThatStopsSoonAfterAJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		n := &network{t: t, server: newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Login: func(*World, *Conn) error { return nil }})}
		ticked := make(chan struct{})
		go func() {
			defer close(ticked)
			for range 10 {
				n.server.Tick(time.Now())
				time.Sleep(undrivenTime / 20)
			}
		}()
		_, err := n.connect(newTestWorld(t, Config{}))
		require.NoError(t, err)
		<-ticked
		_, err = n.connect(newTestWorld(t, Config{}))
		require.ErrorContains(t, err, "HandshakeTimeout")
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "nobody drives the world"))
		n.close()
	})
}

// TestTimerKeepsNoConnection: the timer that checks for a Dispatch belongs to
// the world, so the memory of a client that has left is freed.
func TestTimerKeepsNoConnection(t *testing.T) {
	w := newTestWorld(t, Config{})
	expect := func() weak.Pointer[Conn] {
		c := &Conn{world: w.World, server: true}
		c.expectDispatch()
		return weak.Make(c)
	}
	left := expect()
	require.Eventually(t, func() bool { runtime.GC(); return left.Value() == nil }, undrivenTime/2, 10*time.Millisecond)
}
