package vital

import "time"

// Stats counts what a Conn has done. Every received packet is in one of Taken,
// Malformed, WrongToken, BadAck and Ignored.
type Stats struct {
	Sent       uint64 // packets
	Compressed uint64 // packets of Sent that were compressed
	Chunks     uint64 // sent for the first time
	Resent     uint64 // chunks sent again
	Asked      uint64 // packets with a request for a resend
	Answers    uint64 // answered requests of the peer for a resend
	TooBig     uint64 // chunks that did not fit into the packet: dropped, or vital and waiting

	Received   uint64 // packets
	Taken      uint64 // packets with valid chunks, or with a known control message
	Malformed  uint64
	WrongToken uint64
	BadAck     uint64 // packets that acknowledge what was not sent
	Ignored    uint64 // packets without a connection, and unknown control messages

	StaleAcks  uint64 // packets overtaken by one with a newer acknowledgement; their chunks are handled
	Delivered  uint64 // chunks made available to Next
	Duplicates uint64 // vital chunks received before
	Gaps       uint64 // vital chunks whose predecessor is missing
	Full       uint64 // chunks for which there was no room within ReceiveBytes

	RTT time.Duration // smoothed; 0 = unknown
}
