package bunch

import (
	"errors"
	"fmt"
	"time"
)

// Delivery is how a message is delivered within its channel.
type Delivery uint8

const (
	// Reliable messages arrive exactly once and in their channel's order.
	// Reliable messages arrive exactly once and in their channel's order.
	Reliable Delivery = iota
	// ReliableUnordered messages arrive exactly once, each as soon as it is complete.
	ReliableUnordered
	// Unreliable messages may be lost or overtake each other. They are never duplicated.
	Unreliable
	// UnreliableSequenced messages may be lost. A message overtaken by a newer one is
	// dropped.
	UnreliableSequenced
	// Tracked messages may be lost or overtake each other, and their sender learns whether
	// each one arrived. They are sent with [Conn.SendTracked]; Send does not accept
	// Tracked.
	Tracked
)

// Priority is the order in which channels are sent. Channel 0, for control, precedes them
// all.
type Priority uint8

const (
	High Priority = iota
	Normal
	Low
	// Bulk is sent last, and only while the window for bulk is open (see [Conn.SetWindow]).
	Bulk
)

// Policy selects what happens when a message does not fit into a reliable buffer.
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
	// MaxBunchBytes is the default limit on the size of a message. UE:
	// net.MaxConstructedPartialBunchSizeBytes.
	MaxBunchBytes = 65536
	// EntryBytes is the maximum payload of one entry of the reliable buffer. An entry of
	// this size, a packet header (52 bytes with acks) and a bunch header (11 bytes) fit
	// into the smallest datagram that QUIC falls back to (1,163 bytes).
	EntryBytes = 1100
)

// Errors of Send and Close that leave the connection open.
var (
	ErrBunchTooLarge      = errors.New("bunch: message too large")
	ErrReliableBufferFull = errors.New("bunch: reliable buffer full")
	ErrClosed             = errors.New("bunch: channel closed")
)

// Code is the reason why a connection ended. The names are Unreal's (ENetCloseResult) if
// Unreal has one.
type Code uint16

const (
	NoError Code = iota // never ends a connection; see [Conn.Refuse]
	// At this end, a channel's reliable buffer had no room for a message, under
	// OverflowClose.
	ReliableBufferOverflow
	MaxReliableExceeded // an entry is further ahead than the reliable buffer reaches
	// A message has more than MaxBunch bytes, or a part of a message has an invalid length.
	PartialTooLarge
	PartialMergeReliableDestroy   // a part belongs to no message
	PartialInitialReliableDestroy // a message begins before the last part of another
	// A bunch is on a channel where the peer may not send it, or the peer exceeds
	// MaxChannels.
	BunchBadChannelIndex
	// A bunch cannot be parsed or is not allowed on its channel, for example after the
	// close.
	BunchDataOverflow
	ReadHeaderFail      // a packet header cannot be parsed
	AckSequenceMismatch // an ack names a packet that was never sent
	AlreadyOpen         // a second open of a channel, or an open of one of this side's channels
	ReliableBeforeOpen  // the first message of a channel does not open it
	// The peer sent more bytes than the ReceiveLimit or the limit of channel 0 allows.
	ReceiveLimitExceeded
	ConnectionTimeout // no answer for Config.IdleTimeout
)

var codeNames = [...]string{
	"NoError", "ReliableBufferOverflow", "MaxReliableExceeded", "PartialTooLarge",
	"PartialMergeReliableDestroy", "PartialInitialReliableDestroy", "BunchBadChannelIndex",
	"BunchDataOverflow", "ReadHeaderFail", "AckSequenceMismatch", "AlreadyOpen",
	"ReliableBeforeOpen", "ReceiveLimitExceeded", "ConnectionTimeout",
}

// String returns the name of the code.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

// An Error is why a connection ended: a mistake at this end, a violation by the peer, or
// silence.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("bunch: %v: %s", e.Code, e.Reason) }

// CloseCode returns the code and reason with which to close the carrier.
func (e *Error) CloseCode() (uint64, string) { return uint64(e.Code), e.Reason }

// violation returns the error that ends a connection whose peer broke a rule.
func violation(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// A Message is a complete message, as returned by Next and Take.
type Message struct {
	Channel  uint64
	Delivery Delivery
	Open     bool // first message of a channel that the peer has opened
	Close    bool // last message of its channel; Payload may be nil
	Payload  []byte
	// The number of a Tracked message's packet, which is higher in packets sent later.
	// Otherwise 0.
	Number uint64

	cost   int32  // bytes of ReceiveLimit that are freed when Take returns it
	at     uint32 // time of completion, in grains since the connection began, modulo 2^32
	pinned uint16 // bytes of its datagram that Payload keeps in memory besides its own
	joined bool   // Payload was joined from the parts of a run and shares no memory
}

// grain is the unit of Message.at. Half of its 2^32 values count as the past, so
// [Conn.Waited] is right for a message that has waited for up to 9 hours.
const grain = 16 * time.Microsecond

// Entries returns how many entries of the reliable buffer a message of size bytes takes.
func Entries(size int) int {
	if size <= maxWhole {
		return 1
	}
	// At least two: an entry with both begin and end would be a whole bunch.
	return max(2, (size+EntryBytes-1)/EntryBytes)
}

// maxWhole is the size of the largest message in a whole bunch, where a two-byte length
// precedes it.
const maxWhole = EntryBytes - 2
