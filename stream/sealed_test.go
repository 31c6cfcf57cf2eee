package stream

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// sealedPacket reports whether a packet is the sealed carrier's.
func sealedPacket(p []byte) bool { return p[0] >= 0x04 && p[0] <= 0x0f }

// gate drops sealed packets while it is shut.
type gate struct{ shut atomic.Bool }

func (g *gate) over(path netsim.Config) netsim.Config {
	path.Lose = func(_ uint64, p []byte) bool { return g.shut.Load() && sealedPacket(p) }
	return path
}

var sealedPath = netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Loss: 0.01}

// TestPayloadTravelsSealed counts the bytes: with an open carrier at least 99 % of what both ends send of content.
func TestPayloadTravelsSealed(t *testing.T) {
	path := sealedPath
	path.Seed = testkit.Seed(t)
	overRaw(t, path, func(t *testing.T, l loopback) {
		conn, size := l.toServer.Conn(), 8<<20
		before, quic := conn.Raw().Stats().PayloadBytesOut, conn.Stats().BytesOut
		sent, got := content(size), collect(l.server)
		require.NoError(t, save.Send(t.Context(), l.toServer, bytes.NewReader(sent), int64(size), Via(Slices{Carrier: Raw})))
		require.True(t, bytes.Equal(sent, (<-got).data))
		sealed, rest := conn.Raw().Stats().PayloadBytesOut-before, conn.Stats().BytesOut-quic
		t.Logf("%d bytes sealed, %d over QUIC", sealed, rest)
		require.GreaterOrEqual(t, sealed, uint64(size))
		require.Less(t, rest, uint64(size/100))
		stats := l.toServer.Stats()
		require.Equal(t, stats.Slices, stats.SlicesSealed)
		require.Zero(t, l.toClient.Stats().SlicesRefused)
	})
}

// TestTransferMovesBetweenCarriers shuts out sealed packets in the middle of a transfer: it goes on over QUIC with what is
// acked, says so, and returns when the path takes sealed packets again.
func TestTransferMovesBetweenCarriers(t *testing.T) {
	var sealed gate
	path := sealed.over(sealedPath)
	path.Seed = testkit.Seed(t)
	overRaw(t, path, func(t *testing.T, l loopback) {
		size := 32 << 20
		sent, got := content(size), collect(l.server)
		transfer, err := save.Start(l.toServer, bytes.NewReader(sent), int64(size), Via(Slices{Carrier: Raw}))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, Raw, transfer.Carrier())
		sealed.shut.Store(true)
		time.Sleep(3 * time.Second)
		require.Equal(t, QUIC, transfer.Carrier())
		moved := transfer.Progress().Acked
		time.Sleep(time.Second)
		require.Greater(t, transfer.Progress().Acked, moved, "the transfer goes on")
		sealed.shut.Store(false)
		for range 30 {
			if time.Sleep(time.Second); transfer.Carrier() == Raw {
				break
			}
		}
		require.Equal(t, Raw, transfer.Carrier())
		require.NoError(t, transfer.Wait(t.Context()))
		require.True(t, bytes.Equal(sent, (<-got).data))
		stats := l.toServer.Stats()
		t.Logf("%+v", stats)
		require.Less(t, stats.Slices, uint64(size/sliceBytes)*115/100, "what arrived is not sent again")
		require.Greater(t, stats.SlicesSealed, stats.Slices/4)
		require.Less(t, stats.SlicesSealed, stats.Slices)
	})
}

// TestCarrierThatNeverOpens: the transfer goes over QUIC, with slices of its own.
func TestCarrierThatNeverOpens(t *testing.T) {
	var sealed gate
	sealed.shut.Store(true)
	path := sealed.over(sealedPath)
	path.Seed = testkit.Seed(t)
	overQUICWith(t, path, rpc.Config{RawCarrier: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		for _, to := range []struct {
			peer *Peer
			from *Streams
		}{{l.toServer, l.server}, {l.toClient, l.client}} {
			sent, got := content(4<<20), collect(to.from)
			transfer, err := save.Start(to.peer, bytes.NewReader(sent), int64(len(sent)), Via(Slices{Carrier: Raw}))
			require.NoError(t, err)
			require.NoError(t, transfer.Wait(t.Context()))
			require.Equal(t, QUIC, transfer.Carrier())
			require.True(t, bytes.Equal(sent, (<-got).data))
			require.Zero(t, to.peer.Stats().SlicesSealed)
		}
	})
}

// TestTransferThatBeginsAtJoin moves to the sealed carrier when that has opened.
func TestTransferThatBeginsAtJoin(t *testing.T) {
	path := sealedPath
	path.Seed = testkit.Seed(t)
	overQUICWith(t, path, rpc.Config{RawCarrier: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		sent, got := content(4<<20), collect(l.server)
		transfer, err := save.Start(l.toServer, bytes.NewReader(sent), int64(len(sent)), Via(Slices{Carrier: Raw}))
		require.NoError(t, err)
		require.NoError(t, transfer.Wait(t.Context()))
		require.Equal(t, Raw, transfer.Carrier())
		require.True(t, bytes.Equal(sent, (<-got).data))
		stats := l.toServer.Stats()
		t.Logf("%+v", stats)
		require.Greater(t, stats.SlicesSealed, stats.Slices*9/10)
		require.Less(t, stats.SlicesResent, stats.Slices/10)
	})
}
