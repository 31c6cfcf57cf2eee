package chunk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

// loop is a pair without a path between: what one end makes the other takes at
// once, with reused memory only.
type loop struct {
	s        *chunk.Sender
	r        *chunk.Receiver
	now      time.Time
	slice    []byte
	ack      []byte
	received int
}

func newLoop(c chunk.Config) *loop {
	return &loop{s: must(chunk.NewSender(c)), r: must(chunk.NewReceiver(c)), now: epoch, slice: make([]byte, 0, 2048), ack: make([]byte, 0, 64)}
}

// chunk sends one chunk from Send to Chunk; drop loses the slices for which it says so.
func (l *loop) chunk(data []byte, drop func(n int) bool) {
	if _, err := l.s.Send(data); err != nil {
		panic(err)
	}
	for n := 0; !l.s.Done(); n++ {
		b, ok := l.s.AppendSlice(l.now, l.slice[:0])
		if !ok {
			l.now = l.now.Add(time.Millisecond)
		} else if !drop(n) {
			if err := l.r.ReceiveSlice(l.now, b); err != nil {
				panic(err)
			}
		}
		for a, ok := l.r.AppendAck(l.now, l.ack[:0]); ok; a, ok = l.r.AppendAck(l.now, l.ack[:0]) {
			if err := l.s.ReceiveAck(l.now, a); err != nil {
				panic(err)
			}
		}
		for _, data, ok := l.r.Chunk(); ok; _, data, ok = l.r.Chunk() {
			l.received += len(data)
			l.r.Recycle(data)
		}
	}
}

func TestNothingIsAllocatedInSteadyState(t *testing.T) {
	data := content(256<<10, 1)
	for _, c := range []chunk.Config{{Rate: -1}, {Rate: 1e9, Pipeline: 8}, {Rate: -1, Burst: true}} {
		l := newLoop(c)
		drop := func(n int) bool { return n%10 == 3 }
		l.chunk(data, drop)
		require.Zero(t, testing.AllocsPerRun(20, func() { l.chunk(data, drop) }))
		require.Equal(t, 22*len(data), l.received)
	}
}

func BenchmarkChunk(b *testing.B) {
	data := content(256<<10, 1)
	l := newLoop(chunk.Config{Rate: -1})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		l.chunk(data, func(int) bool { return false })
	}
}

// BenchmarkFullPipeline is the sender alone with all its chunks in flight and
// unacked but the newest, as on a long fast path.
func BenchmarkFullPipeline(b *testing.B) {
	for _, pipeline := range []int{1, 64, 128} {
		b.Run(map[int]string{1: "1", 64: "64", 128: "128"}[pipeline], func(b *testing.B) {
			s := must(chunk.NewSender(chunk.Config{Rate: -1, Pipeline: pipeline}))
			s.SetRTT(100 * time.Millisecond)
			data := content(256<<10, 1)
			now, id, left := epoch, uint16(0), 0
			b.SetBytes(1024)
			b.ReportAllocs()
			for b.Loop() {
				if left == 0 {
					for s.Stats().QueueSize < 1 {
						_, _ = s.Send(data)
					}
					if s.Stats().Slices > 0 {
						s.Acknowledge(now, ackOf(id, 256, all256...))
						id++
					}
					left = 256
				}
				now = now.Add(time.Microsecond)
				if _, ok := s.NextSlice(now); ok {
					left--
				} else {
					left = 0
				}
			}
		})
	}
}

var all256 = all(256)

func BenchmarkAppendSlice(b *testing.B) {
	s := chunk.Slice{ChunkID: 1, Index: 2, Count: 256, Data: content(1024, 1)}
	buf := make([]byte, 0, 2048)
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		chunk.AppendSlice(buf, protocolID, s)
	}
}

func BenchmarkParse(b *testing.B) {
	p := chunk.AppendSlice(nil, protocolID, chunk.Slice{ChunkID: 1, Index: 2, Count: 256, Data: content(1024, 1)})
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chunk.Parse(p, protocolID); err != nil {
			b.Fatal(err)
		}
	}
}
