package bunch

import (
	"errors"
	"fmt"
	"time"
)

// Delivery says how a message travels within its channel.
type Delivery uint8

const (
	// Reliable messages arrive exactly once and in their channel's order.
	Reliable Delivery = iota
	// ReliableUnordered messages arrive exactly once, each as soon as it is complete.
	ReliableUnordered
	// Unreliable messages may be lost or overtake each other; they are never duplicated.
	Unreliable
	// UnreliableSequenced messages may be lost; one that a newer one overtook is dropped.
	UnreliableSequenced
	// Tracked is the delivery of messages that [Conn.SendTracked] sent: they may be lost or overtake each other, and their
	// sender is told of each. Send does not take it.
	Tracked
)

// Priority orders channels for the wire. Channel 0 (control) precedes all.
type Priority uint8

const (
	High Priority = iota
	Normal
	Low
	// Bulk leaves last, and only while the window for bulk is open (see [Conn.SetWindow]).
	Bulk
)

// Policy decides what a full reliable buffer does to the connection.
type Policy uint8

const (
	// OverflowClose ends the connection with ReliableBufferOverflow, as Unreal does.
	OverflowClose Policy = iota
	// OverflowError makes Send return ErrReliableBufferFull; nothing is sent.
	OverflowError
)

// Limits that the wire fixes.
const (
	// Protocol is the first byte of every packet.
	Protocol byte = 0x01
	// MaxBunchBytes is the default maximum of one message.
	// UE: net.MaxConstructedPartialBunchSizeBytes.
	MaxBunchBytes = 65536
	// EntryBytes is the most payload that one entry of the reliable buffer holds, so that a packet header (52 bytes
	// with acks) and a bunch header (11 bytes) fit the smallest datagram that QUIC falls back to (1,163 bytes).
	EntryBytes = 1100
)

// Errors of Send and Close that leave the connection open.
var (
	ErrBunchTooLarge      = errors.New("bunch: message too large")
	ErrReliableBufferFull = errors.New("bunch: reliable buffer full")
	ErrClosed             = errors.New("bunch: channel closed")
)

// Code says why a connection ended. The names are Unreal's (ENetCloseResult) where Unreal has one.
type Code uint16

const (
	NoError                       Code = iota // no connection ends with it; see [Conn.Refuse]
	ReliableBufferOverflow                    // here: a channel's reliable buffer had no room for a message, under OverflowClose
	MaxReliableExceeded                       // an entry lies further ahead than the reliable buffer reaches
	PartialTooLarge                           // a message has more than MaxBunch bytes, or a part of one a length that it cannot have
	PartialMergeReliableDestroy               // a part that continues no message
	PartialInitialReliableDestroy             // a message begins before the last part of another
	BunchBadChannelIndex                      // a channel on which the peer may not send this, or one more than MaxChannels
	BunchDataOverflow                         // a bunch that cannot be read, or that its channel does not allow, such as one behind the close
	ReadHeaderFail                            // a packet header that cannot be read
	AckSequenceMismatch                       // an ack of a packet that never left
	AlreadyOpen                               // a second open of a channel, or one of a channel of this side's
	ReliableBeforeOpen                        // the first message of a channel does not open it
	ReceiveLimitExceeded                      // more bytes than the ReceiveLimit, or on channel 0 than its bound
	ConnectionTimeout                         // no answer for Config.IdleTimeout
)

var codeNames = [...]string{
	"NoError", "ReliableBufferOverflow", "MaxReliableExceeded", "PartialTooLarge", "PartialMergeReliableDestroy",
	"PartialInitialReliableDestroy", "BunchBadChannelIndex", "BunchDataOverflow", "ReadHeaderFail",
	"AckSequenceMismatch", "AlreadyOpen", "ReliableBeforeOpen", "ReceiveLimitExceeded", "ConnectionTimeout",
}

// String returns the name of the code.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

// Error ends a connection: its own mistake, the peer's violation, or silence.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("bunch: %v: %s", e.Code, e.Reason) }

// CloseCode returns the code and reason to close the carrier with.
func (e *Error) CloseCode() (uint64, string) { return uint64(e.Code), e.Reason }

// violation returns the error that ends a connection whose peer broke a rule.
func violation(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Message is one complete message as Next returns it.
type Message struct {
	Channel  uint64
	Delivery Delivery
	Open     bool // the first message of a channel that the peer opened
	Close    bool // the last message of its channel; Payload may be nil
	Payload  []byte
	Number   uint64 // of a Tracked message: the packet that brought it, of which a higher one left later; else 0

	cost   int32  // bytes of ReceiveLimit that are given back when it is fetched
	at     uint32 // when it was complete, in grains since the connection began, modulo 2^32
	pinned uint16 // bytes of its datagram that Payload keeps in memory besides its own
	joined bool   // Payload was joined from the parts of a run, and shares its memory with nothing
}

// grain is the unit of Message.at. Half of its 2^32 values count as the past, so [Conn.Waited] is right for a message that has waited
// for up to 9 hours.
const grain = 16 * time.Microsecond

// Entries returns how many entries of the reliable buffer a message of size bytes takes.
func Entries(size int) int {
	if size <= maxWhole {
		return 1
	}
	return max(2, (size+EntryBytes-1)/EntryBytes) // with begin and end in one entry it would be a whole bunch
}

// maxWhole is the largest message of a whole bunch, in which a length of two bytes precedes it.
const maxWhole = EntryBytes - 2
