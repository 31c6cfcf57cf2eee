package recovery

import "time"

// Path is what a machine may know of what carries its datagrams. Zero fields are unknown.
type Path struct {
	// Epoch rises when datagrams take another way from now on: another carrier, or another address.
	Epoch uint32
	// Fates says that the carrier paces what it asks for, and tells of each datagram whether it arrived.
	Fates bool
	// RTT is the round trip of the path that was left. It is looked at when Epoch rises.
	RTT time.Duration

	// With Fates only.
	Window int     // bytes that the path holds
	Rate   float64 // bytes a second
	Loss   float64 // share of packets that are lost
}

// KeepTime is after how long what arrived, and was not acknowledged, leaves again: its peer has not kept it.
const KeepTime = time.Second

// Overdue is how long what took another way may still arrive, after datagrams have left it: the time threshold of a loss
// (RFC 9002, 6.1.2) at its first widening, and what the peer waits with its ack.
func Overdue(rtt, ackDelay time.Duration) time.Duration { return rtt*5/4 + ackDelay }

// Room is what a datagram may take.
type Room struct {
	Max  int  // bytes
	Bulk bool // bulk may leave; play always may
}
