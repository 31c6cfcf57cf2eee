package sealed

import (
	"errors"

	"github.com/quivernet/quiver/internal/wire"
)

// The kinds of frames in a sealed packet (see WIRE.md). A packet may have its frames in any order.
const (
	framePadding  = 0 // the rest of the packet is padding
	framePing     = 1 // asks for feedback at once
	frameFeedback = 2 // a report
	frameData     = 3 // length u16, payload; asks for feedback soon
	frameTrain    = 4 // u8: how many more packets of the train follow
	framePlay     = 5 // length u16, payload; feedback may wait for a packet with other content
)

// maxFrames is the maximum number of frames in a packet, which is more than a correct peer sends.
// Without this limit, a jumbo packet could hold 8,900 pings, which take as long to handle as 25
// ordinary packets.
const maxFrames = 2 * maxPayloads

// dataHeader is the size of a data or play frame without its payload.
const dataHeader = 1 + 2

// errMalformed means that the peer violated the protocol, because nobody else could have sealed
// the packet.
var errMalformed = errors.New("malformed frame")

// A frame is a frame of a packet that's being read. It is reused for all frames of the packet, and
// kind determines which of the other fields are valid.
type frame struct {
	kind      byte
	payload   []byte // of frameData and framePlay; aliases the packet
	trainLeft int    // of frameTrain: how many more packets of the train follow
	report    report // of frameFeedback
}

// consume decodes the first frame of b and returns the rest of b.
func (f *frame) consume(b []byte) (rest []byte, err error) {
	r := wire.Reader{Left: b}
	f.kind = r.Byte()
	switch f.kind {
	case framePadding:
		return nil, nil // the rest of the packet
	case framePing:
		// A ping has no other content.
	case frameTrain:
		f.trainLeft = int(r.Byte())
	case frameData, framePlay:
		f.payload = r.Take(int(r.Fixed(2)))
		if len(f.payload) == 0 {
			r.Fail(errMalformed)
		}
	case frameFeedback:
		f.report.consume(&r)
	default:
		return nil, errMalformed
	}
	if r.Err != nil {
		return nil, errMalformed
	}
	return r.Left, nil
}
