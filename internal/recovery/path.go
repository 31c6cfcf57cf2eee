package recovery

import "time"

// Path is what a carrier knows of the path of its datagrams, for the machines.
// Zero fields are unknown.
type Path struct {
	// Epoch rises when datagrams take another path from now on: another
	// carrier, or another address.
	Epoch uint32
	// Fates is true if the carrier paces the datagrams, and reports whether each arrived.
	Fates bool
	// RTT is the round trip of the previous path. It is used only when Epoch or Fates changes.
	RTT time.Duration

	// Set only if Fates is true.
	Window int     // bytes that the path holds
	Rate   float64 // bytes a second
	Loss   float64 // share of packets that are lost
	More   bool    // the machines will be given more bulk than they hold now
}

// KeepTime is how long after it arrived a datagram's content is sent again if
// it is not acked, because the peer has not kept it.
const KeepTime = time.Second

// Overdue returns how long after a change of path datagrams on the previous one
// may still be acked: the time threshold of RFC 9002, section 6.1.2, after one
// spurious loss (see Losses), plus the peer's ack delay.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room is how much a datagram may hold.
type Room struct {
	Max  int  // bytes
	Bulk bool // bulk is allowed; play always is
}

// Content is what a datagram holds apart from acks and the machines' control messages.
type Content struct{ Play, Bulk bool }
