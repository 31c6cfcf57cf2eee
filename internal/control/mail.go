package control

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/wire"
)

// After Join, either side may send the game's own messages. They arrive in order on channel 0:
//
//	Message   id u8; at most MaxMessage bytes
//	Taken     n, varint: this many messages of the other side have run since the last Taken
//
// Channel 0 has no flow control, so Taken keeps a sender from filling the memory that the peer has
// set aside for the channel: at most [Window] messages may be in flight that no Taken covers yet.
// Sending more is a violation, and so is a Taken that covers more messages than were sent.
const (
	// MaxMessage is the maximum size of a message, in bytes. A message of this size fills four
	// entries of the reliable buffer.
	MaxMessage = 4096

	// Window is the maximum number of messages that no Taken covers. At MaxMessage bytes each, they
	// need 86 KiB of the 160 KiB that a side sets aside for channel 0 (bunch/WIRE.md, flow
	// control). The rest is for the framework's own messages.
	Window = 16
)

// Message is one of the game's messages.
type Message struct {
	ID      uint8
	Payload []byte // part of the packet that it arrived in
}

// Taken says that Count more messages have run, so that the other side may send as many more.
type Taken struct{ Count int }

// AppendMessage appends one of the game's messages.
func AppendMessage(b []byte, m Message) []byte {
	return append(append(b, idMessage, m.ID), m.Payload...)
}

// AppendTaken appends a Taken.
func AppendTaken(b []byte, t Taken) []byte {
	return binary.AppendUvarint(append(b, idTaken), uint64(t.Count))
}

// IsTaken reports whether a message is a Taken.
func IsTaken(payload []byte) bool { return len(payload) > 0 && payload[0] == idTaken }

// parseMessage parses a Message.
func parseMessage(r *wire.Reader) Message {
	id := r.Byte()
	if len(r.Left) > MaxMessage {
		r.Fail(fmt.Errorf("payload has %d bytes; the limit is %d (MaxMessage)", len(r.Left), MaxMessage))
	}
	return Message{id, r.Take(len(r.Left))}
}

// parseTaken parses a Taken.
func parseTaken(r *wire.Reader) Taken { return Taken{int(r.Positive(Window, "count is 0"))} }

// Mail counts the messages in one direction that no Taken covers yet. Both sides keep a Mail for
// each direction.
type Mail struct{ uncovered int }

// Full reports whether the next message has to wait for a Taken.
func (m *Mail) Full() bool { return m.uncovered >= Window }

// Add counts a message. It returns false if the message exceeds the window.
func (m *Mail) Add() bool {
	if m.Full() {
		return false
	}
	m.uncovered++
	return true
}

// Open returns the number of messages that no Taken covers yet.
func (m *Mail) Open() int { return m.uncovered }

// Taken makes room in the window. It returns false if t covers more messages than were sent.
func (m *Mail) Taken(t Taken) bool {
	if t.Count > m.uncovered {
		return false
	}
	m.uncovered -= t.Count
	return true
}
