package vital

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exchange sends 20 chunks from a to b, vital and not, and the acknowledgement back.
func exchange(a, b *Conn, now time.Time, data, buf []byte) (chunks int) {
	for i := range 20 {
		if a.Send(Flags(i&1), data) != nil {
			return -1
		}
	}
	a.Flush()
	for _, pair := range [][2]*Conn{{a, b}, {b, a}} {
		for p, _, ok := pair[0].AppendPacket(now, buf[:0], 1400); ok; p, _, ok = pair[0].AppendPacket(now, buf[:0], 1400) {
			if pair[1].Receive(now, p) != nil {
				return -1
			}
		}
		for _, ok := b.Next(); ok; _, ok = b.Next() {
			chunks++
		}
		now = now.Add(200 * time.Millisecond)
	}
	return chunks
}

func TestAllocations(t *testing.T) {
	a, b := newConn(t, Config{}), newConn(t, Config{})
	data, buf, now := content(100, 1), make([]byte, 0, 1400), epoch
	for range 50 { // so that all queues are there
		now = now.Add(time.Second)
		exchange(a, b, now, data, buf)
	}
	require.Zero(t, testing.AllocsPerRun(200, func() {
		now = now.Add(time.Second)
		if exchange(a, b, now, data, buf) != 20 {
			t.Fatal("not all arrived")
		}
	}), "Send, AppendPacket, Receive and Next")
	require.Zero(t, a.Outstanding())

	require.Zero(t, testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		exchange(a, b, now, data[:0], buf)
	}), "what compresses")
	require.NotZero(t, a.Stats().Compressed)

	full := plain(PacketHeader{Ack: 5}, vitalChunk(1, "a"), Chunk{Header{0, 0, -1}, data})
	bad := [][]byte{nil, {1, 2}, full[:len(full)-3], {0x04, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x80, 0, 1, 9}, {0x08, 0, 0, 1, 2, 3, 4}, {0x13, 0x80, 0, 0}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, p := range bad {
			_ = b.Receive(now, p)
		}
	}), "bad packets")

	require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = ParseChunk(V07, []byte{0x40, 0xc0, 0xff}) }), "ParseChunk")
	require.Zero(t, testing.AllocsPerRun(100, func() { buf = AppendHeader(buf[:0], V06, Header{Vital, 5, 5}) }), "AppendHeader")
	require.Zero(t, testing.AllocsPerRun(100, func() { buf = AppendMessage(buf[:0], 9000, true) }), "AppendMessage")
}

// BenchmarkHuffman is a full packet of data as a game has it, mostly small numbers.
func BenchmarkHuffman(b *testing.B) {
	data := make([]byte, 1390)
	for i := range data {
		data[i] = byte(i * i % 7 * (i & 1))
	}
	coded, buf := Compress(nil, data), make([]byte, 0, 4096)
	dense, _ := compress(nil, content(1390, 1)[:1020], 1390)
	b.Run("decompress what does not compress", func(b *testing.B) {
		for b.Loop() {
			buf, _ = Decompress(buf[:0], dense, 1397)
		}
	})
	b.Run("compress", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = Compress(buf[:0], data)
		}
	})
	b.Run("decompress", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = Decompress(buf[:0], coded, len(data))
		}
	})
}

func BenchmarkAppendHeader(b *testing.B) {
	buf := make([]byte, 0, 8)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendHeader(buf[:0], V06, Header{Vital, 100, 700})
	}
}

func BenchmarkParseHeader(b *testing.B) {
	packed := AppendHeader(nil, V06, Header{Vital, 100, 700})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ParseHeader(V06, packed); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConn sends 20 chunks of 100 bytes in two packets, and acknowledges them.
func BenchmarkConn(b *testing.B) {
	x, y := newConn(b, Config{}), newConn(b, Config{})
	data, buf, now := content(100, 1), make([]byte, 0, 1400), epoch
	b.SetBytes(20 * 100)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		if exchange(x, y, now, data, buf) != 20 {
			b.Fatal("not all arrived")
		}
	}
}
