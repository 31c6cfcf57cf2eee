package bunch

import (
	"errors"
	"fmt"
	"time"
)

// A Delivery says whether a message is sure to arrive, and how it is ordered relative to the other
// messages on its channel.
type Delivery uint8

const (
	// Reliable messages arrive exactly once and in their channel's order.
	Reliable Delivery = iota
	// ReliableUnordered messages arrive exactly once, each as soon as it is complete.
	ReliableUnordered
	// Unreliable messages may be lost, or overtake each other, but are never duplicated.
	Unreliable
	// UnreliableSequenced messages may be lost, and are dropped if a newer one overtakes them.
	UnreliableSequenced
	// Tracked messages may be lost, or overtake each other, but their sender learns whether
	// each of them arrived. They are sent with [Conn.SendTracked]; Send does not accept them.
	Tracked
)

// A Priority decides which channels are sent first. Channel 0, which is for control messages,
// precedes all others.
type Priority uint8

const (
	High Priority = iota
	Normal
	Low
	// Bulk goes last, and only while the window for bulk is open (see [Conn.SetWindow]).
	Bulk
)

// A Policy decides what happens if a message does not fit into a reliable buffer.
type Policy uint8

const (
	// OverflowClose ends the connection with ReliableBufferOverflow, as Unreal does.
	OverflowClose Policy = iota
	// OverflowError makes Send return ErrReliableBufferFull and send nothing.
	OverflowError
)

// Limits of the wire format.
const (
	// Protocol is the first byte of every packet.
	Protocol byte = 0x01
	// MaxBunchBytes is the default limit on the size of a message, and the highest that Config
	// allows. Unreal has the same default (net.MaxConstructedPartialBunchSizeBytes).
	MaxBunchBytes = 65536
	// EntryBytes is the number of bytes that an entry of the reliable buffer holds. Together
	// with a packet header (52 bytes with acks) and a bunch header (11 bytes), an entry fits
	// into the smallest datagram that QUIC falls back to (1,163 bytes).
	EntryBytes = 1100
)

// Errors of Send and Close that leave the connection open.
var (
	ErrBunchTooLarge      = errors.New("bunch: message too large")
	ErrReliableBufferFull = errors.New("bunch: reliable buffer full")
	ErrClosed             = errors.New("bunch: channel closed")
)

// A Code is the reason for the end of a connection. Where Unreal has a name for the reason (in
// ENetCloseResult), we use the same name.
type Code uint16

const (
	NoError Code = iota // never the reason; see [Conn.Refuse]

	// Mistakes at this end.

	// A message did not fit into its channel's reliable buffer, under OverflowClose.
	ReliableBufferOverflow

	// Violations by the peer.

	MaxReliableExceeded // an entry is too far ahead for the reliable buffer
	// A message has more than MaxBunch bytes, or a part of one has an invalid length.
	PartialTooLarge
	PartialMergeReliableDestroy   // a part belongs to no message
	PartialInitialReliableDestroy // a message begins before the last part of another
	// A bunch is on a channel where the peer may not send it, or the peer exceeds MaxChannels.
	BunchBadChannelIndex
	// A bunch cannot be parsed, or comes at the wrong time, such as after its channel's close.
	BunchDataOverflow
	ReadHeaderFail      // a packet header cannot be parsed
	AckSequenceMismatch // an ack is for a packet that was never sent
	AlreadyOpen         // a channel is opened twice, or by the wrong side
	ReliableBeforeOpen  // the first message of a channel does not open it
	// The peer exceeded the ReceiveLimit, or the limit of channel 0.
	ReceiveLimitExceeded

	ConnectionTimeout // no answer for Config.IdleTimeout
)

var codeNames = [...]string{
	NoError:                       "NoError",
	ReliableBufferOverflow:        "ReliableBufferOverflow",
	MaxReliableExceeded:           "MaxReliableExceeded",
	PartialTooLarge:               "PartialTooLarge",
	PartialMergeReliableDestroy:   "PartialMergeReliableDestroy",
	PartialInitialReliableDestroy: "PartialInitialReliableDestroy",
	BunchBadChannelIndex:          "BunchBadChannelIndex",
	BunchDataOverflow:             "BunchDataOverflow",
	ReadHeaderFail:                "ReadHeaderFail",
	AckSequenceMismatch:           "AckSequenceMismatch",
	AlreadyOpen:                   "AlreadyOpen",
	ReliableBeforeOpen:            "ReliableBeforeOpen",
	ReceiveLimitExceeded:          "ReceiveLimitExceeded",
	ConnectionTimeout:             "ConnectionTimeout",
}

// String returns the name of the code.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

// An Error says why a connection ended: because of a mistake at this end, a violation by the peer,
// or a timeout.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("bunch: %v: %s", e.Code, e.Reason) }

// CloseCode returns the code and the reason to close the carrier with.
func (e *Error) CloseCode() (uint64, string) { return uint64(e.Code), e.Reason }

// violation returns the error that ends a connection, usually because the peer violated the
// protocol.
func violation(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// tooLarge returns the error for a message from the peer with more than limit bytes, which is the
// agreed MaxBunch.
func tooLarge(channel uint64, size, limit int) error {
	return violation(PartialTooLarge, "channel %d: message has %d bytes; the limit is %d (MaxBunch)",
		channel, size, limit)
}

// A Message is a complete message, as returned by Next and Take.
type Message struct {
	Channel  uint64
	Delivery Delivery
	Open     bool // first message of a channel that the peer has opened
	Close    bool // last message of its channel; Payload may be nil

	// Payload belongs to the caller, who may keep it. It may alias the datagram that was passed to
	// Receive, and keep all of that alive.
	Payload []byte

	// Number is the number of the packet that carried a Tracked message. A packet sent later
	// has a higher number. For other messages, Number is 0.
	Number uint64

	receipt receipt
}

// A receipt is what the receiving Conn has to know about a message until Take returns it, and
// afterwards for Waited and Reuse.
type receipt struct {
	cost   int32  // bytes of ReceiveLimit that Take frees
	at     uint32 // when the message was complete, in grains since the start; wraps around
	pinned uint16 // bytes that Payload keeps in memory in addition to its own
	joined bool   // Payload was joined from the parts of a run, so it shares no memory
}

// grain is the unit of receipt.at. Since half of the 2^32 values count as the past,
// [Conn.Waited] is right for messages that have waited for up to 9 hours.
const grain = 16 * time.Microsecond

// Entries returns the number of entries of the reliable buffer that a message of size bytes
// occupies.
func Entries(size int) int {
	if size <= maxWhole {
		return 1
	}
	// One entry isn't enough even for EntryBytes, because an entry that both begins and ends a
	// message is a whole bunch, in which the message is preceded by its length.
	return max(2, (size+EntryBytes-1)/EntryBytes)
}

// maxWhole is the maximum size of a message in a whole bunch, where a two-byte length precedes it.
const maxWhole = EntryBytes - 2
