package control

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/wire"
)

// After Join the game's own messages travel on channel 0 in both directions, in order:
//
//	Message   id u8; at most MaxMessage bytes
//	Taken     n, varint: so many messages of the other side have run since the last Taken
//
// A side has at most [Window] messages under way that no Taken has covered: channel 0 is exempt from flow control, and an honest sender
// must not fill what the peer reserves for it. One message more is a violation, and so is a Taken for more messages than are under way.
const (
	// MaxMessage is the largest message in bytes: four entries of the reliable buffer.
	MaxMessage = 4096
	// Window is how many messages may be under way. Of MaxMessage bytes each they take 86 KiB of the 160 KiB that a side holds for channel 0
	// (bunch/WIRE.md, flow control); the rest is for the framework's own messages.
	Window = 16
)

// Message is a message of the game.
type Message struct {
	ID      uint8
	Payload []byte // aliases the packet that brought it
}

// Taken tells the sender that Count of its messages have run since the last Taken, so it may send Count more.
type Taken struct{ Count int }

// AppendMessage appends a message of the game.
func AppendMessage(b []byte, m Message) []byte {
	return append(append(b, idMessage, m.ID), m.Payload...)
}

// AppendTaken appends a Taken.
func AppendTaken(b []byte, t Taken) []byte {
	return binary.AppendUvarint(append(b, idTaken), uint64(t.Count))
}

// IsTaken reports whether a message is a Taken.
func IsTaken(payload []byte) bool { return len(payload) > 0 && payload[0] == idTaken }

func parseMessage(r *wire.Reader) Message {
	id := r.Byte()
	if len(r.Left) > MaxMessage {
		r.Fail(fmt.Errorf("its %d bytes are above the limit of %d", len(r.Left), MaxMessage))
	}
	return Message{id, r.Take(len(r.Left))}
}

func parseTaken(r *wire.Reader) Taken { return Taken{int(r.Positive(Window, "nothing was taken"))} }

// Mail counts the messages of one direction that no Taken has covered, at either end.
type Mail struct{ open int }

// Full reports whether the window is full: the next message needs a Taken before it.
func (m *Mail) Full() bool { return m.open >= Window }

// Add counts a message. It returns false, and does nothing, if that is beyond the window.
func (m *Mail) Add() bool {
	if m.Full() {
		return false
	}
	m.open++
	return true
}

// Open returns how many messages no Taken has covered yet.
func (m *Mail) Open() int { return m.open }

// Taken makes room in the window. It returns false, and does nothing, for a Taken of more messages than there are.
func (m *Mail) Taken(t Taken) bool {
	if t.Count > m.open {
		return false
	}
	m.open -= t.Count
	return true
}
