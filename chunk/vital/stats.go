package vital

import "time"

// Stats counts what a Conn did. Every received packet is counted in one of Taken,
// Malformed, WrongToken, BadAck and Ignored.
type Stats struct {
	// Sending.
	Sent       uint64 // packets sent
	Compressed uint64 // packets sent compressed
	Chunks     uint64 // chunks sent for the first time
	Resent     uint64 // chunks resent
	Asked      uint64 // packets with a request for a resend
	Answers    uint64 // resend requests of the peer that were answered
	TooBig     uint64 // chunks too large for the packet: dropped, or left waiting if vital

	// Received packets.
	Received   uint64 // all
	Taken      uint64 // with valid chunks, or with a known control message
	Malformed  uint64
	WrongToken uint64
	BadAck     uint64 // acknowledging a number that was not sent
	Ignored    uint64 // without a connection, or with an unknown control message

	// Content of the packets in Taken.
	StaleAcks  uint64 // packets overtaken by one with a newer acknowledgement; their chunks still count
	Delivered  uint64 // chunks made available to Next
	Duplicates uint64 // vital chunks received before
	Gaps       uint64 // vital chunks whose predecessor is missing
	Full       uint64 // chunks for which there was no room within ReceiveBytes

	RTT time.Duration // smoothed; 0 = unknown
}
