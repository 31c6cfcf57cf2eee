package stream

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// Transfers get what Config.Rate leaves, by whichever backend, and their acks
// are not held back: the peer's rate is used up by a transfer of its own.
func TestTransfersKeepToTheRate(t *testing.T) { overBackends(t, testTransfersKeepToTheRate) }

func testTransfersKeepToTheRate(t *testing.T, via Backend) {
	const rate, size = 200_000, 1 << 20
	inNetwork(t, setup{via: via, rpc: rpc.Config{Rate: rate}}, func(n *network) {
		down, up := collect(n.client.streams), collect(n.server.streams)
		start := time.Now()
		first := n.mustStart(n.server.peer, content(size))
		second := n.mustStart(n.client.peer, content(size))
		require.NoError(n, first.Wait(n.ctx))
		require.NoError(n, second.Wait(n.ctx))
		took := time.Since(start).Seconds()
		require.InDelta(n, float64(size)/rate, took, 0.2*float64(size)/rate)
		require.NoError(n, (<-down).err)
		require.NoError(n, (<-up).err)
	})
}

// TestRateOfATransfer: one is held to its Rate, whatever the connection has
// beside, and ends soon when it is canceled.
func TestRateOfATransfer(t *testing.T) { overBackends(t, testRateOfATransfer) }

func testRateOfATransfer(t *testing.T, via Backend) {
	const rate, size = 200_000, 1 << 20
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		begin := time.Now()
		slow, err := save.Start(n.server.peer, bytes.NewReader(content(size)), size, Rate(rate))
		require.NoError(n, err)
		beside := n.mustStart(n.server.peer, content(size))
		require.NoError(n, beside.Wait(n.ctx))
		require.NoError(n, (<-got).err)
		require.Less(n, slow.Progress().Sent, int64(size/2), "the other one has the rest of the path")
		require.NoError(n, slow.Wait(n.ctx))
		require.InEpsilon(n, float64(size)/rate, time.Since(begin).Seconds(), 0.05)
		r := <-got
		require.NoError(n, r.err)

		slow, err = save.Start(n.server.peer, bytes.NewReader(content(size)), size, Rate(20))
		require.NoError(n, err)
		time.Sleep(time.Second)
		begin = time.Now()
		slow.Cancel(nil)
		<-slow.Done()
		require.Less(n, time.Since(begin), 100*time.Millisecond)
		require.Error(n, (<-got).err)

		_, err = save.Start(n.server.peer, bytes.NewReader(nil), 0, Rate(-1))
		require.ErrorContains(n, err, "Rate is -1")
		_, err = items.Start(n.server.peer, testItems(1), Rate(1))
		require.ErrorContains(n, err, "Rate applies to blobs only")
	})
}

// TestRateOfASlowSource: a source that takes its time for each Read, as on a
// busy disk, but could keep up, does so.
func TestRateOfASlowSource(t *testing.T) { overBackends(t, testRateOfASlowSource) }

func testRateOfASlowSource(t *testing.T, via Backend) {
	const rate, size = 200_000, 1 << 20
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		begin := time.Now()
		slow, err := save.Start(n.server.peer, &slowSource{bytes.NewReader(content(size))}, size, Rate(rate))
		require.NoError(n, err)
		require.NoError(n, slow.Wait(n.ctx))
		require.InEpsilon(n, float64(size)/rate, time.Since(begin).Seconds(), 0.05)
		require.NoError(n, (<-got).err)
	})
}

// TestCatchUpIsBounded: after a source has stood still its rate is what it was,
// but for a quarter of a second.
func TestCatchUpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := throttle{rate: 1000}
		p.wait(100)
		time.Sleep(10 * time.Second)
		begin := time.Now()
		for range 20 {
			p.wait(100)
		}
		require.Equal(t, 2*time.Second-catchUp, time.Since(begin))
	})
}

// slowSource takes 30 ms for each Read, in which 200 kB/s are 6 kB.
type slowSource struct{ *bytes.Reader }

func (s *slowSource) Read(p []byte) (int, error) {
	time.Sleep(30 * time.Millisecond)
	return s.Reader.Read(p)
}

// TestRateOfAResumedTransfer: Rate limits only what is sent. What the receiver
// has stored is only hashed; otherwise a transfer that is resumed again and
// again at its Rate would never get beyond that.
func TestRateOfAResumedTransfer(t *testing.T) { overBackends(t, testRateOfAResumedTransfer) }

func testRateOfAResumedTransfer(t *testing.T, via Backend) {
	const rate, size = 200_000, 1 << 20
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.client.streams)
		sent := content(size)
		first := n.mustStart(n.server.peer, sent, Key("k"), Rate(rate))
		for first.Progress().Acked < size*3/4 {
			time.Sleep(time.Millisecond)
		}
		n.rejoin()
		require.ErrorIs(n, (<-got).err, ErrClosed)

		begin := time.Now()
		second := n.mustStart(n.server.peer, sent, Key("k"), Rate(rate))
		require.NoError(n, second.Wait(n.ctx))
		rest := float64(size - second.Progress().Resumed)
		require.InDelta(n, rest/rate, time.Since(begin).Seconds(), 0.5)
		r := <-got
		require.NoError(n, r.err)
		require.True(n, bytes.Equal(sent, r.data))
	})
}

// TestRateIsAGate: what waits in lanes while Config.Rate holds bulk back is no
// more than the gate's queue time at that rate, and no lanes are opened for it:
// so a second transfer begins at once beside a first one.
func TestRateIsAGate(t *testing.T) {
	for _, row := range []struct {
		name   string
		config rpc.Config
	}{
		{"quic", rpc.Config{Rate: 4e6}},
		{"sealed", rpc.Config{Sealed: true, Rate: 4e6}},
		{"sealed world", rpc.Config{Sealed: true, WorldRate: 4e6}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := netsim.Config{Delay: 100 * time.Microsecond, Seed: testkit.Seed(t)}
			overQUICWith(t, path, row.config, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
				got := collect(l.server)
				size := testkit.Brief(5<<20, 8<<20) // more than a second, or two
				first, err := save.Start(l.toServer, bytes.NewReader(content(size)), int64(size))
				require.NoError(t, err)
				for range 10 {
					time.Sleep(100 * time.Millisecond)
					require.Equal(t, defaultLanes, l.toServer.Stats().Lanes)
					require.Less(t, l.toServer.Conn().Stats().Queued, 160<<10, "20 ms, and the RPC that passed the gate")
				}
				begin := time.Now()
				second, err := save.Start(l.toServer, bytes.NewReader(content(64<<10)), 64<<10)
				require.NoError(t, err)
				require.NoError(t, second.Wait(t.Context()))
				require.Less(t, time.Since(begin), 120*time.Millisecond)
				require.NoError(t, first.Wait(t.Context()))
				<-got
				<-got
			})
		})
	}
}
