package vital

import "time"

// Stats counts what a Conn did. Every packet received is in one of Taken, Malformed, WrongToken, BadAck and Ignored.
type Stats struct {
	Sent       uint64 // packets
	Compressed uint64 // of Sent: packets that left compressed
	Chunks     uint64 // sent for the first time
	Resent     uint64 // chunks sent again
	Asked      uint64 // packets that asked for a resend
	Answers    uint64 // requests of the peer for a resend that were answered
	TooBig     uint64 // chunks that did not fit the packet offered: dropped, or vital and waiting

	Received   uint64 // packets
	Taken      uint64 // packets whose chunks were looked at, or whose control message was understood
	Malformed  uint64
	WrongToken uint64
	BadAck     uint64 // packets that acknowledge what was not sent
	Ignored    uint64 // packets without a connection, and unknown control messages

	StaleAcks  uint64 // packets overtaken by one with a newer acknowledgement; their chunks count
	Delivered  uint64 // chunks put up for Next
	Duplicates uint64 // vital chunks received before
	Gaps       uint64 // vital chunks whose predecessor is missing
	Full       uint64 // chunks that found no room within ReceiveBytes

	RTT time.Duration // smoothed; 0 = not known
}
