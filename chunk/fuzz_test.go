package chunk_test

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

var zeros = make([]byte, 200*1024)

func FuzzParse(f *testing.F) {
	f.Add(chunk.AppendSlice(nil, protocolID, chunk.Slice{ChunkID: 3, Index: 1, Count: 2, Data: []byte("the end")}), true)
	f.Add(chunk.AppendSlice(nil, protocolID, chunk.Slice{Count: 2, Data: make([]byte, 1024)}), false)
	f.Add(chunk.AppendAck(nil, protocolID, ackOf(65535, 200, 0, 100, 199)), true)
	f.Add([]byte{1, 2, 3}, false)
	f.Fuzz(func(t *testing.T, packet []byte, seal bool) {
		if seal && len(packet) >= 4 { // so that the fuzzer gets past the checksum
			packet = reseal(bytes.Clone(packet), protocolID)
		}
		s, r := must(chunk.NewSender(chunk.Config{Rate: -1})), must(chunk.NewReceiver(chunk.Config{}))
		send(t, s, zeros)
		p, err := chunk.Parse(packet, protocolID)
		slice, ack := r.ReceiveSlice(epoch, packet), s.ReceiveAck(epoch, packet)
		if err != nil {
			require.ErrorIs(t, err, chunk.ErrMalformed)
			require.ErrorIs(t, slice, chunk.ErrMalformed)
			require.ErrorIs(t, ack, chunk.ErrMalformed)
			return
		}
		require.Equal(t, p.Kind == chunk.KindSlice, slice == nil)
		require.Equal(t, p.Kind == chunk.KindAck, ack == nil)
		if p.Kind == chunk.KindSlice {
			require.Equal(t, packet, chunk.AppendSlice(nil, protocolID, p.Slice), "one packet, one meaning")
			return
		}
		require.Equal(t, packet, chunk.AppendAck(nil, protocolID, p.Ack), "one packet, one meaning")
	})
}

// script runs operations, a byte each and some with an argument, on a sender, a
// receiver and two wires between them.
type script struct {
	t    testing.TB
	code []byte
	now  time.Time
	s    *chunk.Sender
	r    *chunk.Receiver

	slices, acks [][]byte // under way
	made         []mark
	sent, taken  int
	finished     uint64
}

// mark is what a driver remembers of a slice's packet.
type mark struct {
	id    uint16
	index int
	at    time.Time
}

func newScript(t testing.TB, code []byte) *script {
	s := &script{t: t, code: code, now: epoch}
	k := int(s.arg())
	c := chunk.Config{SliceSize: 64, Pipeline: 1 + k&7, Burst: k&8 != 0, Rate: []int{-1, 5000, 200_000, 0}[k>>4&3], SendQueue: 10}
	s.s = must(chunk.NewSender(c))
	c.ReceiveQueue = 1 + k>>6 // may be less than the pipeline
	s.r = must(chunk.NewReceiver(c))
	return s
}

func (s *script) arg() byte {
	if len(s.code) == 0 {
		return 0
	}
	b := s.code[0]
	s.code = s.code[1:]
	return b
}

func (s *script) run() {
	for len(s.code) > 0 {
		s.step(s.arg())
		s.check()
	}
	s.settle()
}

func (s *script) step(op byte) {
	switch op % 12 {
	case 0:
		size := 1 + int(s.arg())*int(s.arg())%(256*64)
		if _, err := s.s.Send(content(size, uint64(s.sent))); err == nil {
			s.sent++
		} else {
			require.ErrorIs(s.t, err, chunk.ErrQueueFull)
		}
	case 1, 2:
		s.now = s.now.Add(time.Duration(s.arg()) * 2 * ms)
	case 3, 4:
		s.emit(int(s.arg()))
	case 5:
		s.deliver(&s.slices, false, int(s.arg()))
	case 6:
		s.deliver(&s.acks, true, int(s.arg()))
	case 7:
		s.lose(&s.slices)
		s.lose(&s.acks)
	case 8:
		s.take()
	case 9:
		if n := int(s.arg()); len(s.made) > 0 {
			m := s.made[n%len(s.made)]
			s.s.Lost(m.id, m.index, m.at)
		}
	case 10:
		s.s.Restart()
		s.r.Restart()
	default:
		s.s.SetRTT(time.Duration(s.arg()) * ms)
	}
}

// emit puts at most n packets of each kind in flight.
func (s *script) emit(n int) {
	for range n {
		slice, ok := s.s.NextSlice(s.now)
		if !ok {
			at, ok := s.s.NextTimeout()
			require.True(s.t, !ok || at.After(s.now), "nothing to send at %v, and the timeout is %v", s.now, at)
			break
		}
		s.made = append(s.made, mark{slice.ChunkID, slice.Index, s.now})
		s.slices = append(s.slices, encode(slice))
	}
	for range n {
		b, ok := s.r.AppendAck(s.now, nil)
		if !ok {
			at, ok := s.r.NextTimeout()
			require.True(s.t, !ok || at.After(s.now), "nothing to ack at %v, and the timeout is %v", s.now, at)
			break
		}
		s.acks = append(s.acks, b)
	}
}

// encode hides the slice in a packet of the test's own, as a driver with another wire would.
func encode(c chunk.Slice) []byte {
	return append([]byte{byte(c.ChunkID), byte(c.ChunkID >> 8), byte(c.Index), byte(c.Count - 1)}, c.Data...)
}

// deliver delivers the packet at a place, so that packets overtake each other;
// with bit 7 a copy stays in flight.
func (s *script) deliver(wire *[][]byte, ack bool, place int) {
	if len(*wire) == 0 {
		return
	}
	i := place & 0x7f % len(*wire)
	b := (*wire)[i]
	if place < 0x80 {
		*wire = append((*wire)[:i], (*wire)[i+1:]...)
	}
	if ack {
		require.NoError(s.t, s.s.ReceiveAck(s.now, b))
		return
	}
	s.r.Insert(s.now, chunk.Slice{ChunkID: uint16(b[0]) | uint16(b[1])<<8, Index: int(b[2]), Count: int(b[3]) + 1, Data: b[4:]})
}

func (s *script) lose(wire *[][]byte) {
	if n := len(*wire); n > 0 {
		*wire = (*wire)[:n/2]
	}
}

func (s *script) take() {
	for id, data, ok := s.r.Chunk(); ok; id, data, ok = s.r.Chunk() {
		require.EqualValues(s.t, uint16(s.taken), id)
		require.True(s.t, bytes.Equal(content(len(data), uint64(s.taken)), data), "chunk %d", s.taken)
		s.taken++
		s.r.Recycle(data)
	}
}

func (s *script) check() {
	st, rt := s.s.Stats(), s.r.Stats()
	require.GreaterOrEqual(s.t, s.s.Finished(), s.finished)
	s.finished = s.s.Finished()
	require.LessOrEqual(s.t, st.Chunks, rt.Chunks, "finished is what has arrived")
	require.LessOrEqual(s.t, s.taken, s.sent)
	require.Zero(s.t, rt.Malformed+st.Malformed)
	require.GreaterOrEqual(s.t, rt.SliceBytes, st.AckedBytes)
	require.GreaterOrEqual(s.t, st.SliceBytes, rt.SliceBytes)
}

// settle lets all packets through: everything arrives, and both ends fall silent.
func (s *script) settle() {
	s.s.SetRTT(0)
	for steps := 0; s.taken < s.sent || !s.s.Done(); steps++ {
		require.Less(s.t, steps, 200_000)
		s.emit(1000)
		for len(s.slices) > 0 {
			s.deliver(&s.slices, false, 0)
		}
		s.take()
		s.emit(1000)
		for len(s.acks) > 0 {
			s.deliver(&s.acks, true, 0)
		}
		s.check()
		s.forward()
	}
	s.emit(0)
	_, ok := s.s.NextTimeout()
	require.False(s.t, ok)
}

// forward moves the time to the next timeout.
func (s *script) forward() {
	next := s.now.Add(time.Hour)
	if at, ok := s.s.NextTimeout(); ok && at.Before(next) {
		next = at
	}
	if at, ok := s.r.NextTimeout(); ok && at.Before(next) {
		next = at
	}
	if next.After(s.now) {
		s.now = next
	}
}

func FuzzScript(f *testing.F) {
	f.Add([]byte{0x45, 0, 200, 50, 3, 255, 5, 1, 5, 0x81, 5, 0, 3, 9, 6, 0, 1, 100, 3, 40, 7, 8, 9, 3, 10, 3, 9})
	f.Add([]byte{0x08, 0, 255, 60, 0, 9, 9, 3, 255, 1, 60, 3, 255, 5, 9, 3, 2, 6, 0, 8, 1, 255, 1, 255, 3, 1})
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > 2000 {
			return
		}
		newScript(t, code).run()
	})
}

func TestRandomScripts(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 3))
	for range 60 {
		code := make([]byte, 40+rng.IntN(400))
		for i := range code {
			code[i] = byte(rng.Uint32())
		}
		newScript(t, code).run()
	}
}
