package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

// Slices moves parts as chunks of slices, each slice a datagram of its own that is sent again until it is acked: Glenn
// Fiedler's protocol, see package chunk. It leaves behind all play, like Window, but fills no reliable buffer.
type Slices struct{}

func (Slices) check() error { return nil }

// sliceQueueTime is what may wait unsent in a world under Run, which is woken when it has left.
const sliceQueueTime = 5 * time.Millisecond

// slicePartBytes is the payload of a full part, so that with the longest header it fills whole slices.
const slicePartBytes = slices.PartSlices*slices.Size - maxPartHeader
