package recovery

import "time"

// Path is what a carrier knows about the path of datagrams. It's for the machines that send them. A
// field is zero if it's unknown.
type Path struct {
	// Epoch increases when datagrams begin to take another path, because the carrier or an address
	// has changed.
	Epoch uint32

	// Fates is set if the carrier paces datagrams and reports the fate of each, which is whether it
	// arrived or was lost.
	Fates bool

	// RTT is the round trip of the previous path. It is read only when Epoch or Fates changes.
	RTT time.Duration

	// These are set only if Fates is.
	Window int     // number of bytes that the path holds
	Rate   float64 // bytes per second
	Loss   float64 // share of packets that are lost
	LossOf int     // number of packets that Loss was measured over; a few show little
	More   bool    // the machines will be given more bulk than they have now
}

// KeepTime is the time for which a machine waits for the ack of a datagram that is known to have
// arrived. If there is none, the peer hasn't kept the datagram, so its content is sent again. (A
// peer has kept a datagram if its machine acknowledges that it uses the content.)
const KeepTime = time.Second

// Overdue returns the time for which datagrams may still be acked after we left the path on which
// they were sent. It's the time threshold of RFC 9002, section 6.1.2, after one spurious loss (see
// Losses), plus the peer's ack delay.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room limits what may be put into a datagram.
type Room struct {
	Max  int  // in bytes
	Bulk bool // bulk is allowed as well as play
}

// Content tells which kinds of traffic are in a datagram, apart from acks and the machines' control
// messages.
type Content struct{ Play, Bulk bool }
