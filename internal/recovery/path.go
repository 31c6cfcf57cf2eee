package recovery

import "time"

// Path is what a carrier tells the machines about the path of their datagrams. A field is zero
// if unknown.
type Path struct {
	// Epoch rises when datagrams begin to take another path, because of another carrier or another
	// address.
	Epoch uint32

	// Fates is set if the carrier paces datagrams, and reports the fate of each: whether it has
	// arrived or was lost.
	Fates bool

	// RTT is the round trip of the path before. It is only looked at when Epoch or Fates changes.
	RTT time.Duration

	// For paths with Fates only.
	Window int     // how many bytes the path holds
	Rate   float64 // bytes per second
	Loss   float64 // what share of packets is lost
	More   bool    // the machines will be given more bulk than they have now
}

// KeepTime is how long a machine waits for the ack of a datagram that is known to have arrived.
// If none comes, the peer hasn't kept the datagram, and we send its content again. (A peer has
// kept it if its machine has acknowledged that it uses the content.)
const KeepTime = time.Second

// Overdue returns for how long datagrams that were sent on a path may still be acked after we
// have left it. That's the time threshold of RFC 9002, section 6.1.2, after one spurious loss
// (see Losses), and the peer's ack delay.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room is how much may be put into a datagram.
type Room struct {
	Max  int  // bytes
	Bulk bool // bulk is allowed, too; play always is
}

// Content says which kinds of traffic are in a datagram, not counting acks and the machines'
// control messages.
type Content struct{ Play, Bulk bool }
