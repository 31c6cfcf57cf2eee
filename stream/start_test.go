package stream

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// TestStart: a transfer that begins with the connection knows the path, and
// waits but for the actor that it is called on, half a round trip.
func TestStart(t *testing.T) {
	const size = 256 << 10
	for after, most := range map[time.Duration]time.Duration{0: 83 * time.Millisecond, 50 * time.Millisecond: 60 * time.Millisecond, time.Second: 60 * time.Millisecond} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 100e6, Seed: testkit.Seed(t)}
		overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
			time.Sleep(after)
			sent, got := content(size), collect(l.server)
			begin := time.Now()
			_, err := save.Start(l.toServer, bytes.NewReader(sent), size, Via(Slices{}))
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, (<-got).data))
			require.Less(t, time.Since(begin), most, "begun after %v; half a round trip and the bytes are 46 ms", after)
			require.Zero(t, l.toServer.Conn().Stats().Sealed.PacketsLost)
		})
	}
}

// TestFirstFlightOfALongTransfer: before anything of a long transfer is known to arrive, an
// eighth of what the path holds is sent, because others may begin at the same time. Windows,
// which hold little at a time, were once taken for short transfers, and sent all of it.
func TestFirstFlightOfALongTransfer(t *testing.T) {
	const product = 20e6 / 8 * 0.05
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)}
	for _, via := range []Backend{Window{}, Slices{}} {
		for _, size := range []int64{4 << 20, -1} {
			overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
				time.Sleep(time.Second)
				before := l.toServer.Conn().Stats().Sealed.BytesOut
				sent, got := content(4<<20), collect(l.server)
				_, err := save.Start(l.toServer, bytes.NewReader(sent), size, Via(via))
				require.NoError(t, err)
				time.Sleep(40 * time.Millisecond)
				require.Less(t, l.toServer.Conn().Stats().Sealed.BytesOut-before, uint64(product/4), "%T, size %d", via, size)
				require.True(t, bytes.Equal(sent, (<-got).data))
			})
		}
	}
}

// TestLeft follows what a sender has yet to give the connection.
func TestLeft(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		left := func(size, next int64, finished bool) int64 {
			tr := newTransfer(n.client.peer, header{kind: kindBlob, size: size}, options{}, nil)
			tr.allowance.next, tr.reader.finished, tr.reader.total.size = next, finished, 5000
			return tr.unsentBytes()
		}
		require.EqualValues(t, 700, left(1000, 300, false))
		require.EqualValues(t, firstCredit, left(-1, 300, false), "nobody knows how many")
		require.EqualValues(t, 4700, left(-1, 300, true), "the source has ended")
		require.Zero(t, left(-1, 9000, true))
	})
}

// TestTransfersBehindSmallOnes: what small transfers do not use of the bytes that may
// be sent before headers are answered is for the next ones. A transfer of 20 kB once
// took all of it, so that the next one waited for its answer, a whole round trip.
func TestTransfersBehindSmallOnes(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, delay: 100 * time.Millisecond}, func(n *network) {
			got := collect(n.client.streams)
			time.Sleep(time.Second)
			for _, size := range []int64{20_000, -1, 20_000} { // all three fit the path's window
				begin := time.Now()
				_, err := save.Start(n.server.peer, bytes.NewReader(content(20_000)), size)
				require.NoError(n, err)
				require.NoError(n, (<-got).err)
				require.Less(n, time.Since(begin), 200*time.Millisecond)
			}
		})
	})
}

// TestTransferBehindOneThatFails: what was sent of a transfer before its answer
// counts until the receiver knows that its source has failed. When it no longer
// counted, and the receiver's world was stuck, the next transfer was a violation.
func TestTransferBehindOneThatFails(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via}, func(n *network) {
			got := collect(n.server.streams)
			time.Sleep(time.Second)
			n.do(n.server.world, func() {
				hangs := make(chan struct{})
				go func() {
					defer close(hangs)
					_, err := save.Start(n.client.peer, io.MultiReader(bytes.NewReader(content(900<<10)), iotest.ErrReader(io.ErrClosedPipe)), 1<<20)
					require.NoError(n, err)
					time.Sleep(200 * time.Millisecond)
					n.mustStart(n.client.peer, content(1<<20))
					time.Sleep(200 * time.Millisecond)
				}()
				<-hangs
			})
			require.ErrorIs(n, (<-got).err, ErrCanceled)
			require.NoError(n, (<-got).err)
		})
	})
}
