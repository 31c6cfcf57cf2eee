package stream

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

const (
	// sliceProtocol is the first byte of a datagram with a packet of package chunk behind it. Chunks that the sealed carrier
	// moves as well count on their own, and have sealedProtocol before their packets, over either carrier.
	sliceProtocol  = 0x02
	sealedProtocol = 0x03
	// sliceDatagram is the smallest that QUIC falls back to, so that a slice that was cut once fits every path later.
	sliceDatagram = 1163
	// sliceBytes is what of a datagram is content. Chunks move between carriers, so it is the same for all.
	sliceBytes = sliceDatagram - 1 - chunk.Overhead
	// slicePipeline is how many chunks may be in flight: 4 MiB, for a chunk is a part of about 32 KiB.
	slicePipeline = 128
	// slicePartBytes is the payload of a full part, so that with the longest header it fills 28 slices.
	slicePartBytes  = slicePartSlices*sliceBytes - maxPartHeader
	slicePartSlices = 28

	// ownResend keeps the sender's own delay before it sends a slice again out of the way of the carriers, who see losses.
	ownResend = 10 * time.Second
)

func sliceConfig() chunk.Config {
	return chunk.Config{
		SliceSize: sliceBytes, Pipeline: slicePipeline, SendQueue: -1, ReceiveQueue: slicePipeline,
		Rate: -1, ResendDelay: ownResend, AckDelay: -1,
	}
}

// slicer cuts parts into slices and knows what became of each. It is a machine without clock and lock. Whoever carries
// the slices asks next for one when its path can take it, tells with lose what is lost, and hands over the acks that come.
type slicer struct {
	sender   *chunk.Sender // nil before the first part
	blocks   []*block      // of the chunks not acked whole, by number modulo length
	messages [][]byte      // that lie in them
	first    uint64        // number of the first of those
	count    int           // of them
	unsent   int           // bytes never sent
	flight   sliceFlight
}

// full reports whether another part has to wait for chunks in flight.
func (s *slicer) full() bool { return s.count == slicePipeline }

// send takes a part, which is freed once it is acked whole.
func (s *slicer) send(b *block, message []byte) error {
	if s.sender == nil {
		sender, err := chunk.NewSender(sliceConfig())
		if err != nil {
			return err
		}
		s.sender = sender
		s.sender.SetRTT(ownResend)
	}
	number, err := s.sender.Send(message)
	if err != nil {
		return err
	}
	if s.blocks == nil {
		s.blocks, s.messages = make([]*block, slicePipeline), make([][]byte, slicePipeline)
	}
	s.blocks[number%slicePipeline], s.messages[number%slicePipeline] = b, message
	s.count++
	s.unsent += len(message)
	s.flight.begin(uint16(number), (len(message)+sliceBytes-1)/sliceBytes)
	return nil
}

// next returns the slice that is to leave, lost ones first, and the number under which its fate is known.
func (s *slicer) next(now time.Time) (slice chunk.Slice, number uint64, ok bool) {
	if s.idle() {
		return chunk.Slice{}, 0, false
	}
	if slice, ok = s.sender.NextSlice(now); !ok {
		return chunk.Slice{}, 0, false
	}
	number, again := s.flight.launch(now, slice)
	if !again {
		s.unsent -= len(slice.Data)
	}
	return slice, number, true
}

// lose tells that what left under that number did not arrive, or did not leave.
func (s *slicer) lose(number uint64) {
	if p := s.flight.lose(number); p != nil {
		s.sender.Lost(p.id, int(p.index), p.at)
	}
}

// arrive tells that what left under that number arrived; whether it was kept, an ack will say.
func (s *slicer) arrive(number uint64) {
	if p := s.flight.get(number); p != nil && p.fate == sliceFlying {
		s.flight.land(p, sliceLanded)
	}
}

// again has everything leave again that is not acked.
func (s *slicer) again() {
	s.sender.Restart()
	s.sender.SetRTT(ownResend)
}

// acknowledge takes an ack and frees the parts that are through.
func (s *slicer) acknowledge(now time.Time, a chunk.Ack, landed func(p *sentSlice)) {
	if s.idle() {
		return
	}
	a.Acked = s.flight.ack(a, landed)
	s.sender.Acknowledge(now, a)
	for ; s.first < s.sender.Finished(); s.first++ {
		b := &s.blocks[s.first%slicePipeline]
		(*b).free()
		*b, s.messages[s.first%slicePipeline] = nil, nil
		s.count--
	}
}

// idle reports whether all is acked.
func (s *slicer) idle() bool { return s.count == 0 }

// trim gives up spare memory.
func (s *slicer) trim() {
	if s.sender != nil && s.idle() {
		s.sender.Trim()
		s.flight.trim()
		s.blocks, s.messages = nil, nil
	}
}
