package rpc

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// The server calls each client on an actor that it owns, and shows all clients
// actors whose states say when they were true.
var (
	uplinkClass = NewClass("Uplink")
	uplinkPing  = Client[Raw](uplinkClass, "Ping", Reliable)
	uplinkPose  = NewState[pose](uplinkClass)
)

type pose struct {
	At         int64 // in milliseconds
	X, Y, Z, V float32
}

type uplinkActor struct{ pose pose }

// uplink is a server and clients whose packets meet in one bottleneck each way,
// in the fake time of a bubble.
type uplink struct {
	t       *testing.T
	server  *World
	conns   []*Conn // the server's ends
	left    []error
	clients []*uplinkClient
	owned   []*Actor // of each client one, to which calls go
	states  []*uplinkActor
}

type uplinkClient struct {
	*World
	seen  []*uplinkActor
	trips []time.Duration // how long calls took
	ages  []time.Duration // how old states were at each tick
}

func newUplinkWorld(t *testing.T, config Config, construct func(*Actor) *uplinkActor, ping func(b Raw)) (*World, *Binding[*uplinkActor]) {
	w, err := NewWorld(config)
	require.NoError(t, err)
	b := Bind(w, uplinkClass, construct)
	Replicate(b, uplinkPose, func(s *uplinkActor) *pose { return &s.pose })
	On(b, uplinkPing, func(_ *uplinkActor, _ *Call, b Raw) { ping(b) })
	return w, b
}

// overUplink connects so many clients to a server by quic-go, with sealed
// packets if its Config says so, and shows them so many states.
func overUplink(t *testing.T, path netsim.Config, clients, states int, config Config, fn func(u *uplink)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &uplink{t: t}
		server, made := newUplinkWorld(t, config, func(*Actor) *uplinkActor { return new(uplinkActor) }, func(Raw) {})
		u.server = server
		server.OnConnect(func(c *Conn) { u.conns = append(u.conns, c) })
		server.OnDisconnect(func(_ *Conn, err error) { u.left = append(u.left, err) })
		hub := netsim.NewHub(path)
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(hub, serverTLS, server)
		require.NoError(t, err)
		var ends []func() error
		for i := range clients {
			c, socket := newUplinkClient(t, config.Sealed), hub.Join()
			end, err := DialPacket(t.Context(), socket, hub.LocalAddr(), clientTLS, c.World)
			require.NoError(t, err)
			ends = append(ends, func() error { return errors.Join(end.Wait(t.Context()), socket.Close()) })
			for u.clients = append(u.clients, c); len(u.conns) == i; {
				u.tick(nil)
			}
		}
		u.spawn(made, states)

		fn(u)

		require.NoError(t, listener.Close())
		for _, end := range ends {
			require.NoError(t, end())
		}
		u.tick(nil)
		require.NoError(t, hub.Close())
	})
}

func newUplinkClient(t *testing.T, sealed bool) *uplinkClient {
	c := new(uplinkClient)
	c.World, _ = newUplinkWorld(t, Config{Sealed: sealed}, func(*Actor) *uplinkActor {
		c.seen = append(c.seen, new(uplinkActor))
		return c.seen[len(c.seen)-1]
	}, func(b Raw) { c.trips = append(c.trips, time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(b))))) })
	return c
}

func (u *uplink) spawn(made *Binding[*uplinkActor], states int) {
	for _, c := range u.conns {
		a, _, err := Spawn(made, c, nil)
		require.NoError(u.t, err)
		u.owned = append(u.owned, a)
	}
	for range states {
		_, s, err := Spawn(made, nil, nil, AlwaysRelevant())
		require.NoError(u.t, err)
		u.states = append(u.states, s)
	}
	for range 60 {
		u.tick(nil)
	}
}

// tick drives all worlds at 30 Hz; game runs on the server.
func (u *uplink) tick(game func()) {
	u.server.Dispatch(time.Now())
	if game != nil {
		game()
	}
	u.server.Flush(time.Now())
	for _, c := range u.clients {
		c.Tick(time.Now())
	}
	time.Sleep(time.Second / 30)
	synctest.Wait()
}

// play has all states change at each tick, and calls each client once. It
// returns how long calls took, and how old states were, in order.
func (u *uplink) play(seconds int) (trips, ages []time.Duration) {
	for _, c := range u.clients {
		c.trips, c.ages = nil, nil
	}
	for range seconds * 30 {
		u.tick(func() {
			for _, s := range u.states {
				s.pose = pose{time.Now().UnixMilli(), s.pose.X + 1, s.pose.Y + 1, s.pose.Z + 1, s.pose.V + 1}
			}
			for i, a := range u.owned {
				if u.conns[i].Err() == nil {
					require.NoError(u.t, uplinkPing.Call(a, stamped(20)))
				}
			}
		})
		for _, c := range u.clients {
			for _, s := range c.seen {
				if s.pose.At > 0 {
					c.ages = append(c.ages, time.Since(time.UnixMilli(s.pose.At)))
				}
			}
		}
	}
	for _, c := range u.clients {
		trips, ages = append(trips, c.trips...), append(ages, c.ages...)
	}
	slices.Sort(trips)
	slices.Sort(ages)
	return trips, ages
}

// TestStatesLeaveTheUplinkToCalls: the states of 32 clients would take twice the server's
// uplink, of which their calls take half. Before, each connection considered the queue of
// the others somebody else's, and continued to send into a full one: calls took 9 s over
// QUIC, whose window became two packets, and reliable buffers overflowed; over sealed
// packets calls took 1.6 s. With a short queue, states were 6 to 14 s old while losses
// did not count as a queue, and 16 s while the packets of each tick were sent in the same
// order, because the queue was full when those of the last clients arrived.
func TestStatesLeaveTheUplinkToCalls(t *testing.T) {
	for _, row := range []struct {
		name   string
		config Config
		queue  int // bytes; 0 = 64 KiB, 0.26 s
		most   time.Duration
	}{
		{"QUIC", Config{}, 0, 400 * time.Millisecond},
		{"sealed", Config{Sealed: true}, 0, 400 * time.Millisecond},
		{"QUIC before a short queue", Config{}, 16_000, 1500 * time.Millisecond},
		{"sealed before a short queue", Config{Sealed: true}, 16_000, 1500 * time.Millisecond},
		{"QUIC before a queue of seven packets", Config{}, 8_000, 1500 * time.Millisecond},
		{"sealed before a queue of seven packets", Config{Sealed: true}, 8_000, 1500 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := netsim.Config{Rate: 2e6, Delay: 20 * time.Millisecond, Queue: row.queue}
			overUplink(t, path, 32, 20, row.config, func(u *uplink) {
				u.play(10) // until each has met the queue
				trips, ages := u.play(10)
				n, m := len(trips), len(ages)
				t.Logf("%d calls, p99 %v, the longest %v; states are %v old in the median, p99 %v", n, trips[n*99/100], trips[n-1], ages[m/2], ages[m*99/100])
				require.Empty(t, u.left)
				require.Greater(t, n, 32*30*9)
				require.Less(t, trips[n*99/100], row.most)
				require.Less(t, ages[m/2], 800*time.Millisecond)
				require.Less(t, ages[m*99/100], 1500*time.Millisecond)
			})
		})
	}
}

// TestCallsThatFitDoNotFillTheUplink: calls alone that take two thirds of an uplink still do
// so after random losses. Before, each call was sent twice from then on, which filled the
// queue, and a quarter of all packets was lost permanently; over sealed packets a seventh.
func TestCallsThatFitDoNotFillTheUplink(t *testing.T) {
	path := netsim.Config{Rate: 3e6, Delay: 20 * time.Millisecond, Loss: 0.005}
	for _, sealed := range []bool{false, true} {
		overUplink(t, path, 32, 0, Config{Sealed: sealed}, func(u *uplink) {
			for range 20 * 30 {
				u.tick(func() {
					for _, a := range u.owned {
						require.NoError(t, uplinkPing.Call(a, stamped(200)))
					}
				})
			}
			lost := uint64(0)
			for _, c := range u.conns {
				lost += c.Stats().PacketsLost
			}
			t.Logf("sealed %v: %d lost of %d", sealed, lost, 32*20*30)
			require.Less(t, lost, uint64(32*20*30/8))
		})
	}
}
