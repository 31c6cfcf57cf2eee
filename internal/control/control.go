// Package control encodes and parses the messages of channel 0: the handshake with its strict
// order, the agreement on sealed carriers, and the game's own messages. It has no clock, no
// goroutine and no lock.
package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/internal/words"
)

// The handshake takes place on channel 0. Each message consists of an ID of one byte and a
// body. The messages come in a strict order:
//
//	client                     server
//	Hello, Login          →
//	                      ←    Hello (or Shape)
//	                      ←    Welcome, if Authenticate accepts the token
//	Join                  →
//
// A server whose classes differ from the client's answers Hello with Shape if
// Config.ExplainMismatch is set. The client can then report the difference before it
// closes the connection.
//
// The IDs are the same as in Unreal, which calls Shape Upgrade.
//
// After Join, channel 0 carries Missed, AskTime and Time, and the messages of mail.go. If both
// Hellos have the feature, it also carries the messages of sealed.go.
const (
	idHello   = 0
	idWelcome = 1
	idShape   = 2
	idLogin   = 5
	idJoin    = 9

	// After Join.
	idMessage = 20
	idMissed  = 40
	idAskTime = 41
	idTime    = 42
	idTaken   = 43
)

// FeatureSealed is the bit in Hello.Features for sealed carriers. A receiver ignores unknown bits,
// because a later version may use them.
const FeatureSealed = 1 << 0

// Version is the version of the protocol, not including the game's classes. Both sides must have
// the same version. Any change to what the WIRE.md of a package describes raises it. Otherwise an
// older program would refuse the new bytes later, with an error that doesn't name the cause.
//
// Since version 2, an open carries the items of lists, Hello the game's version, and a Reject of
// package stream a code of its own for other fields.
const Version = 2

// Limits of the messages.
const (
	MaxGameVersion = 64      // bytes
	MaxIdentity    = 1024    // bytes
	MaxToken       = 4096    // bytes
	maxVersion     = 1 << 32 // a version of the protocol
	maxParam       = 1 << 30 // a number in Params; actual values are far smaller
	maxAckDelay    = time.Minute
	maxHeld        = 24 * time.Hour // a server that takes longer has lost its clients long before
	maxShapeLines  = 4096
	maxShapeBytes  = 48 << 10 // of the lines in a Shape, so that it fits into a single message
)

// MinBunch is the smallest limit on the size of a message with which a connection works. It is the
// maximum size of a Hello: an ID, the features, six other numbers, the shape and the game's
// version. A Hello can then be read whatever limit the other side has. All other messages are
// smaller, except those with a token, an identity, the game's payload or the lines of a shape.
const MinBunch = 1 + binary.MaxVarintLen64 + 6*binary.MaxVarintLen32 + len(Hello{}.Shape) + 1 + MaxGameVersion

// Hello opens the handshake on both sides.
type Hello struct {
	Version     uint64
	Features    uint64 // bits; a feature is on if both sides set its bit
	Params      bunch.Params
	Shape       [32]byte // hash of the classes
	GameVersion string   // the game's own, in UTF-8; a peer's may contain control characters
}

// Login carries the token that Config.Authenticate checks.
type Login struct{ Token []byte }

// Welcome tells the client its identity.
type Welcome struct{ Identity string }

// Join asks to join the world.
type Join struct{}

// Missed asks for the states of all actors again. A client sends it if it had no memory for the
// states in packets that it had acknowledged, because the server believes that the client has these
// states.
type Missed struct{}

// AskTime asks the server for the game time. A client waits for the answer before it asks
// again.
type AskTime struct{}

// Time answers AskTime.
type Time struct {
	Now  int64         // the server's game time when it answered, in nanoseconds since 1970
	Held time.Duration // how long the server took to answer
}

// Shape lists the server's classes. A client with different classes gets it instead of a Hello.
type Shape struct {
	Lines []string
	Cut   bool // there were more lines than fit
}

var errGameVersion = errors.New("the game's version is not valid UTF-8")

// AppendHello appends a Hello.
func AppendHello(b []byte, h Hello) []byte {
	b = append(b, idHello)
	b = binary.AppendUvarint(b, h.Version)
	b = binary.AppendUvarint(b, h.Features)
	p := h.Params
	for _, n := range []int{p.ReliableBuffer, p.MaxBunch, p.History, p.MaxChannels} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(p.AckDelay/time.Microsecond))
	b = append(b, h.Shape[:]...)
	return wire.AppendBytes(b, h.GameVersion)
}

// parseHello parses a Hello. If its version differs from ours, it parses only the version.
func parseHello(r *wire.Reader) Hello {
	h := Hello{Version: r.Uvarint(maxVersion)}
	if h.Version != Version {
		// The format of the rest is unknown.
		r.Left = nil
		return h
	}
	h.Features = r.Uvarint(wire.Any)
	p := &h.Params
	for _, n := range []*int{&p.ReliableBuffer, &p.MaxBunch, &p.History, &p.MaxChannels} {
		*n = int(r.Uvarint(maxParam))
	}
	p.AckDelay = time.Duration(r.Uvarint(uint64(maxAckDelay/time.Microsecond))) * time.Microsecond
	copy(h.Shape[:], r.Take(len(h.Shape)))
	h.GameVersion = string(r.Bytes(MaxGameVersion))
	if !utf8.ValidString(h.GameVersion) {
		r.Fail(errGameVersion)
	}
	return h
}

// AppendLogin appends a Login.
func AppendLogin(b []byte, l Login) []byte {
	return wire.AppendBytes(append(b, idLogin), l.Token)
}

// parseLogin parses a Login. The token is a copy, which the caller may keep.
func parseLogin(r *wire.Reader) Login { return Login{Token: append([]byte(nil), r.Bytes(MaxToken)...)} }

// AppendWelcome appends a Welcome.
func AppendWelcome(b []byte, w Welcome) []byte {
	return wire.AppendBytes(append(b, idWelcome), w.Identity)
}

// parseWelcome parses a Welcome.
func parseWelcome(r *wire.Reader) Welcome { return Welcome{Identity: string(r.Bytes(MaxIdentity))} }

// AppendJoin appends a Join.
func AppendJoin(b []byte) []byte { return append(b, idJoin) }

// AppendMissed appends a Missed.
func AppendMissed(b []byte) []byte { return append(b, idMissed) }

// AppendAskTime appends an AskTime.
func AppendAskTime(b []byte) []byte { return append(b, idAskTime) }

// AppendTime appends a Time.
func AppendTime(b []byte, t Time) []byte {
	b = binary.BigEndian.AppendUint64(append(b, idTime), uint64(t.Now))
	return binary.AppendUvarint(b, uint64(t.Held))
}

// parseTime parses a Time.
func parseTime(r *wire.Reader) Time {
	return Time{Now: int64(r.Uint64()), Held: time.Duration(r.Uvarint(uint64(maxHeld)))}
}

// shapeHead is the maximum size of a Shape without its lines: the ID, Cut and the number of lines.
const shapeHead = 1 + 1 + binary.MaxVarintLen16

// AppendShape appends a Shape of at most limit bytes, with as many lines as fit. It sets Cut if
// there are more.
func AppendShape(b []byte, lines []string, limit int) []byte {
	room := min(maxShapeBytes, limit-shapeHead)
	size, n := 0, 0
	for n < len(lines) && n < maxShapeLines &&
		size+len(lines[n])+binary.MaxVarintLen16 <= room {
		size += len(lines[n]) + binary.MaxVarintLen16
		n++
	}
	b = wire.AppendFlag(append(b, idShape), n < len(lines)) // Shape.Cut
	b = binary.AppendUvarint(b, uint64(n))
	for _, line := range lines[:n] {
		b = wire.AppendBytes(b, line)
	}
	return b
}

// parseShape parses a Shape.
func parseShape(r *wire.Reader) Shape {
	s := Shape{Cut: r.Flag()}
	for range r.Count(maxShapeLines, 1) {
		s.Lines = append(s.Lines, string(r.Bytes(maxShapeBytes)))
	}
	return s
}

// A format is the name of a kind of message, and the parser for what follows its ID.
type format struct {
	name  string
	parse func(r *wire.Reader) any
}

// formats holds the formats of all messages by ID.
var formats = map[byte]format{
	idHello:      {"Hello", as(parseHello)},
	idWelcome:    {"Welcome", as(parseWelcome)},
	idShape:      {"Shape", as(parseShape)},
	idLogin:      {"Login", as(parseLogin)},
	idJoin:       {"Join", as(parseEmpty[Join])},
	idMessage:    {"Message", as(parseMessage)},
	IDSealedOpen: {"SealedOpen", parseSealed(IDSealedOpen)},
	IDSealedShut: {"SealedShut", parseSealed(IDSealedShut)},
	IDSealedAsk:  {"SealedAsk", parseSealed(IDSealedAsk)},
	IDSealedIDs:  {"SealedIDs", parseSealed(IDSealedIDs)},
	idMissed:     {"Missed", as(parseEmpty[Missed])},
	idAskTime:    {"AskTime", as(parseEmpty[AskTime])},
	idTime:       {"Time", as(parseTime)},
	idTaken:      {"Taken", as(parseTaken)},
}

// as adapts a parser to return its message as an any.
func as[T any](parse func(r *wire.Reader) T) func(r *wire.Reader) any {
	return func(r *wire.Reader) any { return parse(r) }
}

// parseEmpty parses a message without a body.
func parseEmpty[T any](*wire.Reader) (message T) { return message }

// Parse parses a message of channel 0. The result has the message's own type, such as Hello or
// Login, and may alias payload. An error is an *Error.
func Parse(payload []byte) (message any, err error) {
	if len(payload) == 0 {
		return nil, &Error{PayloadFail, "empty control message"}
	}
	f, ok := formats[payload[0]]
	if !ok {
		return nil, &Error{Unknown, fmt.Sprintf("unknown control message %d", payload[0])}
	}
	r := wire.Reader{Left: payload[1:]}
	message = f.parse(&r)
	if err := r.End(); err != nil {
		return nil, &Error{PayloadFail, fmt.Sprintf("%s of %s: %v", f.name, words.Bytes(len(payload)), err)}
	}
	return message, nil
}

// Name returns the name of the message with the given ID, for errors.
func Name(id byte) string {
	if f, ok := formats[id]; ok {
		return f.name
	}
	return fmt.Sprintf("message %d", id)
}

// A Kind says what is wrong with a message.
type Kind uint8

const (
	Unknown     Kind = iota + 1 // its ID is unknown
	Fail                        // it arrived in the wrong state
	PayloadFail                 // it can't be parsed
)

// An Error is a violation of the protocol on channel 0.
type Error struct {
	Kind   Kind
	Reason string
}

func (e *Error) Error() string { return "control: " + e.Reason }
