package stream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/slices"
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

// TestPayloadTravelsSealed counts the bytes: with an open carrier at least 99 %
// of what both ends send of content.
func TestPayloadTravelsSealed(t *testing.T) {
	path := sealedPath
	path.Seed = testkit.Seed(t)
	overSealed(t, path, func(t *testing.T, l loopback) {
		conn, size := l.toServer.Conn(), 8<<20
		before, quic := conn.Stats().Sealed.BytesOut, conn.Stats().BytesOut
		sent, got := content(size), collect(l.server)
		require.NoError(t, save.Send(t.Context(), l.toServer, bytes.NewReader(sent), int64(size), Via(Slices{})))
		require.True(t, bytes.Equal(sent, (<-got).data))
		sealed, rest := conn.Stats().Sealed.BytesOut-before, conn.Stats().BytesOut-quic
		t.Logf("%d bytes sealed, %d over QUIC", sealed, rest)
		require.GreaterOrEqual(t, sealed, uint64(size))
		require.Less(t, rest, uint64(size/100))
		stats := l.toServer.Stats()
		require.Equal(t, stats.Slices, stats.SlicesSealed)
		bulk := conn.Stats()
		require.GreaterOrEqual(t, bulk.SliceBytesOut, uint64(size))
		require.Greater(t, bulk.SliceRateOut, float64(size)/10, "a second of 20 Mbit/s")
		require.Zero(t, bulk.ActorsOpen)
		require.Greater(t, bulk.ChannelsOpen, 1, "the streams have one of their own")
		require.Zero(t, l.toClient.Stats().SlicesRefused)
	})
}

// TestTransferMovesBetweenCarriers blocks sealed packets in the middle of a
// transfer: it continues over QUIC after what is acked, reports that, and
// returns when the path takes sealed packets again.
func TestTransferMovesBetweenCarriers(t *testing.T) {
	var sealed gate
	path := sealed.over(sealedPath)
	path.Rate, path.Seed = 5e6, testkit.Seed(t)
	overSealed(t, path, func(t *testing.T, l loopback) {
		size := 8 << 20
		sent, got := content(size), collect(l.server)
		transfer, err := save.Start(l.toServer, bytes.NewReader(sent), int64(size), Via(Slices{}))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.True(t, transfer.Sealed())
		sealed.shut.Store(true)
		time.Sleep(3 * time.Second)
		require.False(t, transfer.Sealed())
		moved := transfer.Progress().Acked
		time.Sleep(time.Second)
		require.Greater(t, transfer.Progress().Acked, moved, "the transfer goes on")
		sealed.shut.Store(false)
		for range 30 {
			if time.Sleep(time.Second); transfer.Sealed() {
				break
			}
		}
		require.True(t, transfer.Sealed())
		require.NoError(t, transfer.Wait(t.Context()))
		require.True(t, bytes.Equal(sent, (<-got).data))
		stats := l.toServer.Stats()
		t.Logf("%+v", stats)
		require.Less(t, stats.Slices, uint64(size/slices.Size)*115/100, "what arrived is not sent again")
		require.Greater(t, stats.SlicesSealed, stats.Slices/4)
		require.Less(t, stats.SlicesSealed, stats.Slices)
	})
}

// TestBackendsShareTheSealedCarrier: a transfer by one backend gets its share beside
// a larger one by the other. Slices once waited until no window had anything left.
func TestBackendsShareTheSealedCarrier(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)}
	for _, via := range [][2]Backend{{Window{}, Slices{}}, {Slices{}, Window{}}} {
		overSealed(t, path, func(t *testing.T, l loopback) {
			took, begin := make(chan time.Duration, 1), time.Now()
			save.Handle(l.server, func(in *IncomingBlob) {
				go func() {
					_, _ = io.Copy(io.Discard, in)
					if in.Name() == "small" {
						took <- time.Since(begin)
					}
				}()
			})
			_, err := save.Start(l.toServer, generated(4<<20), 4<<20, Via(via[0]))
			require.NoError(t, err)
			_, err = save.Start(l.toServer, generated(1<<20), 1<<20, Via(via[1]), Name("small"))
			require.NoError(t, err)
			small := <-took
			t.Logf("%T beside %T: %v", via[1], via[0], small)
			require.Greater(t, small, 600*time.Millisecond, "half of the path are 0.9 s")
			require.Less(t, small, 1300*time.Millisecond)
		})
	}
}

// TestSealedAfterTheConnection: an ended connection sends nothing, but a
// transfer that it interrupted still reports what was used last.
func TestSealedAfterTheConnection(t *testing.T) {
	for _, via := range []Backend{Slices{}, Window{}} {
		for _, shut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%T, sealed packets lost %v", via, shut), func(t *testing.T) {
				var sealed gate
				path := sealed.over(sealedPath)
				path.Rate, path.Seed = 5e6, testkit.Seed(t)
				overSealed(t, path, func(t *testing.T, l loopback) {
					save.Handle(l.server, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
					transfer, err := save.Start(l.toServer, bytes.NewReader(content(8<<20)), 8<<20, Via(via))
					require.NoError(t, err)
					time.Sleep(time.Second)
					require.True(t, transfer.Sealed())
					sealed.shut.Store(shut)
					time.Sleep(3 * time.Second)
					require.Equal(t, !shut, transfer.Sealed())
					l.toServer.Conn().Close(2000, "cut")
					require.ErrorIs(t, transfer.Wait(t.Context()), ErrClosed)
					require.Equal(t, !shut, transfer.Sealed())
				})
			})
		}
	}
}

// TestCarrierThatNeverOpens: the transfer goes over QUIC, with slices of its own.
func TestCarrierThatNeverOpens(t *testing.T) {
	var sealed gate
	sealed.shut.Store(true)
	path := sealed.over(sealedPath)
	path.Seed = testkit.Seed(t)
	size := testkit.Brief(1<<20, 4<<20)
	overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		for _, to := range []struct {
			peer *Peer
			from *Streams
		}{{l.toServer, l.server}, {l.toClient, l.client}} {
			sent, got := content(size), collect(to.from)
			transfer, err := save.Start(to.peer, bytes.NewReader(sent), int64(len(sent)), Via(Slices{}))
			require.NoError(t, err)
			require.NoError(t, transfer.Wait(t.Context()))
			require.False(t, transfer.Sealed())
			require.True(t, bytes.Equal(sent, (<-got).data))
			require.Zero(t, to.peer.Stats().SlicesSealed)
		}
	})
}

// TestTransferThatBeginsAtJoin moves to the sealed carrier when that has opened.
func TestTransferThatBeginsAtJoin(t *testing.T) {
	path := sealedPath
	path.Seed = testkit.Seed(t)
	overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		sent, got := content(4<<20), collect(l.server)
		transfer, err := save.Start(l.toServer, bytes.NewReader(sent), int64(len(sent)), Via(Slices{}))
		require.NoError(t, err)
		require.NoError(t, transfer.Wait(t.Context()))
		require.True(t, transfer.Sealed())
		require.True(t, bytes.Equal(sent, (<-got).data))
		stats := l.toServer.Stats()
		t.Logf("%+v", stats)
		require.Greater(t, stats.SlicesSealed, stats.Slices*9/10)
		require.Less(t, stats.SlicesResent, stats.Slices/10)
	})
}

// TestAttackOnTheSealedCarrier: an attacker who sees all packets sends them
// again, changed and truncated, from another address. All of them are dropped
// and counted, and the transfer is not affected.
func TestAttackOnTheSealedCarrier(t *testing.T) {
	random := testkit.Rand(t)
	var mu sync.Mutex
	var seen [][]byte
	path := sealedPath
	path.Seed, path.Duplicate = random.Uint64(), 0.05
	path.Lose = func(_ uint64, p []byte) bool {
		if sealedPacket(p) {
			mu.Lock()
			seen = append(seen, bytes.Clone(p))
			mu.Unlock()
		}
		return false
	}
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(path, path)
		attacker := netsim.NewPacketConn()
		netsim.Connect(attacker, far, netsim.Config{}, netsim.Config{})
		l, leave := joinQUIC(t, near, far, rpc.Config{Sealed: true}, func(server, client *rpc.World) {})
		l.awaitSealed(t)
		done, stopped := make(chan struct{}), make(chan struct{})
		sent := 0
		go func() {
			defer close(stopped)
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				mu.Lock()
				for range 4 {
					if old := len(seen) - 300; old > 0 { // a faster path than the peer's is another matter
						_, _ = attacker.WriteTo(mangled(bytes.Clone(seen[random.IntN(old)]), random), far.LocalAddr())
					}
					sent++
				}
				mu.Unlock()
			}
		}()
		took := sealedMove(t, l, 4<<20)
		close(done)
		<-stopped
		stats := l.toClient.Conn().Stats().Sealed
		t.Logf("%d packets of an attacker, %d discarded, %v", sent, stats.Discarded, took)
		require.Greater(t, sent, 1000)
		require.NotZero(t, stats.Discarded)
		require.Zero(t, l.toClient.Stats().SlicesRefused)
		require.Less(t, took, 3*time.Second)
		require.NoError(t, l.toServer.Conn().Err())
		require.True(t, l.toServer.Conn().Sealed())
		leave()
		time.Sleep(time.Minute)
		_, _, _ = near.Close(), far.Close(), attacker.Close()
	})
}

// mangled is a packet as an attacker may send it again.
func mangled(p []byte, random *rand.Rand) []byte {
	switch random.IntN(6) {
	case 0: // as it is
	case 1:
		p[random.IntN(len(p))] ^= 1 << random.IntN(8)
	case 2:
		p = p[:random.IntN(len(p))+1]
	case 3:
		p = append(p, make([]byte, 1+random.IntN(40))...)
	case 4:
		p[0] = 0x04 + byte(random.IntN(12))
	case 5:
		for i := range p[1:9] {
			p[1+i] = byte(random.Uint32())
		}
	}
	return p
}

// TestCreditFindsRoom sends all that credit allows, in chunks that waste the
// most, while the first is missing: the machine refuses nothing, because by
// then the sealed carrier has reported that it arrived.
func TestCreditFindsRoom(t *testing.T) {
	var config Config
	for _, payload := range []int{1, slices.Size - 1, slices.Size + 1, 10*slices.Size + 1, slicePartBytes} {
		var messages [][]byte
		for left := int(config.early()); left > 0 && len(messages) < slices.ReservedRecords; left -= payload {
			messages = append(messages, content(min(payload, left)+maxPartHeader))
		}
		box := slices.New(sliceProtocol, newRoom(config.terms(config.early()).Early))
		first := (len(messages[0]) + slices.Size - 1) / slices.Size
		for _, datagram := range datagramsOf(t, messages...)[first:] {
			require.NoError(t, box.Receive(netsim.Epoch, datagram))
		}
		require.Zero(t, box.Stats().Refused, "parts of %d bytes", payload)
		require.Empty(t, box.Take())
	}
}
