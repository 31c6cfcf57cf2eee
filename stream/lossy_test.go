package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNothingIsLostOnALossyPath also holds the outstanding entries to R/2-1+N.
func TestNothingIsLostOnALossyPath(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5} {
		for _, lanes := range []int{1, 4} {
			t.Run(fmt.Sprintf("%v/%d lanes", loss, lanes), func(t *testing.T) {
				random := testkit.Rand(t)
				inNetwork(t, setup{}, func(n *network) {
					for _, carrier := range n.pipe {
						draws := rand.New(rand.NewPCG(random.Uint64(), 2))
						carrier.SetDrop(func([]byte) bool { return draws.Float64() < loss })
					}
					got := collect(n.client.streams)
					sent := content(2 << 20)
					transfer := n.mustStart(n.server.peer, sent, Lanes(lanes))
					n.checkArray(n.client, n.server, testItems(5000))
					require.NoError(n, transfer.Wait(n.ctx))
					require.True(n, bytes.Equal(sent, (<-got).data))
					stats := n.server.peer.Stats()
					require.Equal(n, 256, stats.Slots)
					require.LessOrEqual(n, stats.PeakOut, 256/2-1+30)
				})
			})
		}
	}
}

// TestPausedTransferIsNotTakenOver: an application that does not read, or a
// sender with nothing to send, does not mean that the connection is dead. A
// second transfer of the same content continues without being stored.
func TestPausedTransferIsNotTakenOver(t *testing.T) {
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprintf("one connection %v", same), func(t *testing.T) {
			inNetwork(t, setup{server: Config{Store: newMemoryStore()}}, func(n *network) {
				const pause = 10 * time.Second
				ended := make(chan error, 2)
				save.Handle(n.server.streams, func(in *IncomingBlob) {
					go func() {
						if in.Name() == "paused" {
							_, _ = io.ReadFull(in, make([]byte, 1000))
							time.Sleep(pause)
						}
						_, err := io.Copy(io.Discard, in)
						ended <- err
					}()
				})
				sent := content(8 << 20)
				first := n.mustStart(n.client.peer, sent, Key("k"), Name("paused"))
				time.Sleep(time.Second)
				if !same {
					n.connect()
				}
				second := n.mustStart(n.client.peer, sent, Key("k"), Name("second"))
				require.NoError(n, second.Wait(n.ctx))
				require.NoError(n, <-ended)
				require.NoError(n, first.Wait(n.ctx))
				require.NoError(n, <-ended)
			})
		})
	}
}

// TestStrangersTakeNothingOver: a peer without an identity takes over transfers
// from the same address, and none of another address. These were once canceled
// in any second in which nothing arrived.
func TestStrangersTakeNothingOver(t *testing.T) {
	inNetwork(t, setup{server: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.server.streams)
		begin := func(ip string) (*Transfer, []byte) {
			n.from = &net.UDPAddr{IP: net.ParseIP(ip)}
			n.connect()
			sent := content(4 << 20)
			return n.mustStart(n.client.peer, sent, Key("k")), sent
		}
		first, sent := begin("192.0.2.1")
		for first.Progress().Acked < 1<<20 {
			time.Sleep(time.Millisecond)
		}
		pipe := n.pipe
		for _, carrier := range pipe {
			carrier.SetDrop(func([]byte) bool { return true })
		}
		second, _ := begin("192.0.2.2")
		require.NoError(n, second.Wait(n.ctx))
		require.NoError(n, (<-got).err)
		require.EqualValues(n, 1, n.server.peer.Stats().Unstored)
		for _, carrier := range pipe {
			carrier.SetDrop(nil)
		}
		require.NoError(n, first.Wait(n.ctx))
		require.True(n, bytes.Equal(sent, (<-got).data))
	})
}

// TestStalledTransferIsTakenOver cuts a client off silently; it reconnects
// before the server has noticed.
func TestStalledTransferIsTakenOver(t *testing.T) { overBackends(t, testStalledTransferIsTakenOver) }

func testStalledTransferIsTakenOver(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, server: Config{Store: newMemoryStore(), MaxPending: firstCredit}}, func(n *network) {
		got := collect(n.server.streams)
		sent := content(4 << 20)
		first := n.mustStart(n.client.peer, sent, Key("k"))
		for first.Progress().Acked < 2<<20 {
			time.Sleep(time.Millisecond)
		}
		for _, carrier := range n.pipe {
			carrier.SetDrop(func([]byte) bool { return true })
		}
		n.connect()
		second := n.mustStart(n.client.peer, sent, Key("k"))
		begin := time.Now()
		require.NoError(n, second.Wait(n.ctx))
		require.Less(n, time.Since(begin), 10*time.Second)
		require.ErrorIs(n, (<-got).err, ErrCanceled)
		require.True(n, bytes.Equal(sent, (<-got).data))
		require.Less(n, n.client.peer.Conn().Stats().BytesOut, uint64(2<<20+100_000))
	})
}
