package sealed

import (
	"errors"

	"github.com/quivernet/quiver/internal/wire"
)

// Kinds of frames in a sealed packet. They may be in any order. WIRE.md specifies them.
const (
	framePadding  = 0 // the rest of the packet is padding
	framePing     = 1 // asks for feedback at once
	frameFeedback = 2
	frameData     = 3 // length u16, payload; asks for feedback soon
	frameTrain    = 4 // u8: number of packets of the train that follow
	framePlay     = 5 // length u16, payload; its feedback may wait for a packet with other content
)

// maxFrames is the maximum number of frames in a packet: twice maxPayloads, more than a
// correct peer sends. A jumbo packet has room for 8,900 pings, which would take as long to
// handle as 25 ordinary packets.
const maxFrames = 16

// dataHeader is the size of a data frame without its payload.
const dataHeader = 1 + 2

// errMalformed means that the peer violated the protocol, because only the peer can make a
// packet that opens.
var errMalformed = errors.New("malformed frame")

// frame is one frame of a packet. kind says which other field is set. The others keep the
// values of an earlier frame.
type frame struct {
	kind      byte
	payload   []byte // of frameData and framePlay; aliases the packet
	trainLeft int    // of frameTrain: number of packets of the train that follow
	report    report // of frameFeedback
}

// consume reads the first frame of b and returns the rest.
func (f *frame) consume(b []byte) (rest []byte, err error) {
	r := wire.Reader{Left: b}
	f.kind = r.Byte()
	switch f.kind {
	case framePadding:
		return nil, nil
	case framePing:
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
