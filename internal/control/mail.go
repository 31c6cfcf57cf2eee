package control

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Messages of the game itself travel here after Join, either way, in their order:
//
//	Message   id u8; at most MaxMessage bytes
//	Taken     n, varint: so many messages of the other side have run since the last Taken
//
// A side has at most [Window] messages under way that no Taken has covered: channel 0 is exempt from flow control, and an honest sender
// must not fill what the other holds for it. One more is a violation, and so is a Taken of more than that.
const (
	// MaxMessage is how many bytes a message has at most: four entries of the reliable buffer.
	MaxMessage = 4096
	// Window messages of MaxMessage bytes take 86 KiB of the 160 that a side holds of channel 0 (bunch/WIRE.md, flow control), and
	// leave the rest to what the framework itself says there.
	Window = 16
)

// Message is one of the game's.
type Message struct {
	ID      uint8
	Payload []byte // of the packet that brought it
}

// Taken tells the sender of messages that so many have run, which makes room for as many more.
type Taken struct{ Count int }

// AppendMessage appends a message of the game's.
func AppendMessage(b []byte, m Message) []byte {
	return append(append(b, idMessage, m.ID), m.Payload...)
}

// AppendTaken appends how many messages have run.
func AppendTaken(b []byte, t Taken) []byte {
	return binary.AppendUvarint(append(b, idTaken), uint64(t.Count))
}

// IsTaken reports whether a message is a Taken.
func IsTaken(payload []byte) bool { return len(payload) > 0 && payload[0] == idTaken }

func parseMessage(r *reader) (m Message) {
	id := r.take(1)
	if r.err != nil {
		return m
	}
	if len(r.b) > MaxMessage {
		r.fail(fmt.Errorf("its %d bytes are above the limit of %d", len(r.b), MaxMessage))
		return m
	}
	return Message{id[0], r.take(len(r.b))}
}

func parseTaken(r *reader) Taken {
	n := r.uvarint(Window)
	if r.err == nil && n == 0 {
		r.fail(errors.New("nothing was taken"))
	}
	return Taken{int(n)}
}

// Outgoing counts the messages of this side.
type Outgoing struct{ open int }

// Full reports whether the other side must take some before one more may leave.
func (o *Outgoing) Full() bool { return o.open >= Window }

// Sent counts a message that leaves.
func (o *Outgoing) Sent() { o.open++ }

// Taken makes room, and reports false when the other side takes more than it was sent.
func (o *Outgoing) Taken(t Taken) bool {
	if t.Count > o.open {
		return false
	}
	o.open -= t.Count
	return true
}

// Incoming counts the messages of the other side.
type Incoming struct{ open int }

// Receive counts a message that has come, and reports false when it is beyond the window.
func (i *Incoming) Receive() bool {
	if i.open >= Window {
		return false
	}
	i.open++
	return true
}

// Owed returns how many messages have come, and are not told as taken.
func (i *Incoming) Owed() int { return i.open }

// Told counts what was told as taken.
func (i *Incoming) Told(t Taken) { i.open -= t.Count }
