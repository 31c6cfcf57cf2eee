package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

// Backend moves the parts of transfers. The sender chooses one, per install or per transfer.
type Backend interface {
	// window returns the settings of lanes; nil: parts travel as slices.
	window() *Window
}

// Window moves parts as reliable RPCs on lanes: channels of their own behind play, each kept below its share of the
// reliable buffer. It is the article's algorithm.
type Window struct {
	// Share of each lane's reliable buffer that transfers fill; above 0 and below 1, default 1/2. It leaves room for one more RPC:
	// with 32 KiB of them and 256 entries of buffer it is at most 0.88, and with more each transfer fails before its first.
	Share float64
	// Lanes that one transfer may use, 1 to 32; 0 = as many as the path needs. In a round trip a lane carries half of its
	// reliable buffer, about 141 KB. Four are open from the beginning; the server opens more when a transfer needs them.
	Lanes int
}

func (w Window) window() *Window { return &w }

func (w *Window) check() error {
	switch {
	case !(w.Share >= 0 && w.Share < 1): // nor is it a number
		return fmt.Errorf("stream: Window.Share is %v, must be above 0 and below 1", w.Share)
	case w.Lanes < 0 || w.Lanes > maxLanes:
		return fmt.Errorf("stream: Window.Lanes is %d, must be 0 to %d", w.Lanes, maxLanes)
	}
	return nil
}

// defaultLanes is how many lanes a server opens with the connection, which stay open. They carry 660 KB in the round trip in which a client
// asks for more: what 100 Mbit/s and 50 ms hold.
const defaultLanes = 4

// Slices moves parts as chunks of slices, each slice a datagram of its own that is sent again until it is acked: Glenn
// Fiedler's protocol, see package chunk. It leaves behind all play, like Window, but fills no reliable buffer.
type Slices struct{}

func (Slices) window() *Window { return nil }

// sliceQueueTime is how long the unsent slices may take to leave in a world under Run, which the link wakes for more.
const sliceQueueTime = 5 * time.Millisecond

// slicePartBytes is the payload of a full part: with the longest header it fills whole slices.
const slicePartBytes = slices.PartSlices*slices.Size - maxPartHeader

// route carries the parts of a transfer, in any order. It belongs to the world's goroutine.
type route interface {
	// open reports whether one more part may leave now.
	open() bool
	// send sends the part in b, which it frees, of the transfer with that id. The call of open before it was true.
	send(b *block, id uint64) error
	// watch asks the world for a tick when open may have become true.
	watch()
}
