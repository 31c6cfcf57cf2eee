package sealed

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
)

func BenchmarkSeal(b *testing.B) {
	for id, s := range suites {
		b.Run(tls.CipherSuiteName(id), func(b *testing.B) { benchmarkSeal(b, s) })
	}
}

func benchmarkSeal(b *testing.B, suite *suite) {
	s, err := newSealer(suite, export("bench"), 1, toServer)
	require.NoError(b, err)
	packet := make([]byte, FullPacket)
	b.SetBytes(FullPacket - Overhead)
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		head := appendHeader(packet[:0], ID{1}, n)
		if _, err := s.seal(packet[:len(head)+FullPacket-Overhead], n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	const count = 1024
	s, err := newSealer(aes128, export("bench"), 1, toServer)
	require.NoError(b, err)
	var packets [count][]byte
	for n := range packets {
		head := appendHeader(make([]byte, 0, FullPacket), ID{1}, uint64(n))
		packets[n], err = s.seal(head[:FullPacket-tagBytes], uint64(n))
		require.NoError(b, err)
	}
	o, err := newOpener(aes128, export("bench"), 1, toServer)
	require.NoError(b, err)
	scratch := make([]byte, FullPacket)
	b.SetBytes(FullPacket - Overhead)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%count == 0 {
			o.window = recovery.Window{}
		}
		copy(scratch, packets[n%count])
		if why := o.accept(o.open(scratch)); why != dropNone {
			b.Fatal(why)
		}
	}
}

// BenchmarkForged is what a packet costs that does not open.
func BenchmarkForged(b *testing.B) {
	s, err := newSealer(aes128, export("bench"), 1, toServer)
	require.NoError(b, err)
	o, err := newOpener(aes128, export("bench"), 1, toServer)
	require.NoError(b, err)
	packet, err := s.seal(appendHeader(make([]byte, 0, FullPacket), ID{1}, 5)[:FullPacket-tagBytes], 5)
	require.NoError(b, err)
	packet[FullPacket-1] ^= 1
	scratch := make([]byte, FullPacket)
	b.ReportAllocs()
	for b.Loop() {
		copy(scratch, packet)
		if why := o.accept(o.open(scratch)); why != dropForged {
			b.Fatal(why)
		}
	}
}

// blob is a source of count packets that keeps no more than a bit of each.
type blob struct {
	pieces
	payload []byte
	seen    []bool
	taken   int
	all     chan struct{}
}

func newBlob(size, count, want int) *blob {
	return &blob{pieces: *newPieces(size, count, want), payload: make([]byte, size), seen: make([]bool, want), all: make(chan struct{})}
}

func (s *blob) AppendPayload(_ time.Time, buf []byte, room Room) ([]byte, uint64, Content, bool) {
	var n int
	switch {
	case room.Max < s.size || !room.Bulk:
		return buf, 0, Content{}, false
	case len(s.again) > 0:
		n, s.again = s.again[0], s.again[1:]
	case s.next < s.total:
		n = s.next
		s.next++
	default:
		return buf, 0, Content{}, false
	}
	binary.BigEndian.PutUint32(s.payload, uint32(n))
	return append(buf, s.payload...), uint64(n), Content{Bulk: true}, true
}

func (s *blob) Lost(_ time.Time, token uint64) {
	if !s.acked[token] {
		s.again = append(s.again, int(token))
	}
}

func (s *blob) Receive(_ time.Time, p []byte) {
	if n := binary.BigEndian.Uint32(p); !s.seen[n] {
		s.seen[n] = true
		if s.taken++; s.taken == len(s.seen) {
			close(s.all)
		}
	}
}

// BenchmarkLoopback moves 64 MiB over loopback: sealed packets of 1,232 or 1,452 bytes.
func BenchmarkLoopback(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  SocketConfig
		size int
	}{
		{"offload-1452", SocketConfig{}, FullPacket}, {"plain-1452", SocketConfig{NoOffload: true}, FullPacket},
		{"offload-1232", SocketConfig{}, 1232}, {"plain-1232", SocketConfig{NoOffload: true}, 1232},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkLoopback(b, c.cfg, c.size) })
	}
}

func benchmarkLoopback(b *testing.B, cfg SocketConfig, packet int) {
	near, far := newLoopback(b, cfg), newLoopback(b, cfg)
	client, server := dial(b, near, far)
	size := packet - Overhead - dataHeader
	count := 64 << 20 / size
	b.SetBytes(int64(count * size))
	instance := uint32(1)
	var last CarrierStats
	var received CarrierStats
	for b.Loop() {
		instance++
		source, sink := newBlob(size, count, 0), newBlob(size, 0, count)
		configure := func(c *Config) {
			c.Instance = instance
			c.PathLimit = func() int { return packet }
		}
		ca, cb := carry(b, near, client, true, source, configure), carry(b, far, server, false, sink, configure)
		ca.Start()
		cb.Start()
		select {
		case <-sink.all:
		case <-time.After(time.Minute):
			b.Fatalf("stuck: %+v\n%+v", ca.Stats(), cb.Stats())
		case <-ca.Done():
			b.Fatalf("%v: %+v\n%+v", ca.Err(), ca.Stats(), cb.Stats())
		case <-cb.Done():
			b.Fatalf("%v: %+v\n%+v", cb.Err(), ca.Stats(), cb.Stats())
		}
		last, received = ca.Stats(), cb.Stats()
		ca.Close()
		cb.Close()
	}
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(float64(last.Sent)/float64(last.Writes), "packets/write")
	b.Logf("%+v\n%+v", last, received)
}

// BenchmarkStream is what a QUIC stream that is hashed by its receiver reaches over
// the same sockets. A wrapped socket without offload of its own still has quic-go's.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  SocketConfig
		bare bool
	}{{name: "bare", cfg: SocketConfig{NoOffload: true}, bare: true}, {name: "wrapped-offload"}, {name: "wrapped-plain", cfg: SocketConfig{NoOffload: true}}} {
		b.Run(c.name, func(b *testing.B) {
			near, far := newLoopback(b, c.cfg), newLoopback(b, c.cfg)
			if c.bare {
				near.transport.Conn, far.transport.Conn = near.conn, far.conn
			}
			client, server := dial(b, near, far)
			b.SetBytes(64 << 20)
			for b.Loop() {
				require.NoError(b, stream(context.Background(), client, server, 64<<20))
			}
		})
	}
}

// BenchmarkInbox has 1 MiB of packets wait, as at a busy machine.
func BenchmarkInbox(b *testing.B) {
	in := newInbox(func(bool) {})
	in.allBorrowed = new(atomic.Int64)
	from, packet, now := netip.MustParseAddrPort("127.0.0.1:1"), make([]byte, 1200), time.Now()
	in.setRemote(from)
	b.ReportAllocs()
	b.SetBytes(1 << 20)
	for b.Loop() {
		for range (1 << 20) / len(packet) {
			in.put(now, from, packet)
		}
		in.release(in.take())
	}
	require.Zero(b, in.droppedFull.Load())
}
