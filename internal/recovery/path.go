package recovery

import "time"

// Path describes the path of a carrier's datagrams to the machines that send them. Zero
// fields are unknown.
type Path struct {
	// Epoch rises when datagrams begin to take another path: another carrier or another
	// address.
	Epoch uint32
	// Fates is true if the carrier paces the datagrams and reports their fates: whether
	// each arrived or was lost.
	Fates bool
	// RTT is the round trip of the previous path. It is used only when Epoch or Fates
	// changes.
	RTT time.Duration

	// Set only if Fates is true.
	Window int     // bytes that the path holds
	Rate   float64 // bytes per second
	Loss   float64 // share of packets that are lost
	More   bool    // the machines will be given more bulk than they hold now
}

// KeepTime is how long a machine waits for the ack of a datagram whose arrival was
// reported. It then sends the content again, because the peer has not kept it. A peer keeps
// a datagram if its machine has acknowledged using the content.
const KeepTime = time.Second

// Overdue returns how long after a change of path datagrams sent on the previous path may
// still be acked. It is the time threshold of RFC 9002, section 6.1.2, after one spurious
// loss (see Losses), plus the peer's ack delay.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room limits the content of a datagram.
type Room struct {
	Max  int  // bytes
	Bulk bool // bulk is allowed; play always is
}

// Content is the kinds of traffic in a datagram, apart from acks and the machines' control
// messages.
type Content struct{ Play, Bulk bool }
