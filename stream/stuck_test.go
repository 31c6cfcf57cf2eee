package stream

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// TestWhoIsStuckIsNotedOnce, however often others need memory.
func TestWhoIsStuckIsNotedOnce(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { in.OnEnd(func(error) {}); go func() { _, _ = in.Read(make([]byte, 1)) }() })
		reader := make(stuck)
		defer close(reader)
		_, err := save.Start(n.server.peer, reader, -1)
		require.NoError(n, err)
		s := n.client.streams
		note := func() (stuck int) {
			n.do(n.client.world, func() {
				now := time.Now()
				s.reclaim.search(now)
				require.Equal(n, now, s.reclaim.searched)
				stuck = len(s.reclaim.stuck)
			})
			return stuck
		}
		time.Sleep(time.Second)
		require.Zero(n, note(), "it has just begun")
		time.Sleep(2 * idleTime)
		require.Equal(n, 1, note())
		require.Equal(n, 1, note())
		n.do(n.client.world, func() {
			in := n.client.peer.receiver.receiving[0]
			in.finish(errTest)
			_, stuck := in.takeBack(time.Now())
			require.False(n, stuck, "it ends already")
		})
	})
}

// idler is stuck, and counts the looks at it.
type idler struct {
	conn  *rpc.Conn
	holds bool
	looks *int
}

func (i idler) takeBack(now time.Time) (time.Time, bool) { *i.looks++; return now, true }
func (i idler) owner() (*rpc.Conn, bool)                 { *i.looks++; return i.conn, i.holds }
func (i idler) evict(time.Duration)                      {}

// TestOthersThatAreStuckAreNotLookedAt: four transfers of each of a thousand
// connections may be stuck, while those of as many others wait for memory. Each of
// these once looked at all of those in each tick, for a tenth of a millisecond.
func TestOthersThatAreStuckAreNotLookedAt(t *testing.T) {
	authenticate := func(context.Context, []byte) (string, error) { return "ann", nil }
	inNetwork(t, setup{rpc: rpc.Config{Authenticate: authenticate}}, func(n *network) {
		n.do(n.server.world, func() {
			s, looks := n.server.streams, 0
			var all []stuckHolder
			now := time.Now()
			for i := range 4000 {
				all = append(all, stuckHolder{idler{n.server.peer.conn, i%2000 == 1999, &looks}, now.Add(-time.Duration(i))}) // most hold nothing
			}
			s.reclaim.searched = time.Now()
			s.reclaim.record(all)
			require.Equal(n, now.Add(-3999), s.reclaim.stuck[0].since, "the longest first")
			evicted := 0
			for range 1000 {
				if s.reclaim.evictFor(&n.server.peer.receiver, time.Now()) {
					evicted++
				}
			}
			require.Equal(n, 2, evicted)
			require.Less(n, looks, 4100)
		})
	})
}

// TestWhatTransfersHoldIsNotOfSlices: a connection is not closed for what waits
// for its application.
func TestWhatTransfersHoldIsNotOfSlices(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via}, func(n *network) {
			save.Handle(n.client.streams, func(*IncomingBlob) {})
			n.mustStart(n.server.peer, content(2<<20))
			time.Sleep(2 * time.Second)
			n.do(n.client.world, func() {
				r := &n.client.peer.receiver
				sums, _ := n.client.peer.account.Charge()
				require.Greater(n, sums.Held+sums.Borrowed, int64(1<<20))
				require.LessOrEqual(n, r.sliceMemory(), int64(slices.ReceiverBytes))
			})
		})
	})
}

// TestLanesHoldWhatIsOutstanding, of the stock, until the peer has acknowledged it.
func TestLanesHoldWhatIsOutstanding(t *testing.T) {
	inNetwork(t, setup{via: Window{}}, func(n *network) {
		got := collect(n.client.streams)
		out := n.mustStart(n.server.peer, content(4<<20))
		w, most := n.server.peer.window, 0
		for !out.isFinished() {
			outstanding := func() (bytes int) {
				entries := w.sweepParting()
				for _, lane := range w.lanes {
					now, _ := lane.Channel(w.conn).Reliable()
					entries += now
				}
				return entries * bunch.EntryBytes
			}
			n.do(n.server.world, func() {
				before := outstanding() // the network frees entries meanwhile
				w.update()
				if w.unackedBytes > 0 { // else there are only the messages that open the lanes
					require.LessOrEqual(n, w.unackedBytes, before)
					require.GreaterOrEqual(n, w.unackedBytes, outstanding())
				}
				require.GreaterOrEqual(n, w.stocked.Bytes(), int64(w.unackedBytes))
				most = max(most, w.unackedBytes)
			})
			time.Sleep(10 * time.Millisecond)
		}
		require.NotZero(n, most)
		require.NoError(n, (<-got).err)
		time.Sleep(time.Second)
		n.do(n.server.world, func() {
			w.update()
			require.Zero(n, w.unackedBytes)
			require.Zero(n, w.stocked.Bytes())
		})
	})
}

// TestUnannouncedTransfersAreCharged, from their first part on.
func TestUnannouncedTransfersAreCharged(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		n.do(n.client.world, func() {
			p := n.client.peer
			before, _ := p.account.Charge()
			require.NotNil(n, p.receiver.track(1))
			after, _ := p.account.Charge()
			require.EqualValues(n, waitingBytes, after.Borrowed-before.Borrowed)
		})
	})
}

// TestRefusedTransfersReserveNothing, and so do not wait for memory either.
func TestRefusedTransfersReserveNothing(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		n.do(n.client.world, func() {
			r := &n.client.peer.receiver
			in := r.track(1)
			require.NoError(n, in.begin(header{id: 1, kind: kindBlob, topic: "nobody's", hash: SHA256, size: 10}))
			r.open(in, time.Now())
			require.ErrorIs(n, in.cause(), ErrRejected)
			require.Zero(n, in.answer.promised)
		})
	})
}

// TestPartThatSomebodyElseWrites: the writer is no transfer of this world, because the
// store is shared. The transfer asks for a while, and continues without the store.
func TestPartThatSomebodyElseWrites(t *testing.T) {
	store := newMemoryStore()
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		got := collect(n.client.streams)
		part, err := store.Open("", "k", -1)
		require.NoError(n, err)
		require.NoError(n, n.mustStart(n.server.peer, content(10_000), Key("k")).Wait(n.ctx))
		require.NoError(n, (<-got).err)
		require.EqualValues(n, 1, n.client.peer.Stats().Unstored)
		require.Zero(n, part.Offset())
	})
}

// uselessWays are ways for a peer to hold memory by sending a little that never becomes of use.
var uselessWays = map[string]func(h *hostile){
	"an incomplete chunk of two slices": func(h *hostile) { h.slice(0, 2) },
	"large incomplete chunks": func(h *hostile) {
		for count := 256; count > 1; count /= 2 { // a smaller one if that is refused
			for id := range uint16(8) {
				h.slice(id, count)
			}
		}
	},
	"an incomplete chunk behind a large complete one": func(h *hostile) {
		h.slice(1, 2)
		h.sends(h.late(0, maxElementBytes)...)
	},
	"a repair slice of each chunk": func(h *hostile) {
		for id := range uint16(slices.Pipeline) {
			h.repair(id, maxParity, 0)
		}
	},
	"the first part of a transfer without a header": func(h *hostile) {
		h.begun[1], h.whole[1] = true, true
		h.receiver.onPart(append(appendPartHeader(nil, part{id: 1, data: []byte{1}}), 1))
	},
	"a later part of a transfer without a header": func(h *hostile) { h.part(1, 1, 1) },
}

// TestUselessContentGivesWay: peers hold memory for content that never becomes of use. An honest
// client gets it within the time for which a transfer waits. A chunk of two slices once held 100
// KiB for as long as its connection lasted, and ten of them all of 1 MiB.
func TestUselessContentGivesWay(t *testing.T) {
	for name, act := range uselessWays {
		for _, memory := range []int64{1 << 20, 4 << 20, 32 << 20} {
			for _, peers := range []int{1, 4, 10, 40} {
				for _, sameAddress := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %d MiB, %d peers, same address %v", name, memory>>20, peers, sameAddress), func(t *testing.T) {
						testUselessContent(t, act, Config{MaxMemory: memory}, peers, sameAddress)
					})
				}
			}
		}
	}
}

func testUselessContent(t *testing.T, act func(h *hostile), config Config, peers int, sameAddress bool) {
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, config, 0)
		got := n.take()
		for i := range peers {
			n.addHostile(n.joinFrom(addressOf(i, sameAddress)))
		}
		time.Sleep(time.Duration(n.random.Int64N(int64(3 * idleTime))))
		n.attack(func(_ int, h *hostile) { act(h) })
		time.Sleep(time.Duration(n.random.Int64N(int64(3 * idleTime))))
		_, peer := n.joinFrom(addressOf(peers, sameAddress))
		for _, via := range []Backend{Window{}, Slices{}} {
			n.sendInTime(peer, via, got)
		}
		n.end()
	})
}

// addressOf returns the address of a peer.
func addressOf(peer int, sameAddress bool) net.IP {
	if sameAddress {
		peer = 100
	}
	return net.IPv4(192, 0, 2, byte(peer))
}

// sendInTime sends something that waits for memory no longer than the content of others is kept.
func (n *siege) sendInTime(peer *Peer, via Backend, got <-chan []byte) {
	begin, data := time.Now(), content(300_000)
	require.NoError(n, honest.Send(n.ctx, peer, bytes.NewReader(data), int64(len(data)), Via(via)))
	require.True(n, bytes.Equal(data, <-got))
	require.Less(n, time.Since(begin), idleTime+2*time.Second)
}

// TestUselessContentBesideQUIC: the honest client has a real connection, sealed or not.
func TestUselessContentBesideQUIC(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for _, via := range []Backend{Window{}, Slices{}} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, rpc.Config{Sealed: sealed, MaxConnsPerAddress: -1})
				h.streams.config.MaxMemory = leastMemory
				h.streams.memory, h.streams.stock = h.streams.config.budgets()
				n := &siege{network: &network{T: t, ctx: h.ctx, drove: make(chan struct{}, 20), joined: h.joined}, world: h.world, streams: h.streams}
				got := n.take()
				go h.world.Run(h.ctx)
				for i := range 10 {
					n.addHostile(n.joinFrom(addressOf(i, false)))
				}
				n.attack(func(_ int, h *hostile) { h.slice(0, 2) })
				near, far := netsim.Pipe(sealedPath, sealedPath)
				world, client := newWorld(t, h.config, Config{})
				l := h.join(near, far, world, client)
				if sealed {
					l.awaitSealed(t)
				}
				n.sendInTime(l.toServer, via, got)
				for _, w := range append(n.worlds, world) {
					_ = w.Close(h.ctx, 0, "over")
				}
				h.close()
				time.Sleep(time.Minute)
				_, _ = near.Close(), far.Close()
			})
		}
	}
}

// TestChunksThatHaveJustBegun: a peer that has sent nothing for long isn't stuck while its next
// chunks arrive. It is if it completes none of them for idleTime, however many it begins.
func TestChunksThatHaveJustBegun(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		h := newHostile(n.server.peer, nil)
		inWorld := func(fn func()) { n.do(n.server.world, fn) }
		takeBack := func() (idle time.Duration, stuck bool) {
			inWorld(func() {
				now := time.Now()
				var since time.Time
				since, stuck = h.receiver.takeBack(now)
				idle = now.Sub(since)
			})
			return idle, stuck
		}
		next := uint16(0)
		for range 3 {
			time.Sleep(5 * idleTime)
			_, stuck := takeBack()
			require.False(n, stuck, "it holds nothing")
			var rest [][]byte
			for range 4 {
				inWorld(func() {
					for range 100 {
						chunk := h.late(next, 1500)
						next++
						h.sends(chunk[0])
						rest = append(rest, chunk[1])
					}
				})
				_, stuck := takeBack()
				require.False(n, stuck, "%d have begun", len(rest))
				time.Sleep(idleTime / 4)
			}
			idle, stuck := takeBack()
			require.True(n, stuck)
			require.Equal(n, idleTime, idle)
			inWorld(func() { h.sends(rest...) })
			time.Sleep(time.Second)
			_, stuck = takeBack()
			require.False(n, stuck, "it completed them")
		}
	})
}

// TestABusyPeerIsNotStuck, although it has always begun its next chunk before it completes one, and
// nobody has needed its memory for long.
func TestABusyPeerIsNotStuck(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		h := newHostile(n.server.peer, nil)
		var last []byte // completes the chunk that has begun
		next := uint16(0)
		for range 120 {
			n.do(n.server.world, func() {
				for range 8 {
					chunk := h.late(next, 1500)
					next++
					h.sends(chunk[0])
					if last != nil {
						h.sends(last)
					}
					last = chunk[1]
				}
			})
			time.Sleep(500 * time.Millisecond)
		}
		n.do(n.server.world, func() {
			_, stuck := h.receiver.takeBack(time.Now())
			require.False(n, stuck)
		})
	})
}

// TestUsageIsForgottenInTime: bytes count for at most two idleTimes, however late and however often
// the usage is measured, and for one if nothing follows them.
func TestUsageIsForgottenInTime(t *testing.T) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	u := newUsage(epoch, 0)
	u.move(at(1), 0, 1000)
	u.move(at(29), 1000, 1001)
	require.EqualValues(t, 1001, u.measure(at(58), 1001))
	u.move(at(58), 1001, 1002)
	require.EqualValues(t, 1002, u.measure(at(59), 1002))
	require.EqualValues(t, 1, u.measure(at(60), 1002))
	require.EqualValues(t, 1, u.measure(at(87), 1002))
	require.Zero(t, u.measure(at(88), 1002))
}

// TestCrowdedWhenNoTransferCanBegin, with the least memory as well.
func TestCrowdedWhenNoTransferCanBegin(t *testing.T) {
	for _, memory := range []int64{leastMemory, leastMemory + 1000, 2 << 20, 32 << 20} {
		inNetwork(t, setup{server: Config{MaxMemory: memory}}, func(n *network) {
			n.do(n.server.world, func() {
				s := n.server.streams
				budget.NewAccount(s.memory, budget.Terms{}).MustBorrow(s.memory.Free() - transferBytes + 1)
				require.True(n, s.reclaim.crowded(), "%d bytes", memory)
			})
		})
	}
}
