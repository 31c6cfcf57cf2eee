package recovery

import "time"

// Path is what a carrier tells a machine about the path of its datagrams. Zero fields are unknown.
type Path struct {
	// Epoch rises when datagrams take another path from now on: another carrier, or another address.
	Epoch uint32
	// Fates says that the carrier paces the datagrams that it asks for, and tells whether each arrived.
	Fates bool
	// RTT is the round trip of the path that was left. It is used only when Epoch or Fates changes.
	RTT time.Duration

	// With Fates only.
	Window int     // bytes that the path holds
	Rate   float64 // bytes a second
	Loss   float64 // share of packets that are lost
	More   bool    // the machines will be given more bulk than they hold
}

// KeepTime is how long after it arrived a datagram's content leaves again if it is not acked: the peer has not kept it.
const KeepTime = time.Second

// Overdue returns how long after a path was left its datagrams may still be acked: the time threshold of RFC 9002, section 6.1.2, after
// one spurious loss (see Losses), and the peer's ack delay.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room is how much a datagram may hold.
type Room struct {
	Max  int  // bytes
	Bulk bool // bulk may leave; play always may
}

// Content is what a datagram holds apart from acks and the machines' control messages.
type Content struct{ Play, Bulk bool }
