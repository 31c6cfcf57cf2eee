package stream

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
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
	// Share is the part of each lane's reliable buffer up to which transfers may fill it: above 0
	// and below 1, or 0 for the default of 1/2. It counts entries, so with a ReliableBuffer of 256,
	// another RPC is sent on a lane while less than 128 entries are outstanding. The smallest share
	// is one entry.
	//
	// Since that RPC must fit beyond the share, RPCs are smaller than 32 KiB if Share is above 0.88
	// or if ReliableBuffer is less than 64. Large elements of an array may then not fit at all.
	Share float64
	// Lanes is the maximum number of lanes that one transfer may use, from 1 to 32. 0 means as many
	// as the path needs. Per round trip, a lane carries the RPCs that begin within its Share of the
	// reliable buffer. By default, that is 165 KB (five full RPCs) with a ReliableBuffer of 256,
	// and 4.4 to 5.5 KB with the minimum of 8. Four lanes are open from the beginning, and the
	// server opens more when a transfer needs them.
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

// gate returns the gate of lanes whose reliable buffers have the given number of entries. It's open
// while nothing is outstanding, and leaves room for one entry at least, however small or large
// Share is.
func (w *Window) gate(entries int) Gate {
	one := 1 / float64(entries)
	return Gate{Share: min(max(cmp.Or(w.Share, defaultShare), one), 1-one)}
}

// maxPart returns the maximum number of bytes of content that an RPC on a lane may carry, so that
// it neither overflows a reliable buffer of the given number of entries nor exceeds maxBunch bytes.
func (w *Window) maxPart(entries, maxBunch int) int {
	free := entries - w.gate(entries).limit(entries)
	bytes := free * bunch.EntryBytes
	for bunch.Entries(bytes) > free {
		bytes--
	}
	return min(bytes, maxBunch) - rpcOverhead
}

// defaultLanes is the number of lanes that a server opens with the connection and keeps open. They
// carry 660 KB in the round trip that a client needs to ask for more lanes, which is a little more
// than the bandwidth-delay product of 100 Mbit/s and 50 ms.
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
const slicePartBytes = slices.SlicesPerPart*slices.Size - maxPartHeader

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
