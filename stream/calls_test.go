package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

// The article's protocol, both ways.
var (
	playerClass = rpc.NewClass("StreamTestPlayer")

	clientReceiveData = rpc.Client[[]item](playerClass, "ClientReceiveData", rpc.Reliable)
	clientNotifyAll   = rpc.Client[rpc.None](playerClass, "ClientNotifyAllDataReceived", rpc.Reliable)
	serverReceiveData = rpc.Server[itemPage](playerClass, "ServerReceiveData", rpc.Reliable)
	serverNotifyAll   = rpc.Server[rpc.None](playerClass, "ServerNotifyAllDataReceived", rpc.Reliable)
	clientHint        = rpc.Client[[]item](playerClass, "ClientHint", rpc.Unreliable)
	multicastData     = rpc.Multicast[[]item](playerClass, "MulticastData", rpc.Reliable)
	clientLoose       = rpc.Client[[]looseItem](playerClass, "ClientLoose", rpc.Reliable)
	clientRaws        = rpc.Client[[]rpc.Raw](playerClass, "ClientRaws", rpc.Reliable)
	clientPointers    = rpc.Client[[]*item](playerClass, "ClientPointers", rpc.Reliable)
	clientHuge        = rpc.Client[[][9000]float64](playerClass, "ClientHuge", rpc.Reliable)
)

type itemPage struct {
	Page  int
	Items []item
}

type looseItem struct{ Name string }

// callsPlayer is what a player's actor received.
type callsPlayer struct {
	actor *rpc.Actor
	items []item
	calls int
	ends  int
}

func (p *callsPlayer) receive(_ *rpc.Call, items []item) {
	p.items = append(p.items, items...)
	p.calls++
}

func (p *callsPlayer) receivePage(call *rpc.Call, page itemPage) {
	if page.Page == p.calls {
		p.receive(call, page.Items)
	}
}

func (p *callsPlayer) receivePointers(_ *rpc.Call, items []*item) {
	for _, i := range items {
		if i == nil {
			i = &item{}
		}
		p.items = append(p.items, *i)
	}
}

func (p *callsPlayer) end(*rpc.Call, rpc.None) { p.ends++ }

// callsTest is a player's actor at both ends.
type callsTest struct {
	*network
	server, client *callsPlayer
	players        map[*rpc.Actor]*callsPlayer // of the server
}

func inCalls(t *testing.T, s setup, fn func(c *callsTest)) {
	s.rpc.Classes = []*rpc.Class{playerClass}
	inNetwork(t, s, func(n *network) {
		c := &callsTest{network: n, players: make(map[*rpc.Actor]*callsPlayer)}
		n.do(n.client.world, func() {
			b := rpc.Bind(n.client.world, playerClass, func(a *rpc.Actor) *callsPlayer {
				c.client = &callsPlayer{actor: a}
				return c.client
			})
			rpc.On(b, clientReceiveData, (*callsPlayer).receive)
			rpc.On(b, clientNotifyAll, (*callsPlayer).end)
			rpc.On(b, clientRaws, func(*callsPlayer, *rpc.Call, []rpc.Raw) {})
			rpc.On(b, clientPointers, (*callsPlayer).receivePointers)
		})
		n.do(n.server.world, func() {
			b := rpc.Bind(n.server.world, playerClass, func(a *rpc.Actor) *callsPlayer {
				c.players[a] = &callsPlayer{actor: a}
				return c.players[a]
			})
			rpc.On(b, serverReceiveData, (*callsPlayer).receivePage)
			rpc.On(b, serverNotifyAll, (*callsPlayer).end)
			rpc.On(b, clientReceiveData, (*callsPlayer).receive)
			rpc.On(b, clientNotifyAll, (*callsPlayer).end)
			a, err := n.server.world.Spawn(playerClass, n.server.peer.conn)
			require.NoError(n, err)
			c.server = c.players[a]
		})
		n.until(n.client.world, func() bool { return c.client != nil })
		fn(c)
	})
}

func (n *network) do(w *rpc.World, fn func()) {
	n.Helper()
	require.NoError(n, w.Do(n.ctx, fn))
}

// until waits for a condition on the world's goroutine.
func (n *network) until(w *rpc.World, condition func() bool) {
	n.Helper()
	for met := false; !met; {
		require.NoError(n, n.ctx.Err())
		time.Sleep(time.Millisecond)
		n.do(w, func() { met = condition() })
	}
}

func TestCallsArriveWholeAndInOrder(t *testing.T) {
	for _, tick := range []time.Duration{0, 33 * time.Millisecond} {
		for _, count := range []int{0, 1, 600, 20_000} {
			t.Run(fmt.Sprint("tick ", tick, "/", count), func(t *testing.T) {
				inCalls(t, setup{tick: tick}, func(c *callsTest) {
					sent := testItems(count)
					var calling *Calling
					c.do(c.network.server.world, func() {
						var err error
						calling, err = Calls(clientReceiveData, c.server.actor, sent, CallsConfig{End: clientNotifyAll})
						require.NoError(c, err)
						require.Equal(c, Progress{Total: int64(count)}, calling.Progress(), "nothing leaves before the tick")
					})
					<-calling.Done()
					require.NoError(c, calling.Err())
					require.Equal(c, Progress{Sent: int64(count), Total: int64(count)}, calling.Progress())
					c.until(c.network.client.world, func() bool { return c.client.ends > 0 })
					time.Sleep(time.Second)
					require.Equal(c, 1, c.client.ends)
					c.requireItems(sent, c.client)
				})
			})
		}
	}
}

func (c *callsTest) requireItems(sent []item, at *callsPlayer) {
	c.Helper()
	require.Len(c, at.items, len(sent))
	for i := range sent {
		require.Equal(c, sent[i].ID, at.items[i].ID)
		require.Equal(c, sent[i].Name, at.items[i].Name)
	}
	bound, err := boundOf(items.codec, 0)
	require.NoError(c, err)
	per := defaultRPCBytes / bound.bytes
	require.Equal(c, (len(sent)+per-1)/per, at.calls)
}

// A struct that holds the items, from the client to the server.
func TestCallsOfAWrappedArgument(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		sent := testItems(5000)
		page := -1 // the first call only measures
		wrap := func(items []item) itemPage {
			page++
			return itemPage{Page: page - 1, Items: items}
		}
		var calling *Calling
		c.do(c.network.client.world, func() {
			var err error
			calling, err = Calls(Wrap(serverReceiveData, wrap), c.client.actor, sent, CallsConfig{End: serverNotifyAll})
			require.NoError(c, err)
		})
		<-calling.Done()
		require.NoError(c, calling.Err())
		c.until(c.network.server.world, func() bool { return c.server.ends > 0 })
		c.requireItems(sent, c.server)
	})
}

func TestSeveralCallsShareAChannelSafely(t *testing.T) {
	inCalls(t, setup{tick: 16 * time.Millisecond}, func(c *callsTest) {
		var all []*Calling
		c.do(c.network.server.world, func() {
			for range 3 {
				calling, err := Calls(clientReceiveData, c.server.actor, testItems(3000), CallsConfig{End: clientNotifyAll})
				require.NoError(c, err)
				all = append(all, calling)
			}
		})
		for _, calling := range all {
			<-calling.Done()
			require.NoError(c, calling.Err())
		}
		c.until(c.network.client.world, func() bool { return c.client.ends == 3 })
		require.Len(c, c.client.items, 9000)
	})
}

func TestCallsRunHereWithoutAnOwner(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		var calling *Calling
		var at *callsPlayer
		sent := testItems(2000)
		c.do(c.network.server.world, func() {
			a, err := c.network.server.world.Spawn(playerClass, nil)
			require.NoError(c, err)
			at = c.players[a]
			calling, err = Calls(clientReceiveData, a, sent, CallsConfig{End: clientNotifyAll, MaxBytesPerRPC: 200})
			require.NoError(c, err)
		})
		<-calling.Done()
		require.NoError(c, calling.Err())
		c.until(c.network.server.world, func() bool { return at.ends == 1 })
		require.Greater(c, at.calls, 2*localSlots, "more than a tick makes")
		require.Equal(c, sent, at.items)
	})
}

func TestCallsCanceled(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		calling := c.mustCall(20_000)
		calling.Cancel(errTest)
		calling.Cancel(errors.New("too late"))
		<-calling.Done()
		require.ErrorIs(t, calling.Err(), ErrCanceled)
		require.ErrorIs(t, calling.Err(), errTest)
		require.ErrorContains(t, calling.Err(), "stream: Calls of StreamTestPlayer.ClientReceiveData: ")
		time.Sleep(time.Second)
		c.do(c.network.client.world, func() {
			require.Zero(c, c.client.ends)
			require.EqualValues(c, calling.Progress().Sent, len(c.client.items))
		})
	})
}

func (c *callsTest) mustCall(count int) (calling *Calling) {
	c.do(c.network.server.world, func() {
		var err error
		calling, err = Calls(clientReceiveData, c.server.actor, testItems(count), CallsConfig{End: clientNotifyAll})
		require.NoError(c, err)
	})
	return calling
}

func TestCallsEndWithTheirActorOwnerAndConnection(t *testing.T) {
	ends := map[string]struct {
		end  func(c *callsTest)
		want error
	}{
		"destroyed":    {func(c *callsTest) { require.NoError(c, c.network.server.world.Destroy(c.server.actor)) }, ErrClosed},
		"owner":        {func(c *callsTest) { require.NoError(c, c.network.server.world.SetOwner(c.server.actor, nil)) }, ErrCanceled},
		"closed":       {func(c *callsTest) { c.server.actor.CloseTo(c.network.server.peer.conn) }, ErrClosed},
		"disconnected": {func(c *callsTest) { c.network.server.peer.conn.Close(0, "bye") }, ErrClosed},
	}
	for name, test := range ends {
		t.Run(name, func(t *testing.T) {
			inCalls(t, setup{tick: 16 * time.Millisecond}, func(c *callsTest) {
				calling := c.mustCall(50_000)
				c.do(c.network.server.world, func() { test.end(c) })
				<-calling.Done()
				require.ErrorIs(c, calling.Err(), test.want)
				require.ErrorContains(c, calling.Err(), "of 50000 items sent")
			})
		})
	}
}

func TestCallsRefuseWhatCannotWork(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		c.do(c.network.server.world, func() {
			a := c.server.actor
			_, err := Calls(multicastData, a, nil, CallsConfig{})
			require.ErrorContains(c, err, "RPC is multicast, which uses one reliable buffer per client")
			_, err = Calls(Wrap(multicastData, func(i []item) []item { return i }), a, nil, CallsConfig{})
			require.ErrorContains(c, err, "RPC is multicast, which uses one reliable buffer per client")
			_, err = Calls(clientLoose, a, nil, CallsConfig{})
			require.ErrorContains(c, err, "stream: Calls of StreamTestPlayer.ClientLoose: looseItem.Name is unbounded")
			_, err = Calls(clientHuge, a, nil, CallsConfig{})
			require.ErrorContains(c, err, "element may take up to 81003 bytes; the limit is 65472")
			_, err = Calls(clientReceiveData, a, nil, CallsConfig{MaxBytesPerRPC: 1 << 20})
			require.ErrorContains(c, err, "MaxBytesPerRPC is 1048576")
			_, err = Calls(clientReceiveData, a, nil, CallsConfig{Gate: Gate{Share: 2}})
			require.ErrorContains(c, err, "Share is 2;")
			require.NoError(c, c.network.server.world.Destroy(a))
			_, err = Calls(clientReceiveData, a, nil, CallsConfig{})
			require.ErrorIs(c, err, ErrClosed)
		})
	})
}

func TestCallsCheckTheReliableBuffer(t *testing.T) {
	config := rpc.Config{Bunch: bunch.Config{ReliableBuffer: 32}}
	inCalls(t, setup{rpc: config}, func(c *callsTest) {
		c.do(c.network.server.world, func() {
			_, err := Calls(clientReceiveData, c.server.actor, nil, CallsConfig{})
			require.ErrorContains(c, err, "RPC may have 30 entries; the limit is 16 with a Share of 0.5")
			_, err = Calls(clientReceiveData, c.server.actor, nil, CallsConfig{MaxBytesPerRPC: 16 << 10})
			require.NoError(c, err)
		})
	})
}

// An RPC that is not reliable fills no buffer: all of it would be sent at once.
func TestCallsOfAnUnreliableRPCAreRefused(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		c.do(c.network.server.world, func() {
			_, err := Calls(clientHint, c.server.actor, testItems(50_000), CallsConfig{})
			require.ErrorContains(c, err, "delivery is not rpc.Reliable")
		})
	})
}

// An item is measured as it is encoded in its RPC, where a Raw has a header of at least 2 bytes.
func TestCallsMeasureItemsInsideTheirArgument(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		raws := make([]rpc.Raw, 20_000)
		for i := range raws {
			raws[i] = rpc.Raw{byte(i)}
		}
		var calling *Calling
		c.do(c.network.server.world, func() {
			var err error
			calling, err = Calls(clientRaws, c.server.actor, raws, CallsConfig{MaxElementBytes: 2})
			require.NoError(c, err)
		})
		<-calling.Done()
		require.ErrorIs(c, calling.Err(), ErrTooLarge)
		require.ErrorContains(c, calling.Err(), "element 0 has 3 bytes; the limit is 2")
	})
}

// What an RPC takes in a slice, Calls takes as an item.
func TestCallsOfPointers(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		var calling *Calling
		c.do(c.network.server.world, func() {
			var err error
			calling, err = Calls(clientPointers, c.server.actor, []*item{{ID: 1}, nil, {ID: 2}}, CallsConfig{End: clientNotifyAll})
			require.NoError(c, err)
		})
		<-calling.Done()
		require.NoError(c, calling.Err())
		c.until(c.network.client.world, func() bool { return c.client.ends == 1 })
		require.Equal(c, []item{{ID: 1}, {}, {ID: 2}}, c.client.items)
	})
}

func TestAnElementThatBreaksItsBoundFailsCalls(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		all := testItems(5000)
		all[1234].Name = strings.Repeat("x", 1000)
		var calling *Calling
		c.do(c.network.server.world, func() {
			var err error
			calling, err = Calls(clientReceiveData, c.server.actor, all, CallsConfig{End: clientNotifyAll})
			require.NoError(c, err)
		})
		<-calling.Done()
		require.ErrorIs(c, calling.Err(), ErrTooLarge)
		require.ErrorContains(c, calling.Err(), "element 1234: ")
		require.ErrorContains(c, calling.Err(), "Name: has 1000 bytes; the limit is 24")
	})
}

// The article's loop that sends all at once, over the whole stack.
func TestNaiveLoopClosesTheConnectionAndNamesTheRPC(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		bound, err := boundOf(items.codec, 0)
		require.NoError(t, err)
		part := make([]item, defaultRPCBytes/bound.bytes)
		for i := range part {
			part[i] = item{Name: strings.Repeat("n", 24), Tags: []uint16{1 << 15, 1 << 15, 1 << 15, 1 << 15, 1 << 15, 1 << 15}}
		}
		sent := 0
		var failed error
		c.do(c.network.server.world, func() {
			for failed == nil {
				if failed = clientReceiveData.Call(c.server.actor, part); failed == nil {
					sent++
				}
			}
		})
		t.Logf("%d RPCs, then: %v", sent, failed)
		require.ErrorContains(c, failed, "StreamTestPlayer.ClientReceiveData")
		for _, end := range []end1{c.network.server, c.network.client} {
			<-end.peer.conn.Done()
			var closed *rpc.CloseError
			require.ErrorAs(c, end.peer.conn.Err(), &closed)
			require.Equal(c, rpc.ReliableBufferOverflow, closed.Code)
		}
	})
}

func TestCallsStayWithinTheirShareOfTheBuffer(t *testing.T) {
	inCalls(t, setup{tick: 16 * time.Millisecond}, func(c *callsTest) {
		peak := 0
		c.mustCall(0) // its hook comes before the one that looks
		c.do(c.network.server.world, func() {
			c.network.server.world.OnTick(func(time.Time) {
				out, _ := c.server.actor.Channel(c.network.server.peer.conn).Reliable()
				peak = max(peak, out)
			})
		})
		<-c.mustCall(50_000).Done()
		c.do(c.network.server.world, func() {
			require.LessOrEqual(c, peak, 128-1+30)
			require.Greater(c, peak, 64)
		})
	})
}
