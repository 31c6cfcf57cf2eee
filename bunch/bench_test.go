package bunch

import (
	"testing"
)

// BenchmarkSmall sends reliable messages of 32 bytes, 300 a tick, which merge,
// through both machines.
func BenchmarkSmall(b *testing.B) { benchmarkMessages(b, Normal, 32, 300) }

// BenchmarkSingle is one small reliable message a packet, with its acks.
func BenchmarkSingle(b *testing.B) { benchmarkMessages(b, Normal, 100, 1) }

// Benchmark32K streams at a maximum of 1,404 bytes, without a network between.
func Benchmark32K(b *testing.B) { benchmarkMessages(b, Bulk, 32<<10, 4) }

func benchmarkMessages(b *testing.B, priority Priority, size, batch int) {
	s := newSteady(b, priority)
	payload := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	got := 0
	for n := 0; n < b.N; n += batch {
		for range batch {
			if err := s.ends[0].Send(s.channel, Reliable, payload); err != nil {
				b.Fatal(err)
			}
		}
		s.exchange()
		got += s.fetch()
		if n%64 == 0 {
			s.tick()
			s.exchange()
		}
	}
	b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkTracked hands over updates as a server of many actors does, of which
// most are updated in every third tick: 120, 4 and 4.
func BenchmarkTracked(b *testing.B) {
	s := newSteady(b, Normal)
	s.channel = s.opened(Normal)
	payload := make([]byte, 12)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		updates := 4
		if n%3 == 0 {
			updates = 120
		}
		for i := range updates {
			if err := s.ends[0].SendTracked(s.channel, uint64(i), payload); err != nil {
				b.Fatal(err)
			}
		}
		s.exchange()
		s.fetch()
		s.tick()
		s.exchange()
		var fates [64]Fate
		for s.ends[0].Fates(fates[:]) > 0 {
		}
	}
}

// BenchmarkReceiveAcks takes acks with gaps while 2,000 packets fly.
func BenchmarkReceiveAcks(b *testing.B) {
	c, ch := newClient(b, Config{ReliableBuffer: 16384})
	c.flow.raise(1 << 40)
	payload := make([]byte, 1098)
	buf := make([]byte, 0, 1500)
	for i := range b.N {
		b.StopTimer()
		for c.sent.Next < uint64(2000+8*i) {
			if out, slots := c.Reliable(ch); out < slots-2 {
				if err := c.Send(ch, Reliable, payload); err != nil {
					b.Fatal(err)
				}
			} else if err := c.Send(ch, Unreliable, payload); err != nil {
				b.Fatal(err)
			}
			if _, _, ok := c.AppendPacket(epoch, buf, 1200); !ok {
				b.Fatal("nothing to send")
			}
		}
		h := packetHeader{flags: flagAcks, number: uint32(i), largest: uint32(8*i + 8), nruns: 3, runs: [maxAckRuns]uint64{6, 1, 1}}
		packet := appendPacketHeader(nil, &h)
		b.StartTimer()
		if err := c.Receive(epoch, packet); err != nil {
			b.Fatal(err)
		}
	}
}
