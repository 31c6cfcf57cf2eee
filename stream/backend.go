package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

// A Backend sends the parts of transfers. The sender chooses one for all of its transfers,
// with [Config], or for one, with [Via].
type Backend interface {
	// window returns the settings of lanes, or nil if parts are sent as slices.
	window() *Window
}

// Window sends parts as reliable RPCs on lanes. Lanes are channels of their own, which are
// sent after play. Each lane fills at most a share of its reliable buffer. This is the
// article's algorithm.
type Window struct {
	// Share is the part of each lane's reliable buffer that transfers may fill, above 0 and
	// below 1. The default is 1/2. It must leave room for one more RPC. With RPCs of 32 KiB
	// and 256 entries it can be at most 0.88. Above that, each transfer fails before its first
	// RPC.
	Share float64
	// Lanes is the number of lanes that one transfer may use, from 1 to 32. 0 means as many as
	// the path needs. In a round trip, a lane carries half of its reliable buffer, about 141
	// KB. Four lanes are open from the beginning. The server opens more when a transfer needs
	// them.
	Lanes int
}

func (w Window) window() *Window { return &w }

// check returns an error that names the first invalid field.
func (w *Window) check() error {
	switch {
	case !(w.Share >= 0 && w.Share < 1): // true for NaN
		return fmt.Errorf("stream: Window.Share is %v, must be above 0 and below 1", w.Share)
	case w.Lanes < 0 || w.Lanes > maxLanes:
		return fmt.Errorf("stream: Window.Lanes is %d, must be 0 to %d", w.Lanes, maxLanes)
	}
	return nil
}

// defaultLanes is the number of lanes that a server opens with the connection. These stay
// open. They carry 660 KB in the round trip in which a client asks for more. That is the
// bandwidth-delay product of 100 Mbit/s and 50 ms.
const defaultLanes = 4

// Slices sends parts as chunks of slices. Each slice is a datagram of its own that is sent
// again until it is acked. This is Glenn Fiedler's protocol: see package chunk. Like Window's
// lanes, slices are sent after all play, but they use no reliable buffer.
type Slices struct{}

func (Slices) window() *Window { return nil }

// sliceQueueTime is the maximum time that the queued slices of a world under Run may take to
// send. The link wakes such a world for more slices.
const sliceQueueTime = 5 * time.Millisecond

// slicePartBytes is the payload of a full part. With the longest header, such a part fills
// whole slices.
const slicePartBytes = slices.PartSlices*slices.Size - maxPartHeader

// A route sends the parts of a transfer, in any order. It is used on the world's goroutine
// only.
type route interface {
	// open reports whether one more part may be sent now.
	open() bool
	// send sends the part in b, which belongs to transfer id, and frees b. The caller must
	// have called open just before, and open must have returned true.
	send(b *block, id uint64) error
	// watch makes the world tick when open may have become true.
	watch()
}
