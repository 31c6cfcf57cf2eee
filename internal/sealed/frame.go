package sealed

import (
	"encoding/binary"
	"errors"
	"time"
)

// Frames inside a sealed packet, in any order. WIRE.md has the figures.
const (
	framePadding  = 0 // the rest of the packet is padding
	framePing     = 1 // asks for feedback at once
	frameFeedback = 2
	frameData     = 3 // length u16, payload; asks for feedback soon
	frameTrain    = 4 // u8: how many packets of the train follow
	framePlay     = 5 // length u16, payload; feedback may wait for a packet to ride on
	frameCompetes = 6 // u8: whether the sender seems to have a competitor; the mean of its latest round trips, varint
	frameTogether = 7 // u8: how many compete for one queue, the receiver of this included
)

// maxFrames is the most frames of a packet: eight payloads, and some besides. A jumbo packet has room for 8,900 pings, which take as long as 25
// ordinary packets.
const maxFrames = 16

// dataHeader is the size of a data frame without its payload.
const dataHeader = 1 + 2

// errMalformed is the peer's violation: nobody else can make a packet that opens.
var errMalformed = errors.New("malformed frame")

// frame is one frame of a packet. The kind says which of the other fields is set.
type frame struct {
	kind     byte
	payload  []byte        // data; aliases the packet
	left     int           // train
	feedback feedback      // feedback
	competes bool          // competes
	trip     time.Duration // competes
	together int           // together
}

// consume reads the first frame of b and returns the rest.
func (f *frame) consume(b []byte) (rest []byte, err error) {
	f.kind, b = b[0], b[1:]
	switch f.kind {
	case framePadding:
		return nil, nil
	case framePing:
		return b, nil
	case frameTrain:
		if len(b) < 1 {
			return nil, errMalformed
		}
		f.left = int(b[0])
		return b[1:], nil
	case frameData, framePlay:
		return f.consumeData(b)
	case frameFeedback:
		return f.feedback.consume(b)
	case frameCompetes:
		return f.consumeCompetes(b)
	case frameTogether:
		if len(b) < 1 {
			return nil, errMalformed
		}
		f.together = int(b[0])
		return b[1:], nil
	}
	return nil, errMalformed
}

func (f *frame) consumeData(b []byte) (rest []byte, err error) {
	if len(b) < 2 {
		return nil, errMalformed
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n == 0 || n > len(b) {
		return nil, errMalformed
	}
	f.payload = b[:n:n]
	return b[n:], nil
}

func (f *frame) consumeCompetes(b []byte) (rest []byte, err error) {
	if len(b) < 2 || b[0] > 1 {
		return nil, errMalformed
	}
	trip, n := binary.Uvarint(b[1:])
	if n <= 0 || trip >= 1<<32 {
		return nil, errMalformed
	}
	f.competes, f.trip = b[0] == 1, time.Duration(trip)*clockUnit
	return b[1+n:], nil
}
