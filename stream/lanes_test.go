package stream

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// TestIdleLanesAreClosed: lanes that were opened for a transfer, either way, are
// let go when none has used them for a while, and opened again for the next.
func TestIdleLanesAreClosed(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 100e6, Seed: testkit.Seed(t)}
	overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		time.Sleep(time.Second)
		atServer, atClient := collect(l.server), collect(l.client)
		sent := content(4 << 20)
		for _, from := range []*Peer{l.toServer, l.toClient, l.toServer} {
			got := atServer
			if from == l.toClient {
				got = atClient
			}
			require.Equal(t, defaultLanes, l.toServer.Stats().Lanes)
			transfer, err := save.Start(from, bytes.NewReader(sent), int64(len(sent)))
			require.NoError(t, err)
			require.NoError(t, transfer.Wait(t.Context()))
			require.True(t, bytes.Equal(sent, (<-got).data))
			require.Greater(t, l.toServer.Stats().Lanes, defaultLanes)
			time.Sleep(laneIdle - time.Second)
			require.Greater(t, l.toClient.Stats().Lanes, defaultLanes, "not yet")
			time.Sleep(2 * time.Second)
			require.Equal(t, defaultLanes, l.toServer.Stats().Lanes)
			require.Equal(t, defaultLanes, l.toClient.Stats().Lanes)
		}
		require.Zero(t, l.toServer.Conn().Stats().Drops.ActorClosed+l.toClient.Conn().Stats().Drops.ActorClosed)
	})
}

// TestLanesThatStay: as many as a fixed number names.
func TestLanesThatStay(t *testing.T) {
	inNetwork(t, setup{via: Window{Lanes: 6}}, func(n *network) {
		got := collect(n.server.streams)
		require.NoError(n, n.mustStart(n.client.peer, content(1<<20)).Wait(n.ctx))
		<-got
		time.Sleep(3 * laneIdle)
		require.Equal(n, 6, n.client.peer.Stats().Lanes)
		require.Equal(n, 6, n.server.peer.Stats().Lanes)
	})
}

// TestTransfersWhileLanesClose: transfers that begin just when lanes are let
// go, either way, lose nothing over a path that loses and reorders.
func TestTransfersWhileLanesClose(t *testing.T) {
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, 3))
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 100e6, Loss: 0.05, Reorder: 0.05, Seed: seed}
	overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		atServer, atClient := collect(l.server), collect(l.client)
		sent := content(2 << 20)
		most := 0 // a client asks for no more lanes while those that it let go are yet to be closed
		for range testkit.Brief(4, 8) {
			time.Sleep(laneIdle + time.Duration(random.Int64N(int64(200*time.Millisecond))))
			up, err := save.Start(l.toServer, bytes.NewReader(sent), int64(len(sent)))
			require.NoError(t, err)
			time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
			down, err := save.Start(l.toClient, bytes.NewReader(sent), int64(len(sent)))
			require.NoError(t, err)
			require.NoError(t, up.Wait(t.Context()))
			require.NoError(t, down.Wait(t.Context()))
			require.True(t, bytes.Equal(sent, (<-atServer).data))
			require.True(t, bytes.Equal(sent, (<-atClient).data))
			most = max(most, l.toServer.Stats().Lanes)
		}
		require.Greater(t, most, defaultLanes)
		require.NoError(t, l.toServer.Conn().Err())
		require.Zero(t, l.toServer.Conn().Stats().Drops.ActorClosed+l.toClient.Conn().Stats().Drops.ActorClosed)
	})
}

// TestLanesAreOpenedOnceForAnIdlePeer: lanes that arrive before their first
// part, or with it, after a pause, do not count as idle.
func TestLanesAreOpenedOnceForAnIdlePeer(t *testing.T) {
	inNetwork(t, setup{path: link.Path{Cwnd: 8 << 20, MaxDatagram: 1243, SmoothedRTT: 50 * time.Millisecond}}, func(n *network) {
		got := collect(n.client.streams)
		for range 3 {
			time.Sleep(3 * laneIdle)
			seen := make(map[*rpc.Actor]bool)
			out := n.mustStart(n.server.peer, content(4<<20))
			for out.Err() == nil && len(got) == 0 {
				n.do(n.server.world, func() {
					for _, lane := range n.server.peer.window.lanes {
						seen[lane] = true
					}
				})
				time.Sleep(time.Millisecond)
			}
			require.NoError(n, out.Wait(n.ctx))
			require.NoError(n, (<-got).err)
			require.Greater(n, len(seen), defaultLanes)
			require.LessOrEqual(n, len(seen), maxLanes)
		}
	})
}

// TestLanesNamedWhileOthersClose: a transfer that names its lanes while the
// server has yet to close those that were let go has them in the end.
func TestLanesNamedWhileOthersClose(t *testing.T) {
	inNetwork(t, setup{delay: 50 * time.Millisecond}, func(n *network) {
		got := collect(n.server.streams)
		send := func() (most int) {
			out := n.mustStart(n.client.peer, content(4<<20), Lanes(8))
			for len(got) == 0 {
				time.Sleep(time.Millisecond)
				most = max(most, n.client.peer.Stats().Lanes)
			}
			require.NoError(n, out.Wait(n.ctx))
			require.NoError(n, (<-got).err)
			return most
		}
		require.Equal(n, 8, send())
		for closing := false; !closing; time.Sleep(time.Millisecond) {
			n.do(n.client.world, func() { closing = len(n.client.peer.lanes.released) > 0 })
		}
		require.Equal(n, 8, send())
	})
}

// TestLanesForWhatIsLeft: a transfer opens no more lanes than it fills,
// whatever the path has place for.
func TestLanesForWhatIsLeft(t *testing.T) {
	inNetwork(t, setup{path: link.Path{Cwnd: 8 << 20, MaxDatagram: 1243, SmoothedRTT: 50 * time.Millisecond}}, func(n *network) {
		got, window := collect(n.client.streams), n.server.peer.window
		for _, size := range []int64{window.laneBytes(&Window{}), 1 << 20, 2 << 20} {
			out := n.mustStart(n.server.peer, content(int(size)))
			require.NoError(n, out.Wait(n.ctx))
			require.NoError(n, (<-got).err)
			require.LessOrEqual(n, n.server.peer.Stats().Lanes, max(defaultLanes, window.lanesFilledBy(size, &Window{})), "%d bytes", size)
		}
	})
}

// TestLanesThatComeAndGo: a client that asks for lanes and lets them go at once
// has the server open no more than some, and all that it wants in the end.
func TestLanesThatComeAndGo(t *testing.T) {
	inNetwork(t, setup{tick: 5 * time.Millisecond}, func(n *network) {
		time.Sleep(time.Second)
		p, gone := n.client.peer, 0
		ask := func() error { return limitsMessage.send(p.control.pipe, limits{transfers: 4, lanes: maxLanes}) }
		const turns = 4
		for range turns * openingTime / (20 * time.Millisecond) {
			n.do(n.client.world, func() {
				for _, lane := range p.window.lanes[defaultLanes:] {
					require.NoError(n, leaveMessage.Call(lane, nil))
					gone++
				}
				p.window.lanes = p.window.lanes[:defaultLanes]
				require.NoError(n, ask())
			})
			time.Sleep(20 * time.Millisecond)
		}
		require.LessOrEqual(n, gone, (turns+1)*maxOpenings)
		require.GreaterOrEqual(n, gone, (turns-1)*maxOpenings)
		n.do(n.client.world, func() { require.NoError(n, ask()) })
		time.Sleep(openingTime + time.Second)
		require.Equal(n, maxLanes, n.server.peer.Stats().Lanes)
		require.NoError(n, p.conn.Err())
	})
}

// TestLanesLetGoUnacknowledged: what is on lanes that a client lets go of, and does
// not acknowledge, stays charged, and it gets no others for them. It had the server
// hold another five megabytes each five seconds, of which the stock knew nothing.
func TestLanesLetGoUnacknowledged(t *testing.T) {
	inNetwork(t, setup{tick: 5 * time.Millisecond}, func(n *network) {
		got, c, s := collect(n.client.streams), n.client.peer, n.server.peer
		ask := func() {
			require.NoError(n, limitsMessage.send(c.control.pipe, limits{transfers: 4, lanes: maxLanes, early: earlyBytes}))
		}
		time.Sleep(time.Second)
		n.do(n.client.world, ask)
		time.Sleep(openingTime + time.Second)
		require.Equal(n, maxLanes, s.Stats().Lanes)

		n.pipe[0].SetDrop(func(datagram []byte) bool { return len(datagram) > 500 })
		sent := content(4 << 20)
		transfer := n.mustStart(s, sent)
		time.Sleep(time.Second)
		used := s.stocked.Bytes()
		require.Greater(n, used, int64(512<<10))
		n.do(n.client.world, func() {
			for _, lane := range c.window.lanes[defaultLanes:] {
				require.NoError(n, leaveMessage.Call(lane, nil))
			}
			c.window.lanes = c.window.lanes[:defaultLanes]
			ask()
		})
		for range 4 {
			time.Sleep(openingTime)
			require.GreaterOrEqual(n, s.stocked.Bytes(), used)
			require.Equal(n, defaultLanes, s.Stats().Lanes)
		}

		n.pipe[0].SetDrop(nil)
		require.NoError(n, transfer.Wait(n.ctx))
		require.True(n, bytes.Equal(sent, (<-got).data))
		time.Sleep(openingTime + time.Second)
		require.Zero(n, n.server.streams.stock.Used())
		n.do(n.client.world, ask)
		time.Sleep(openingTime + time.Second)
		require.Equal(n, maxLanes, s.Stats().Lanes)
	})
}

// TestLanesThatMustStay: a client that lets those go, too, or one lane twice, breaks a rule.
func TestLanesThatMustStay(t *testing.T) {
	inNetwork(t, setup{via: Window{Lanes: 2}}, func(n *network) {
		time.Sleep(time.Second)
		var err error
		require.NoError(n, n.client.world.Do(n.ctx, func() { err = leaveMessage.Call(n.client.peer.window.lanes[0], nil) }))
		require.NoError(n, err)
		<-n.client.peer.conn.Done()
		require.ErrorContains(n, n.client.peer.conn.Err(), "client released a lane, but 2 lanes must stay open")
	})
}

// TestLanesOfSmallBuffers: with a small reliable buffer, a lane carries little per round trip, so a
// transfer gets more lanes. It once got as many as would fill the path with buffers of 256 entries.
func TestLanesOfSmallBuffers(t *testing.T) {
	const roundTrip = 100 * time.Millisecond
	small := rpc.Config{Bunch: bunch.Config{ReliableBuffer: 8}}
	path := link.Path{Cwnd: 8 << 20, MaxDatagram: 1243, SmoothedRTT: roundTrip}
	inNetwork(t, setup{rpc: small, delay: roundTrip / 2, path: path}, func(n *network) {
		time.Sleep(time.Second)
		atServer, atClient := collect(n.server.streams), collect(n.client.streams)
		for size, most := range map[int]int{50_000: 2, 200_000: 3, 1 << 20: 9} { // once 3, 6 and 11
			for _, way := range []struct {
				from *Peer
				got  <-chan received
			}{{n.server.peer, atClient}, {n.client.peer, atServer}} {
				sent, start := content(size), time.Now()
				require.NoError(n, n.mustStart(way.from, sent).Wait(n.ctx))
				require.LessOrEqual(n, int(time.Since(start)/roundTrip), most, "round trips for %d bytes", size)
				require.True(n, bytes.Equal(sent, (<-way.got).data))
				time.Sleep(laneIdle + time.Second)
			}
		}
	})
}

// TestWhatALaneCarries in a round trip, as Window.Lanes and defaultLanes say: the RPCs that begin
// while less than half of its reliable buffer is outstanding.
func TestWhatALaneCarries(t *testing.T) {
	wide := link.Path{Cwnd: 8 << 20, MaxDatagram: 1243, SmoothedRTT: 50 * time.Millisecond}
	for entries, carried := range map[int]float64{8: 5_500, 256: 165_000} {
		config := rpc.Config{Bunch: bunch.Config{ReliableBuffer: entries}}
		inNetwork(t, setup{via: Window{Lanes: 1}, delay: 25 * time.Millisecond, path: wide, rpc: config}, func(n *network) {
			got, start := collect(n.client.streams), time.Now()
			require.NoError(n, n.mustStart(n.server.peer, content(1<<20)).Wait(n.ctx))
			perRoundTrip := (1 << 20) / (time.Since(start).Seconds() / wide.SmoothedRTT.Seconds())
			require.NoError(n, (<-got).err)
			require.LessOrEqual(n, perRoundTrip, carried)
			require.Greater(n, perRoundTrip, 0.75*carried) // the transfer's begin and end take time too
		})
	}
}
