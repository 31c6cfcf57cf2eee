package stream

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// TestCrowdThatUploads: many more bring a blob at once than there is memory
// for. Most were refused; now they get their turn.
func TestCrowdThatUploads(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		const clients, size = 48, 300_000
		inNetwork(t, setup{via: via, server: Config{MaxMemory: 8 << 20}, rpc: rpc.Config{MaxConnsPerAddress: -1}}, func(n *network) {
			arrived := collect(n.server.streams)
			var all []*Transfer
			var peers []*Peer
			for range clients {
				w, s := newWorld(n, rpc.Config{}, Config{Backend: via})
				go func() { _ = w.Run(n.ctx) }()
				context.AfterFunc(n.ctx, func() { _ = w.Close(context.Background(), 0, "test over") })
				_, far := n.attach(n.server.world, w)
				peers = append(peers, s.Peer(far))
			}
			for _, p := range peers {
				all = append(all, n.mustStart(p, content(size)))
			}
			for _, sent := range all {
				require.NoError(n, sent.Wait(n.ctx))
			}
			for range clients {
				in := <-arrived
				require.NoError(n, in.err)
				require.Len(n, in.data, size)
			}
			n.do(n.server.world, func() { require.NotZero(n, n.server.streams.opened, "some have waited") })
			time.Sleep(time.Minute)
			require.GreaterOrEqual(n, n.server.streams.memory.Free(), int64(8<<20-clients*slices.ReceiverBytes), "the records of machines stay")
		})
	})
}

// forThree has memory for three transfers of a few bytes.
var forThree = Config{MaxMemory: transferBytes + 2*heldBytes(minPending) + 64<<10, MaxPending: minPending, ReadTime: time.Hour}

// waitForMemory has a world send five blobs to one that has memory for three, and nobody reads.
func waitForMemory(t *testing.T, fn func(n *network, all []*Transfer, arrived <-chan *IncomingBlob)) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, client: forThree}, func(n *network) {
			arrived := make(chan *IncomingBlob, 5)
			save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
			var all []*Transfer
			for i := range 5 {
				all = append(all, n.mustStart(n.server.peer, content(100+i)))
			}
			time.Sleep(idleTime - time.Second)
			require.Len(n, arrived, 3)
			fn(n, all, arrived)
		})
	})
}

// TestTransfersWaitForMemory: they are opened in the order of their headers,
// without those that are canceled meanwhile.
func TestTransfersWaitForMemory(t *testing.T) {
	waitForMemory(t, func(n *network, all []*Transfer, arrived <-chan *IncomingBlob) {
		all[3].Cancel(nil)
		require.ErrorIs(n, all[3].Wait(n.ctx), ErrCanceled)
		time.Sleep(time.Second) // the receiver has heard of it
		for _, i := range []int{0, 1, 2, 4} {
			got, err := io.ReadAll(<-arrived)
			require.NoError(n, err)
			require.Equal(n, content(100+i), got)
			require.NoError(n, all[i].Wait(n.ctx))
		}
		n.requireIdle()
	})
}

// TestNoMemoryForLong: a transfer that waits is refused when none that waited
// had its turn for idleTime, and not before.
func TestNoMemoryForLong(t *testing.T) {
	waitForMemory(t, func(n *network, all []*Transfer, arrived <-chan *IncomingBlob) {
		_, err := io.ReadAll(<-arrived)
		require.NoError(n, err)
		time.Sleep(idleTime - time.Second)
		require.NoError(n, all[4].Err(), "the fourth had its turn meanwhile")
		require.Len(n, arrived, 3)
		time.Sleep(2 * time.Second)
		require.ErrorContains(n, all[4].Err(), "MaxMemory")
		require.ErrorIs(n, all[4].Err(), ErrRejected)
	})
}

// TestConnectionEndsWhileTransfersWait: all end with it, and what they held is given back.
func TestConnectionEndsWhileTransfersWait(t *testing.T) {
	waitForMemory(t, func(n *network, all []*Transfer, _ <-chan *IncomingBlob) {
		n.server.peer.conn.Close(0, "enough")
		for _, sent := range all {
			require.ErrorIs(n, sent.Wait(n.ctx), ErrClosed)
		}
		time.Sleep(5 * time.Second)
		require.Equal(n, n.client.streams.config.maxMemory(), n.client.streams.memory.Free())
	})
}

// TestWhoWaitsIsLookedAt: a world that waits for events looks for memory all
// the same, also when the timer that has it look fires in a step.
func TestWhoWaitsIsLookedAt(t *testing.T) {
	const step = 5 * time.Millisecond
	inNetwork(t, setup{client: forThree}, func(n *network) {
		save.Handle(n.client.streams, func(*IncomingBlob) {})
		for i := range 4 {
			n.mustStart(n.server.peer, content(100+i))
		}
		time.Sleep(time.Second)
		for i := range time.Duration(30) {
			time.Sleep(memoryPause + i*step*4/5)
			n.do(n.client.world, func() { time.Sleep(step) })
			time.Sleep(memoryPause + 2*step)
			n.do(n.client.world, func() { require.LessOrEqual(n, time.Since(n.client.peer.ticked), memoryPause+2*step) })
		}
	})
}

// TestWhoWaitedLongHasTime: a transfer that waited for memory for longer than one may do nothing
// begins as any other: what it did not send while it had to wait is not held against it.
func TestWhoWaitedLongHasTime(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		config := forThree
		config.MaxTransfers = 8
		inNetwork(t, setup{via: via, client: config}, func(n *network) {
			arrived := make(chan *IncomingBlob, 8)
			save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
			for i := range 5 {
				n.mustStart(n.server.peer, content(100+i))
			}
			from, gate := io.Pipe()
			defer gate.Close()
			slow, err := save.Start(n.server.peer, from, 1000)
			require.NoError(n, err)
			for range 2 { // for these others are asked what they need
				n.mustStart(n.server.peer, content(100))
			}
			time.Sleep(time.Second)
			for range 3 { // the next has its turn each time
				time.Sleep(idleTime - time.Second)
				_, err := io.ReadAll(<-arrived)
				require.NoError(n, err)
			}
			time.Sleep(idleTime / 3)
			require.NoError(n, slow.Err())
			go func() { _, _ = gate.Write(content(1000)) }()
			for range 5 {
				_, err := io.ReadAll(<-arrived)
				require.NoError(n, err)
			}
			require.NoError(n, slow.Wait(n.ctx))
		})
	})
}

// TestRefusedHeadersKeepNobodyWaiting: headers that are refused, or find memory
// at once, are no turn of those that wait.
func TestRefusedHeadersKeepNobodyWaiting(t *testing.T) {
	other := NewBlob("nobody handles it")
	inNetwork(t, setup{server: forThree}, func(n *network) {
		save.Handle(n.server.streams, func(*IncomingBlob) {})
		var all []*Transfer
		for i := range 4 {
			all = append(all, n.mustStart(n.client.peer, content(100+i)))
		}
		w, s := newWorld(n, rpc.Config{}, Config{})
		go func() { _ = w.Run(n.ctx) }()
		_, far := n.attach(n.server.world, w)
		for range 8 {
			time.Sleep(idleTime / 4)
			require.ErrorIs(n, other.Send(n.ctx, s.Peer(far), bytes.NewReader(nil), 0), ErrRejected)
		}
		require.ErrorContains(n, all[3].Err(), "MaxMemory")
		require.NoError(n, w.Close(n.ctx, 0, "test over"))
	})
}

// TestGamesClock: how long a transfer waits does not depend on the clock by which the game ticks.
func TestGamesClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		inNetwork(t, setup{client: forThree, tick: 10 * time.Millisecond, ahead: ahead}, func(n *network) {
			save.Handle(n.client.streams, func(*IncomingBlob) {})
			var all []*Transfer
			for i := range 4 {
				all = append(all, n.mustStart(n.server.peer, content(100+i)))
			}
			time.Sleep(idleTime - time.Second)
			require.NoError(n, all[3].Err())
			time.Sleep(2 * time.Second)
			require.ErrorContains(n, all[3].Err(), "MaxMemory")
		})
	}
}

// TestEarlySharesOfLittleMemory: all that may arrive before answers is a 16th
// of MaxMemory; the shares of ended connections are given to others.
func TestEarlySharesOfLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{MaxMemory: 4 << 20}, 20)
		n.do(n.world, func() { require.EqualValues(t, 4<<20/16, n.streams.early) })
		n.end()
		require.Zero(t, n.streams.early)
	})
}

// TestEarlyPartsHaveRoom: early content is within the share that this end announced, so a
// transfer whose first parts arrive when memory is full waits for its answer like any other.
func TestEarlyPartsHaveRoom(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via}, func(n *network) {
			arrived := collect(n.server.streams)
			memory := n.server.streams.memory
			others := budget.NewAccount(memory, budget.Terms{})
			others.MustBorrow(memory.Free())
			sent := n.mustStart(n.client.peer, content(300_000))
			time.Sleep(idleTime / 2)
			require.NoError(n, sent.Err())
			others.Close()
			require.NoError(n, sent.Wait(n.ctx))
			require.Len(n, (<-arrived).data, 300_000)
		})
	})
}

// TestNoCreditWithoutMemory: while memory is short, a transfer is granted what
// was promised for it, and not what may arrive before answers. Four accepted
// transfers send more than that as soon as they may, and none is rejected for it.
func TestNoCreditWithoutMemory(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via}, func(n *network) {
			const size = 1 << 20
			arrived := make(chan *IncomingBlob, 4)
			save.Handle(n.server.streams, func(in *IncomingBlob) { arrived <- in })
			memory := n.server.streams.memory
			others := budget.NewAccount(memory, budget.Terms{})
			var all []*Transfer
			var gates []*io.PipeWriter
			for range 4 {
				others.MustBorrow(memory.Free() - heldBytes(minPending) - incomingBytes - goOnBytes)
				from, gate := io.Pipe()
				defer gate.Close()
				sent, err := save.Start(n.client.peer, from, size)
				require.NoError(n, err)
				all, gates = append(all, sent), append(gates, gate)
				time.Sleep(time.Second)
			}
			others.MustBorrow(memory.Free())
			require.Len(n, arrived, 4)
			for _, gate := range gates {
				go func() { _, _ = gate.Write(content(size)) }()
			}
			time.Sleep(time.Second)
			for _, sent := range all {
				require.NoError(n, sent.Err())
			}
			for _, sent := range all {
				data, err := io.ReadAll(<-arrived)
				require.NoError(n, err)
				require.Len(n, data, size)
				require.NoError(n, sent.Wait(n.ctx))
			}
		})
	})
}
