package rpctest_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// The class of these tests: a flag with a long state, whose news are reliable.
var (
	flag     = rpc.NewClass("Flag")
	flagText = rpc.NewState[motto](flag)
	flagNews = rpc.Multicast[string](flag, "News", rpc.Reliable)
)

type motto struct {
	Text string `quiver:"max=900"`
}

// A parade is a server with flags, and clients that count what they hear.
type parade struct {
	t      *testing.T
	net    *rpctest.Network
	server *rpc.World
	flags  []*rpc.Actor
	text   string  // of the next flags
	left   []error // of the server's connections
}

type listener struct {
	world         *rpc.World
	copies, heard int
	left          error
}

func newParade(t *testing.T, net *rpctest.Network, config rpc.Config) *parade {
	c := &parade{t: t, net: net}
	config.OnDisconnect = func(_ *rpc.World, _ *rpc.Conn, err error) { c.left = append(c.left, err) }
	var err error
	c.server, err = rpc.NewWorld(config)
	require.NoError(t, err)
	b := rpc.Bind(c.server, flag, func(*rpc.Actor) *motto { return &motto{Text: c.text} })
	rpc.Replicate(b, flagText, func(m *motto) *motto { return m })
	rpc.On(b, flagNews, func(*motto, *rpc.Call, string) {})
	net.Server(c.server)
	return c
}

// spawn spawns flags with a text of so many bytes.
func (c *parade) spawn(flags, size int) {
	c.text = strings.Repeat("m", size)
	for range flags {
		a, err := c.server.Spawn(flag, nil, rpc.AlwaysRelevant())
		require.NoError(c.t, err)
		c.flags = append(c.flags, a)
	}
}

func (c *parade) join() *listener {
	l := &listener{}
	var err error
	l.world, err = rpc.NewWorld(rpc.Config{OnDisconnect: func(_ *rpc.World, _ *rpc.Conn, err error) { l.left = err }})
	require.NoError(c.t, err)
	b := rpc.Bind(l.world, flag, func(*rpc.Actor) *motto { l.copies++; return &motto{} })
	rpc.Replicate(b, flagText, func(m *motto) *motto { return m })
	rpc.On(b, flagNews, func(*motto, *rpc.Call, string) { l.heard++ })
	c.net.Client(l.world)
	return l
}

// call sends news of so many bytes from each of 200 flags, ten times a second, for d or until the
// sum of Unacked is more than enough. most is the largest sum.
func (c *parade) call(d time.Duration, size, enough int) (calls, most int) {
	news := strings.Repeat("n", size)
	for end := c.net.Elapsed() + d; c.net.Elapsed() < end && most <= enough; c.net.Advance(time.Second / 10) {
		for _, a := range c.flags[:min(len(c.flags), 200)] {
			var closed *rpc.CloseError
			if err := flagNews.Call(a, news); err != nil {
				require.ErrorAs(c.t, err, &closed)
			}
			calls++
		}
		sum := 0
		for _, conn := range c.server.Conns() {
			sum += conn.Stats().Unacked
		}
		most = max(most, sum)
	}
	return calls, most
}

// TestStoppedClientIsBounded: a client that acknowledges all packets but never ticks takes at most
// Config.SendLimit of the server's memory, and then goes. Another one hears everything.
func TestStoppedClientIsBounded(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		const limit = 4 << 20
		c := newParade(t, net, rpc.Config{SendLimit: limit})
		c.spawn(100, 10)
		honest, stopped := c.join(), c.join()
		net.Advance(time.Second)
		net.Pause(stopped.world, time.Hour)
		heap := testkit.Heap()
		calls, most := c.call(time.Minute, 1000, limit/2)
		require.Greater(t, most, limit/2)
		require.Empty(t, c.left)
		more, most := c.call(20*time.Second, 1000, math.MaxInt)
		require.LessOrEqual(t, most, limit+256<<10, "with what flies to the other")
		require.Less(t, testkit.Heap()-heap, 20<<20, "with the 8 MiB that the client has received")
		net.Advance(time.Second)
		require.Equal(t, calls+more, honest.heard)
		require.NoError(t, honest.left)
		require.Len(t, c.left, 1)
		require.ErrorContains(t, c.left[0], "ReliableBufferOverflow: Flag.News: unacknowledged messages have reached the limit of 4194304 bytes (Config.SendLimit): ")
		require.Regexp(t, `\d+ bytes on this connection, with \d+ × Flag\.News \(\d+ entries\) on open channels; the peer is alive, but nothing has driven its world for \d`, c.left[0].Error())
		net.Pause(stopped.world, 0)
		net.Advance(time.Second)
		require.ErrorContains(t, stopped.left, "Config.SendLimit", "the client hears it, too")
	})
}

// TestSendLimitByOpens: actors that open for a client that stopped count as well.
func TestSendLimitByOpens(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newParade(t, net, rpc.Config{SendLimit: 1 << 20})
		stopped := c.join()
		net.Advance(time.Second)
		net.Pause(stopped.world, time.Hour)
		c.spawn(10_000, 900)
		net.Advance(time.Second)
		require.Len(t, c.left, 1)
		require.ErrorContains(t, c.left[0], "open Flag: unacknowledged messages have reached the limit of 1048576 bytes (Config.SendLimit)")
	})
}

// TestPausedClientStays: with the defaults, a client that stands still for ten seconds under
// load hears everything later.
func TestPausedClientStays(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newParade(t, net, rpc.Config{})
		c.spawn(200, 10)
		client := c.join()
		net.Advance(time.Second)
		net.Pause(client.world, 10*time.Second)
		calls, most := c.call(20*time.Second, 400, math.MaxInt)
		net.Advance(time.Second)
		t.Logf("%d calls, %d KiB waited", calls, most>>10)
		require.Empty(t, c.left)
		require.Equal(t, calls, client.heard)
		require.Less(t, c.server.Conns()[0].Stats().Unacked, 1<<20)
	})
}

// TestLateJoinOfManyActors: 10,000 actors of 900 bytes each open at once within the default
// SendLimit, even for a client that takes nothing yet.
func TestLateJoinOfManyActors(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		const actors = 10_000
		c := newParade(t, net, rpc.Config{})
		c.spawn(actors, 900)
		client := c.join()
		most := 0
		net.Pause(client.world, 3*time.Second)
		for range 60 {
			net.Advance(100 * time.Millisecond)
			for _, conn := range c.server.Conns() {
				most = max(most, conn.Stats().Unacked)
			}
		}
		t.Logf("%d actors: at most %d KiB wait", actors, most>>10)
		require.Empty(t, c.left)
		require.Equal(t, actors, client.copies)
		require.Zero(t, c.server.Conns()[0].Stats().Unacked)
	})
}

// TestSendBudget: clients that stopped go, the first of them first, when all of them together
// exceed the budget. One that joins then and holds more than each of them stays.
func TestSendBudget(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		const budget = 16 << 20
		c := newParade(t, net, rpc.Config{SendBudget: budget})
		c.spawn(testkit.Brief(1500, 3000), 900)
		honest := c.join()
		var stopped []*listener
		for range 8 {
			stopped = append(stopped, c.join())
		}
		net.Advance(5 * time.Second)
		for _, l := range stopped {
			net.Pause(l.world, time.Hour)
		}
		calls, _ := c.call(time.Minute, 450, budget/2)
		require.Empty(t, c.left)
		late := c.join()
		more, most := c.call(10*time.Second, 450, math.MaxInt)
		net.Advance(time.Second)
		t.Logf("at most %d KiB, %d left", most>>10, len(c.left))
		require.LessOrEqual(t, most, budget+budget/2, "within a second")
		require.Greater(t, len(c.left), 2)
		require.NoError(t, honest.left)
		require.NoError(t, late.left)
		require.Equal(t, calls+more, honest.heard)
		require.Equal(t, len(c.flags), late.copies)
		for _, err := range c.left {
			require.ErrorContains(t, err, "ReliableBufferOverflow: reliable messages of all connections hold")
			require.ErrorContains(t, err, "the limit is 16777216 (Config.SendBudget)")
		}
	})
}

// TestNewcomersThatTakeNothingGoFirst: a client on a slow path has joined three seconds ago and
// takes what it is sent. Others then join and acknowledge nothing.
func TestNewcomersThatTakeNothingGoFirst(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newParade(t, net, rpc.Config{SendBudget: 24 << 20})
		c.spawn(3000, 900) // 3.9 MB for each client
		honest := c.join()
		slow := rpctest.Off
		slow.PktLag, slow.IncomingRate = 25*time.Millisecond, 3_000_000
		net.EmulateOne(honest.world.Conns()[0], slow)
		net.Advance(3 * time.Second)
		for range 8 {
			silent := c.join()
			net.Dark(silent.world.Conns()[0], time.Hour)
		}
		net.Advance(10 * time.Second)
		require.NoError(t, honest.left)
		require.Equal(t, 3000, honest.copies)
		require.NotEmpty(t, c.left)
		require.ErrorContains(t, c.left[0], "Config.SendBudget")
	})
}

// TestSendLimitAsAnError: with OverflowError, calls and opens beyond the limit fail, and the client
// gets what was accepted once it ticks again.
func TestSendLimitAsAnError(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		const limit = 1 << 20
		c := newParade(t, net, rpc.Config{SendLimit: limit, Bunch: bunch.Config{Overflow: bunch.OverflowError}})
		c.spawn(100, 10)
		client := c.join()
		net.Advance(time.Second)
		net.Pause(client.world, 20*time.Second)
		heard, refused := 0, 0
		for n := 0; net.Elapsed() < 25*time.Second; n++ {
			for _, a := range c.flags[:100] {
				if err := flagNews.Call(a, strings.Repeat("n", 1000)); err == nil {
					heard++
				} else {
					require.ErrorIs(t, err, bunch.ErrReliableBufferFull)
					require.ErrorContains(t, err, "Config.SendLimit")
					refused++
				}
			}
			if n%10 == 0 {
				c.spawn(1, 10) // nobody's Spawn fails for a client that can't have the actor
			}
			require.LessOrEqual(t, c.server.Conns()[0].Stats().Unacked, limit+64<<10)
			net.Advance(time.Second / 10)
		}
		net.Advance(2 * time.Second)
		require.Empty(t, c.left)
		require.Greater(t, refused, 1000)
		require.Equal(t, heard, client.heard)
		require.Less(t, client.copies, len(c.flags))
		require.Greater(t, client.copies, 100)
	})
}
