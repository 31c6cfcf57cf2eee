package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

// A Backend sends the parts of transfers. The sender chooses one for all of its transfers with
// [Config], or for a single one with [Via]. [Window] and [Slices] are the two there are.
type Backend interface {
	// window returns the settings of lanes, or nil if parts go as slices.
	window() *Window
}

// Window sends parts as reliable RPCs on lanes, as the article's algorithm does. Lanes are
// channels of their own that are served after play (the game's own traffic). Each is filled to
// no more than a share of its reliable buffer.
type Window struct {
	// Share is how much of each lane's reliable buffer transfers may fill, above 0 and below 1.
	// The default is 1/2. One more RPC must fit beyond the share, which with RPCs of 32 KiB and
	// 256 entries limits it to 0.88. Above that, each transfer fails before its first RPC.
	Share float64
	// Lanes is how many lanes one transfer may use, from 1 to 32. 0 means as many as the path
	// needs. A lane carries half of its reliable buffer in a round trip, about 141 KB. Four
	// lanes are open from the beginning, and the server opens more when a transfer needs them.
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

// defaultLanes is how many lanes a server opens with the connection and keeps open. They carry
// 660 KB in the round trip in which a client asks for more, which is the bandwidth-delay
// product of 100 Mbit/s and 50 ms.
const defaultLanes = 4

// Slices sends parts as chunks that are cut into slices, which is Glenn Fiedler's protocol:
// see package chunk. Each slice is a datagram of its own, and is sent again until it is acked.
// Like lanes, slices are served after all play, but they use no reliable buffer.
type Slices struct{}

func (Slices) window() *Window { return nil }

// sliceQueueTime is how long the queued slices of a world under Run may take to send. That can
// be short, because the link wakes such a world when it wants more slices.
const sliceQueueTime = 5 * time.Millisecond

// slicePartBytes is the payload of a full part. Together with the longest header, it fills a
// whole number of slices.
const slicePartBytes = slices.PartSlices*slices.Size - maxPartHeader

// A route is a way for the parts of transfers to the peer. They may arrive in any order. It is
// used on the world's goroutine only.
type route interface {
	// open reports whether one more part may be sent now.
	open() bool
	// send sends the part in b, which belongs to transfer id, and takes over b. It may only be
	// called right after open has returned true.
	send(b *block, id uint64) error
	// watch makes the world tick when open may have become true.
	watch()
}
