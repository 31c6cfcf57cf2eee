package slices

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
)

// BenchmarkMachine sends a full part from one machine to another, over a path
// without fates and over one that reports them.
func BenchmarkMachine(b *testing.B) {
	b.Run("gated", func(b *testing.B) { benchMachine(b, recovery.Path{}) })
	b.Run("fated", func(b *testing.B) { benchMachine(b, recovery.Path{Fates: true}) })
}

func benchMachine(b *testing.B, path recovery.Path) {
	from, to := New(protocol, newRoom(8<<20)), New(protocol, newRoom(8<<20))
	from.SetPath(netsim.Epoch, path)
	to.SetPath(netsim.Epoch, path)
	now, message := netsim.Epoch, content(partBytes)
	var there, back [Datagram]byte
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, from.Send(message, memory{}))
		for !from.out.idle() {
			now = now.Add(time.Millisecond)
			_ = from.Advance(now)
			exchange(now, from, to, there[:0])
			_ = to.Advance(now)
			exchange(now, to, from, back[:0])
		}
		to.GiveBack(to.in.drain())
	}
}

// exchange delivers all datagrams that may be sent now.
func exchange(now time.Time, from, to *Machine, buf []byte) {
	for {
		packet, number, ok := from.AppendPacket(now, buf, Datagram)
		if !ok {
			return
		}
		_ = to.Receive(now, packet)
		if from.path.Fates {
			from.Fate(now, number, true)
		}
	}
}

// BenchmarkScatteredAcks: what an ack costs that acks one more slice of a chunk,
// while many others are in flight over QUIC and none of them counts as lost yet.
func BenchmarkScatteredAcks(b *testing.B) {
	const flight = 8_000
	var c control
	var o outbox
	now := time.Unix(1, 0)
	o.since(now)
	for range flight {
		o.flight.launch(sending{id: 1})
	}
	c.reached = flight
	c.gate.Assume(time.Hour, 0)
	o.chunks.Push(minChunks)
	for b.Loop() {
		c.detect(time.Second, &o, 0, flight)
	}
	if c.lost > 0 {
		b.Fatal(c.lost)
	}
}

// poor is an account whose credit is used up, and whose memory is not.
type poor struct{ *room }

func (poor) Hold(int64, bool) bool { return false }

// BenchmarkRefused measures a repair slice and a slice of the awaited chunk for
// which there is no credit. The first is kept, and the second makes it be dropped.
func BenchmarkRefused(b *testing.B) {
	m, now := New(protocol, poor{newRoom(0)}), netsim.Epoch
	m.SetPath(now, recovery.Path{Fates: true})
	mend := repair{id: Pipeline - 1, count: 20, total: 3, last: Size, shard: content(Size)}.append(nil)
	slice := config.AppendSlice([]byte{protocol}, chunk.Slice{Index: 1, Count: 2, Data: content(1)})
	for b.Loop() {
		_ = m.Receive(now, mend)
		_ = m.Receive(now, slice)
	}
	require.EqualValues(b, b.N, m.in.refused)
}
