package stream

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
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
	path.Rate, path.Seed = 5e6, testkit.Seed(t)
	overRaw(t, path, func(t *testing.T, l loopback) {
		size := 8 << 20
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

// TestAttackOnTheSealedCarrier has somebody who sees all packets send them again, changed and cut, from another address:
// all of it is dropped and counted, and the transfer does not suffer.
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
		l, leave := joinQUIC(t, near, far, rpc.Config{RawCarrier: true}, func(server, client *rpc.World) {})
		l.awaitRaw(t)
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
		took := rawMove(t, l, 4<<20)
		close(done)
		<-stopped
		stats := l.toClient.Conn().Raw().Stats()
		t.Logf("%d packets of an attacker, %d discarded, %v", sent, stats.Discarded, took)
		require.Greater(t, sent, 1000)
		require.NotZero(t, stats.Discarded)
		require.Zero(t, l.toClient.Stats().SlicesRefused)
		require.Less(t, took, 3*time.Second)
		require.NoError(t, l.toServer.Conn().Err())
		require.Equal(t, Raw, l.toServer.sealed.carrier())
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

// TestCreditFindsRoom sends all that credit allows, in chunks that waste the most, while the first is missing: the inbox
// refuses nothing, for the sealed carrier has told by then that it arrived.
func TestCreditFindsRoom(t *testing.T) {
	var config Config
	for _, payload := range []int{1, sliceBytes - 1, sliceBytes + 1, 10*sliceBytes + 1, slicePartBytes} {
		var s slicer
		box := newMendBox(newAccount(newBudget(0), &config).early)
		for left := int(config.early()); left > 0 && !s.full(); left -= payload {
			require.NoError(t, s.send(newBlock(1), content(min(payload, left)+maxPartHeader)))
		}
		for {
			slice, _, ok := s.next(netsim.Epoch)
			if !ok {
				break
			}
			if slice.ChunkID > 0 {
				box.add(netsim.Epoch, slice)
			}
		}
		require.Zero(t, box.refused, "parts of %d bytes", payload)
		require.Empty(t, box.messages)
	}
}

// TestWhatIsNotKeptComesAgain: the carrier says that slices arrived, but the peer had no room for them.
func TestWhatIsNotKeptComesAgain(t *testing.T) {
	a, b := newSealedEnd(), newSealedEnd()
	b.inbox.account = newRoom(chunkBytes(slicePartSlices))
	var sent, got [][]byte
	for range 3 {
		sent = append(sent, content(slicePartBytes))
		require.NoError(t, a.send(newBlock(1), sent[len(sent)-1]))
	}
	now, first := a.moved, true
	for turn := 0; !a.idle(); turn++ {
		require.Less(t, turn, 100)
		a.pass(now, b, func(payload []byte) bool {
			p, err := a.format.Parse(payload[1:])
			require.NoError(t, err)
			return first && p.Kind == chunk.KindSlice && p.Slice.ChunkID == 0
		})
		first = false
		b.pass(now, a, func([]byte) bool { return false })
		next, ok := a.source.NextTimeout()
		if at, soon := b.source.NextTimeout(); soon && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		require.True(t, ok || a.idle(), "somebody has to move")
		now, got = next, append(got, b.inbox.drain()...)
		a.source.Advance(now)
		b.source.Advance(now)
	}
	require.NotZero(t, b.inbox.refused)
	require.Equal(t, sent, got)
}

// TestWhatIsNotKeptComesAgainOverQUIC: the same, when the sealed carrier falls silent before anybody has noticed.
func TestWhatIsNotKeptComesAgainOverQUIC(t *testing.T) {
	a, b := newSealedEnd(), newSealedEnd()
	b.inbox.account = newRoom(0)
	sent, got := [][]byte{content(100), content(200)}, [][]byte(nil)
	for _, message := range sent {
		require.NoError(t, a.send(newBlock(1), message))
	}
	now := a.moved
	first := true
	a.pass(now, b, func([]byte) bool { dropped := first; first = false; return dropped })
	require.NotZero(t, b.inbox.refused)
	b.inbox.account = newRoom(1 << 20)
	a.move(false, 0)
	b.move(false, 0)
	for turn := 0; !a.idle(); turn++ {
		require.Less(t, turn, 100)
		for _, way := range [][2]sealedEnd{{a, b}, {b, a}} {
			for p, _, ok := way[0].AppendPacket(now, nil, sliceDatagram); ok; p, _, ok = way[0].AppendPacket(now, nil, sliceDatagram) {
				require.NoError(t, way[1].Receive(now, p))
			}
		}
		next, ok := a.NextTimeout()
		if at, soon := b.NextTimeout(); soon && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		require.True(t, ok && next.Sub(now) < 5*time.Second || a.idle(), "somebody has to move soon")
		now, got = next, append(got, b.inbox.drain()...)
		require.NoError(t, a.Advance(now))
		require.NoError(t, b.Advance(now))
	}
	require.Equal(t, sent, append(got, b.inbox.drain()...))
}

// TestRepairWaitsForOneSlice: two repair slices and one of three lost ones make a chunk, and nothing is kept of them.
func TestRepairWaitsForOneSlice(t *testing.T) {
	a, b := newSealedEnd(), newSealedEnd()
	message := content(slicePartBytes)
	all := slicesOf(t, &a.slicer, message)
	var r repairs
	r.loss.decided = priorMemory
	repair := repairsOf(t, &r, &a.slicer, 0.1)
	receive := func(s chunk.Slice) {
		b.source.Receive(netsim.Epoch, sliceConfig().AppendSlice([]byte{sealedProtocol}, s))
	}
	for _, s := range all[3:] {
		receive(s)
	}
	for _, p := range repair[:2] {
		b.source.Receive(netsim.Epoch, p.append(nil))
	}
	require.Empty(t, b.inbox.messages)
	receive(all[1])
	require.Equal(t, [][]byte{message}, b.inbox.drain())
	require.EqualValues(t, 2, b.mender.mended)
	require.Zero(t, b.mender.held)
}
