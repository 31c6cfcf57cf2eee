package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/testkit"
)

// The sizes of blobs: around a part and a block, and some blocks.
var sizes = []int{0, 1, 1024, 1025, 262144, 262145}

func largest() int { return testkit.Brief(1<<20, 4<<20) }

func TestBlobArrivesWhole(t *testing.T) { overBackends(t, testBlobArrivesWhole) }

func testBlobArrivesWhole(t *testing.T, via Backend) {
	for _, tick := range []time.Duration{0, 33 * time.Millisecond} {
		for _, size := range append(sizes, largest()) {
			for _, known := range []bool{true, false} {
				t.Run(fmt.Sprintf("tick %v/%d bytes/known %v", tick, size, known), func(t *testing.T) {
					inNetwork(t, setup{via: via, tick: tick}, func(n *network) {
						sent := content(size)
						n.checkBlob(n.server, n.client, sent, known)
						n.checkBlob(n.client, n.server, sent, known)
					})
				})
			}
		}
	}
}

// checkBlob sends a blob and looks at both ends.
func (n *network) checkBlob(from, to end1, sent []byte, known bool) {
	n.Helper()
	got := collect(to.streams)
	size := int64(len(sent))
	if !known {
		size = -1
	}
	transfer, err := save.Start(from.peer, bytes.NewReader(sent), size, Name("slot 1"))
	require.NoError(n, err)
	require.NoError(n, transfer.Wait(n.ctx))
	r := <-got
	require.NoError(n, r.err)
	require.True(n, bytes.Equal(sent, r.data))
	require.Equal(n, "slot 1", r.in.Name())
	require.Equal(n, size, r.in.Size())
	whole := Progress{Sent: int64(len(sent)), Acked: int64(len(sent)), Total: int64(len(sent))}
	require.Equal(n, whole, counts(transfer.Progress()))
	require.Equal(n, whole, counts(r.in.Progress()))
	<-r.in.Done()
	require.NoError(n, r.in.Err())
}

func (i item) equal(other item) bool {
	return i.ID == other.ID && i.Name == other.Name && slices.Equal(i.Tags, other.Tags)
}

func testItems(count int) []item {
	all := make([]item, count)
	for i := range all {
		all[i] = item{ID: uint32(i), Name: fmt.Sprint("item ", i), Tags: make([]uint16, i%7)}
	}
	return all
}

func TestArrayArrivesWhole(t *testing.T) { overBackends(t, testArrayArrivesWhole) }

func testArrayArrivesWhole(t *testing.T, via Backend) {
	for _, count := range []int{0, 1, 1000, 20_000} {
		t.Run(fmt.Sprint(count, " elements"), func(t *testing.T) {
			inNetwork(t, setup{via: via}, func(n *network) {
				sent := testItems(count)
				n.checkArray(n.server, n.client, sent)
				n.checkArray(n.client, n.server, sent)
			})
		})
	}
}

func (n *network) checkArray(from, to end1, sent []item) {
	n.Helper()
	type result struct {
		all []item
		err error
	}
	got := make(chan result, 1)
	items.Handle(to.streams, func(in *IncomingArray[item]) {
		require.EqualValues(n, len(sent), in.Progress().Total)
		go func() {
			all, err := in.Collect(n.ctx)
			got <- result{all, err}
		}()
	})
	transfer, err := items.Start(from.peer, sent)
	require.NoError(n, err)
	require.NoError(n, transfer.Wait(n.ctx))
	r := <-got
	require.NoError(n, r.err)
	require.Len(n, r.all, len(sent))
	for i := range sent {
		if !sent[i].equal(r.all[i]) { // require for each takes long under the race detector
			require.Equal(n, sent[i], r.all[i], "element %d", i)
		}
	}
	require.Equal(n, Progress{Sent: int64(len(sent)), Acked: int64(len(sent)), Total: int64(len(sent))}, counts(transfer.Progress()))
}

func TestArrayPushedInTicks(t *testing.T) { overBackends(t, testArrayPushedInTicks) }

func testArrayPushedInTicks(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, tick: 20 * time.Millisecond}, func(n *network) {
		var got []item
		ended := make(chan error, 1)
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			in.OnBatch(func(batch []item) {
				require.True(n, n.client.world.Inside())
				got = append(got, batch...)
			})
			in.OnEnd(func(err error) { ended <- err })
			require.Panics(n, func() { in.Batches(context.Background()) })
		})
		require.NoError(n, items.Send(n.ctx, n.server.peer, testItems(10_000), Weight(10)))
		require.NoError(n, <-ended)
		require.Len(n, got, 10_000)
		require.EqualValues(n, 9_999, got[9_999].ID)
	})
}

// TestSlowBatchesWaitForTicks: what the application does with batches takes no
// more of a tick than other bulk may, here at most two callbacks, although the
// credit after each makes room for the next.
func TestSlowBatchesWaitForTicks(t *testing.T) {
	inNetwork(t, setup{tick: 16 * time.Millisecond, delay: time.Millisecond}, func(n *network) {
		inTick, most, count := 0, 0, 0
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			in.OnBatch(func(batch []item) {
				inTick++
				most, count = max(most, inTick), count+len(batch)
				time.Sleep(2 * time.Millisecond)
			})
		})
		require.NoError(n, n.client.world.Do(n.ctx, func() {
			n.client.world.OnTick(func(time.Time) { inTick = 0 })
		}))
		require.NoError(n, items.Send(n.ctx, n.server.peer, testItems(200_000)))
		require.Equal(n, 200_000, count)
		require.LessOrEqual(n, most, 2)
	})
}

func TestSeveralAtOnceBothWays(t *testing.T) { overBackends(t, testSeveralAtOnceBothWays) }

func testSeveralAtOnceBothWays(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		up, down := collect(n.server.streams), collect(n.client.streams)
		sent := content(1 << 20)
		var all []*Transfer
		for range 10 { // more than go at once
			all = append(all, n.mustStart(n.client.peer, sent), n.mustStart(n.server.peer, sent))
		}
		for _, transfer := range all {
			require.NoError(n, transfer.Wait(n.ctx))
		}
		for range 10 {
			for _, got := range []<-chan received{up, down} {
				r := <-got
				require.NoError(n, r.err)
				require.True(n, bytes.Equal(sent, r.data))
			}
		}
	})
}

func TestSharesFollowWeights(t *testing.T) { overBackends(t, testSharesFollowWeights) }

func testSharesFollowWeights(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		collect(n.client.streams)
		light := n.mustStart(n.server.peer, content(8<<20), Weight(1))
		heavy := n.mustStart(n.server.peer, content(8<<20), Weight(10))
		for heavy.Progress().Sent < 4<<20 {
			time.Sleep(10 * time.Millisecond)
		}
		sent := light.Progress().Sent
		require.InDelta(n, heavy.Progress().Sent/10, sent, 640<<10) // each begins before its answer, and reads 512 KiB ahead

		light.SetWeight(0)
		require.EqualValues(n, 1, light.share.weight.Load())
		light.SetWeight(1000)
		for light.Progress().Sent < 6<<20 {
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(n, heavy.Progress().Sent, int64(6<<20))
		require.NoError(n, light.Wait(n.ctx))
		require.NoError(n, heavy.Wait(n.ctx))
	})
}

// A pointer to a backend is a Backend too, and ended the tick with a panic.
func TestBackendsByPointer(t *testing.T) {
	for _, via := range []Backend{&Window{Lanes: 2}, &Slices{}} {
		inNetwork(t, setup{via: via}, func(n *network) {
			got := collect(n.client.streams)
			sent := content(1 << 20)
			require.NoError(n, n.mustStart(n.server.peer, sent, Via(via)).Wait(n.ctx))
			require.True(n, bytes.Equal(sent, (<-got).data))
			_, slices := via.(*Slices)
			require.Equal(n, slices, n.server.peer.Stats().Slices > 0)
		})
	}
}

func TestLanesShareATransfer(t *testing.T) {
	for _, fromClient := range []bool{false, true} {
		wide := link.Path{Cwnd: 8 << 20, MaxDatagram: 1243}
		inNetwork(t, setup{delay: 40 * time.Millisecond, path: wide}, func(n *network) {
			from, to := n.server, n.client
			if fromClient {
				from, to = to, from
			}
			got := collect(to.streams)
			sent := content(6 << 20)
			begin := time.Now()
			require.NoError(n, n.mustStart(from.peer, sent, Lanes(1)).Wait(n.ctx))
			alone := time.Since(begin)
			require.True(n, bytes.Equal(sent, (<-got).data))

			begin = time.Now()
			require.NoError(n, n.mustStart(from.peer, sent, Lanes(8)).Wait(n.ctx))
			require.Less(n, time.Since(begin), alone*2/3)
			require.True(n, bytes.Equal(sent, (<-got).data))
			require.Equal(n, 8, from.peer.Stats().Lanes)
		})
	}
}

func TestSlowSourceIsNotHeldBack(t *testing.T) { overBackends(t, testSlowSourceIsNotHeldBack) }

func testSlowSourceIsNotHeldBack(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		seen := make(chan byte, 10)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			go func() {
				for b := make([]byte, 100); ; {
					m, err := in.Read(b)
					for _, c := range b[:m] {
						seen <- c
					}
					if err != nil {
						close(seen)
						return
					}
				}
			}()
		})
		source := trickle{bytes.NewReader([]byte("slow")), time.Second}
		transfer, err := save.Start(n.server.peer, source, -1)
		require.NoError(n, err)
		begin := time.Now()
		require.Equal(n, byte('s'), <-seen)
		require.Less(n, time.Since(begin), 1100*time.Millisecond)
		require.NoError(n, transfer.Wait(n.ctx))
	})
}

func TestSlowConsumerSlowsTheSender(t *testing.T) { overBackends(t, testSlowConsumerSlowsTheSender) }

func testSlowConsumerSlowsTheSender(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		arrived := make(chan *IncomingBlob, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
		config := &n.client.streams.config
		window := config.firstCredit(config.maxMemory())
		sent := content(int(2 * window))
		transfer := n.mustStart(n.server.peer, sent)
		in := <-arrived
		time.Sleep(10 * time.Second)
		require.LessOrEqual(n, transfer.Progress().Sent, window)
		require.Greater(n, transfer.Progress().Sent, window*15/16)
		got, err := io.ReadAll(in)
		require.NoError(n, err)
		require.True(n, bytes.Equal(sent, got))
		require.NoError(n, transfer.Wait(n.ctx))
	})
}

func TestLargeElementsTravelAlone(t *testing.T) { overBackends(t, testLargeElementsTravelAlone) }

func testLargeElementsTravelAlone(t *testing.T, via Backend) {
	type large struct {
		Data []byte `quiver:"max=65000"`
	}
	topic := NewArray[large]("large")
	inNetwork(t, setup{via: via}, func(n *network) {
		got := make(chan []large, 1)
		topic.Handle(n.client.streams, func(in *IncomingArray[large]) {
			go func() {
				all, err := in.Collect(n.ctx)
				require.NoError(n, err)
				got <- all
			}()
		})
		var sent []large
		for i := range 60 {
			sent = append(sent, large{content(i * 65000 / 59)})
		}
		require.NoError(n, topic.Send(n.ctx, n.server.peer, sent))
		require.Equal(n, sent, <-got)
	})
}
