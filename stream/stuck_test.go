package stream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
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
				require.Greater(n, sums.Held+sums.Borrowed, int64(idleChunks))
				require.Less(n, r.sliceMemory(), int64(idleChunks))
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
