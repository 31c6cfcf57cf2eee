package stream

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

// Arrays of one element, in RPCs of different sizes.
var (
	tiny   = NewArray[item]("tiny", MaxBytesPerRPC(1000))
	tight  = NewArray[item]("tight", MaxBytesPerRPC(16<<10))
	loose  = NewArray[item]("loose", MaxBytesPerRPC(20<<10))
	larger = NewArray[item]("larger", MaxBytesPerRPC(maxElementBytes))
)

// TestMaxBytesPerRPC: no part has more bytes of elements, or fewer than would fit.
func TestMaxBytesPerRPC(t *testing.T) {
	items := testItems(5000)
	for _, a := range []*Array[item]{tiny, tight, loose, larger} {
		for _, via := range []Backend{Window{}, Slices{}} {
			o := options{window: via.window(), part: a.maxPart}
			size := o.partSize(256, maxRPCBytes)
			require.Equal(t, a.maxPart, size)
			source, count := &arraySource[item]{array: a, items: items}, 0
			for err := error(nil); err == nil; {
				b := newPageBlock(size)
				err = source.fill(b, -1)
				require.LessOrEqual(t, b.size(), a.maxPart)
				if err == nil {
					require.Greater(t, b.size(), a.maxPart-a.elementBytes)
				} else {
					require.ErrorIs(t, err, io.EOF)
				}
				count += b.count
				b.Free()
			}
			require.Equal(t, len(items), count)
		}
	}
	require.Equal(t, partBytes, (&options{window: Window{}.window()}).partSize(256, maxRPCBytes))
	require.Equal(t, slicePartBytes, (&options{}).partSize(8, 1024))
}

func TestMaxBytesPerRPCArrives(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		for _, a := range []*Array[item]{tiny, tight, larger} {
			t.Run(a.name, func(t *testing.T) {
				inNetwork(t, setup{via: via}, func(n *network) {
					var got []item
					a.Handle(n.client.streams, func(in *IncomingArray[item]) {
						in.OnBatch(func(batch []item) { got = append(got, batch...) })
					})
					sent := testItems(2000)
					require.NoError(n, a.Send(n.ctx, n.server.peer, sent))
					require.Equal(n, sent, got)
					require.LessOrEqual(n, n.server.peer.Stats().PeakOut, 256/2-1+bunch.Entries(a.maxPart+rpcOverhead))
				})
			})
		}
	})
}

// TestMaxBytesPerRPCFitsTheBuffer: in a reliable buffer of 32, RPCs of 20 KiB could overflow, so
// they carry less.
func TestMaxBytesPerRPCFitsTheBuffer(t *testing.T) {
	inNetwork(t, setup{rpc: rpc.Config{Bunch: bunch.Config{ReliableBuffer: 32}}}, func(n *network) {
		for _, a := range []*Array[item]{tight, loose, larger} {
			var got []item
			a.Handle(n.client.streams, func(in *IncomingArray[item]) {
				in.OnBatch(func(batch []item) { got = append(got, batch...) })
			})
			sent := testItems(2000)
			require.NoError(n, a.Send(n.ctx, n.server.peer, sent))
			require.Equal(n, sent, got)
			require.LessOrEqual(n, n.server.peer.Stats().PeakOut, 31)
		}
	})
}

func TestMaxBytesPerRPCThatCanNotBe(t *testing.T) {
	for _, bytes := range []int{-1, maxElementBytes + 1} {
		require.PanicsWithValue(t, fmt.Sprintf(`stream: array "x": MaxBytesPerRPC is %d; it must be 1 to 65472, the largest bunch minus headers, or 0 for the default`, bytes),
			func() { NewArray[item]("x", MaxBytesPerRPC(bytes)) })
	}
}

// TestZeroKeepsTheDefault: as documented of both options.
func TestZeroKeepsTheDefault(t *testing.T) {
	require.Equal(t, NewArray[item]("x"), NewArray[item]("x", MaxBytesPerRPC(0), MaxElementBytes(0)))
}
