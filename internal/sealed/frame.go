package sealed

import (
	"errors"

	"github.com/quivernet/quiver/internal/wire"
)

// Kinds of frames in a sealed packet, which may be in any order. See WIRE.md.
const (
	framePadding  = 0 // the rest of the packet is padding
	framePing     = 1 // asks for feedback at once
	frameFeedback = 2
	frameData     = 3 // length u16, payload; asks for feedback soon
	frameTrain    = 4 // u8: how many packets of the train follow
	framePlay     = 5 // length u16, payload; its feedback may wait for a packet that carries something else, too
)

// maxFrames is the most frames of a packet: twice maxPayloads, which is more
// than an honest peer sends. A jumbo packet has room for 8,900 pings, which
// would take as long to handle as 25 ordinary packets.
const maxFrames = 16

// dataHeader is the size of a data frame without its payload.
const dataHeader = 1 + 2

// errMalformed is a violation by the peer, because only the peer can make a packet that opens.
var errMalformed = errors.New("malformed frame")

// frame is one frame of a packet. kind says which other field is set; the
// others hold what an earlier frame has left in them.
type frame struct {
	kind     byte
	payload  []byte   // of frameData and framePlay; aliases the packet
	left     int      // of frameTrain: how many packets of the train follow
	feedback feedback // of frameFeedback
}

// consume reads the first frame of b and returns the rest.
func (f *frame) consume(b []byte) (rest []byte, err error) {
	r := wire.Reader{Left: b}
	switch f.kind = r.Byte(); f.kind {
	case framePadding:
		return nil, nil
	case framePing:
	case frameTrain:
		f.left = int(r.Byte())
	case frameData, framePlay:
		if f.payload = r.Take(int(r.Fixed(2))); len(f.payload) == 0 {
			r.Fail(errMalformed)
		}
	case frameFeedback:
		f.feedback.consume(&r)
	default:
		return nil, errMalformed
	}
	if r.Err != nil {
		return nil, errMalformed
	}
	return r.Left, nil
}
