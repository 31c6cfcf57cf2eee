package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

// A Backend sends the parts of transfers. The sender chooses a backend for all of its transfers
// with [Config], or for a single transfer with [Via]. There are two backends, [Window] and
// [Slices].
type Backend interface {
	// window returns the settings of lanes, or nil if parts go as slices.
	window() *Window
}

// Window sends parts as reliable RPCs on lanes, as the article's algorithm does. Lanes are separate
// channels that are served after play (the game's own traffic). Transfers fill no more than a share
// of each lane's reliable buffer.
type Window struct {
	// Share is the part of each lane's reliable buffer that transfers may fill. It must be above 0
	// and below 1, and is 1/2 by default. Since one more RPC must fit beyond the share, 32 KiB RPCs
	// and 256 entries limit Share to 0.88. With a larger Share, each transfer fails before its
	// first RPC.
	Share float64
	// Lanes is the maximum number of lanes that one transfer may use, from 1 to 32. 0 means as many
	// as the path needs. A lane carries half of its reliable buffer, about 141 KB, per round trip.
	// Four lanes are open from the beginning, and the server opens more when a transfer needs them.
	Lanes int
}

func (w Window) window() *Window { return &w }

// check returns an error that names the first invalid field.
func (w *Window) check() error {
	switch {
	case !(w.Share >= 0 && w.Share < 1): // true for NaN
		return fmt.Errorf("stream: Window.Share is %v; it must be above 0 and below 1, or 0 for the default", w.Share)
	case w.Lanes < 0 || w.Lanes > maxLanes:
		return fmt.Errorf("stream: Window.Lanes is %d; it must be from 0 to %d", w.Lanes, maxLanes)
	}
	return nil
}

// defaultLanes is the number of lanes that a server opens with the connection and keeps open. They
// carry 660 KB, the bandwidth-delay product of 100 Mbit/s and 50 ms, in the round trip that a
// client needs to ask for more lanes.
const defaultLanes = 4

// Slices sends parts as chunks that are cut into slices, as in Glenn Fiedler's protocol (see
// package chunk). Each slice has a datagram to itself, and is resent until it is acked. Like lanes,
// slices are served after all play, but they use no reliable buffer.
type Slices struct{}

func (Slices) window() *Window { return nil }

// sliceQueueTime is the maximum time to send the queued slices in a world under Run. It can be
// short, because the link wakes such a world when it wants more slices.
const sliceQueueTime = 5 * time.Millisecond

// slicePartBytes is the payload of a full part. Together with the longest header, it fills a
// whole number of slices.
const slicePartBytes = slices.PartSlices*slices.Size - maxPartHeader

// A route carries the parts of transfers to the peer. The parts may arrive in any order. A route is
// used on the world's goroutine only.
type route interface {
	// prepare prepares to send another part. It returns false if the route accepts none now.
	prepare() bool
	// send sends the part in b, which belongs to transfer id, and takes over b. It may only be
	// called right after prepare has returned true.
	send(b *block, id uint64) error
	// watch requests a tick for when prepare may succeed again.
	watch()
}
