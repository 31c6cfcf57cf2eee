package control

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/wire"
)

// After Join, the game's own messages are sent on channel 0 in both directions, in order:
//
//	Message   id u8; at most MaxMessage bytes
//	Taken     n, varint: this many messages of the other side have run since the last Taken
//
// A side may have at most [Window] messages that no Taken has covered. Channel 0 is exempt
// from flow control, so an honest sender must not fill what the peer reserves for it.
// Exceeding the window is a violation. So is a Taken of more messages than were sent.
const (
	// MaxMessage is the maximum message size in bytes: four entries of the reliable buffer.
	MaxMessage = 4096
	// Window is the maximum number of sent messages not yet covered by a Taken. With
	// MaxMessage bytes each, they take 86 KiB of the 160 KiB that a side holds for channel 0
	// (bunch/WIRE.md, flow control). The rest is for the framework's own messages.
	Window = 16
)

// Message is one of the game's messages.
type Message struct {
	ID      uint8
	Payload []byte // aliases the packet that contains it
}

// Taken tells the sender that Count of its messages have run since the last Taken. The sender
// may then send Count more.
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
		r.Fail(fmt.Errorf("its %d bytes are above the limit of %d", len(r.Left), MaxMessage))
	}
	return Message{id, r.Take(len(r.Left))}
}

// parseTaken parses a Taken.
func parseTaken(r *wire.Reader) Taken { return Taken{int(r.Positive(Window, "nothing was taken"))} }

// Mail counts the messages of one direction, at either end, that no Taken has covered.
type Mail struct{ open int }

// Full reports whether the window is full. The next message must then wait for a Taken.
func (m *Mail) Full() bool { return m.open >= Window }

// Add counts a message. If the message exceeds the window, Add returns false and does
// nothing.
func (m *Mail) Add() bool {
	if m.Full() {
		return false
	}
	m.open++
	return true
}

// Open returns the number of messages that no Taken has covered yet.
func (m *Mail) Open() int { return m.open }

// Taken makes room in the window. If it covers more messages than there are, it returns false
// and does nothing.
func (m *Mail) Taken(t Taken) bool {
	if t.Count > m.open {
		return false
	}
	m.open -= t.Count
	return true
}
