// Package control encodes and parses the messages of channel 0: the handshake in its strict order, the agreement on sealed carriers, and
// the game's own messages. It is pure.
package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
)

// Handshake messages travel on channel 0, one to a message: an id, then the body. The order is strict:
//
//	client                     server
//	Hello, Login          →
//	                      ←    Hello, or Shape when the classes differ and Config.ExplainMismatch: the client names the difference and closes
//	                      ←    Welcome, when Authenticate agrees
//	Join                  →
//
// The ids are Unreal's; Shape stands where Unreal has Upgrade. After Join channel 0 carries the messages listed in sealed.go, if both
// Hellos have the feature, those in mail.go, and Missed, AskTime and Time.
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

// FeatureSealed is the bit of Hello.Features for sealed carriers. A receiver ignores bits that it does not know: later versions use them.
const FeatureSealed = 1 << 0

// Version is the version of the protocol below the game's classes. Both ends must have the same one.
const Version = 1

// Limits of the messages.
const (
	MaxIdentity   = 1024    // bytes of an identity
	MaxToken      = 4096    // bytes of a token
	maxParam      = 1 << 30 // largest number in Params; all real ones are far smaller
	maxAckDelay   = time.Minute
	maxHeld       = 24 * time.Hour // a server that held a question for longer has lost its clients meanwhile
	maxShapeLines = 4096
	// maxShapeBytes bounds the Shape that a server sends to a client whose classes differ, so that it fits one message.
	maxShapeBytes = 48 << 10
)

// Hello opens the handshake on both sides.
type Hello struct {
	Version  uint64
	Features uint64 // bits; a feature is on if both sides set its bit
	Params   bunch.Params
	Shape    [32]byte // hash of the classes
}

// Login carries the token for Config.Authenticate.
type Login struct{ Token []byte }

// Welcome says who the client is.
type Welcome struct{ Identity string }

// Join asks for the world.
type Join struct{}

// Missed is sent by a client that had no memory for states whose packets it had acknowledged: it asks for the states of all its actors
// anew.
type Missed struct{}

// AskTime is sent by a client that asks for the time of the server's game. The client sends the next one only after the answer.
type AskTime struct{}

// Time answers AskTime.
type Time struct {
	Now  int64         // the server's game time when the answer left, in nanoseconds since 1970
	Held time.Duration // how long the server had kept the question
}

// Shape lists the server's classes, for a client whose classes differ.
type Shape struct {
	Lines []string
	Cut   bool // the server has more lines than the message holds
}

func AppendHello(b []byte, h Hello) []byte {
	b = append(b, idHello)
	b = binary.AppendUvarint(b, h.Version)
	b = binary.AppendUvarint(b, h.Features)
	p := h.Params
	for _, n := range []int{p.ReliableBuffer, p.MaxBunch, p.History, p.MaxChannels} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(p.AckDelay/time.Microsecond))
	return append(b, h.Shape[:]...)
}

func parseHello(r *reader) Hello {
	h := Hello{Version: r.uvarint(1 << 32)}
	if h.Version != Version && r.err == nil { // what follows only it knows
		r.b = nil
		return h
	}
	h.Features = r.uvarint(0)
	for _, n := range []*int{&h.Params.ReliableBuffer, &h.Params.MaxBunch, &h.Params.History, &h.Params.MaxChannels} {
		*n = int(r.uvarint(maxParam))
	}
	h.Params.AckDelay = time.Duration(r.uvarint(uint64(maxAckDelay/time.Microsecond))) * time.Microsecond
	copy(h.Shape[:], r.take(len(h.Shape)))
	return h
}

func AppendLogin(b []byte, l Login) []byte {
	return appendBytes(append(b, idLogin), l.Token)
}

func parseLogin(r *reader) Login { return Login{Token: append([]byte(nil), r.bytes(MaxToken)...)} }

func AppendWelcome(b []byte, w Welcome) []byte {
	return appendBytes(append(b, idWelcome), []byte(w.Identity))
}

func parseWelcome(r *reader) Welcome { return Welcome{Identity: string(r.bytes(MaxIdentity))} }

func AppendJoin(b []byte) []byte { return append(b, idJoin) }

func AppendMissed(b []byte) []byte { return append(b, idMissed) }

func AppendAskTime(b []byte) []byte { return append(b, idAskTime) }

func AppendTime(b []byte, t Time) []byte {
	b = binary.BigEndian.AppendUint64(append(b, idTime), uint64(t.Now))
	return binary.AppendUvarint(b, uint64(t.Held))
}

func parseTime(r *reader) Time {
	now := r.take(8)
	held := time.Duration(r.uvarint(uint64(maxHeld)))
	if r.err != nil {
		return Time{}
	}
	return Time{Now: int64(binary.BigEndian.Uint64(now)), Held: held}
}

// AppendShape appends a Shape with the lines that fit one message; Cut tells the reader whether some did not.
func AppendShape(b []byte, lines []string) []byte {
	size, n := 0, 0
	for n < len(lines) && n < maxShapeLines && size+len(lines[n])+binary.MaxVarintLen16 <= maxShapeBytes {
		size += len(lines[n]) + binary.MaxVarintLen16
		n++
	}
	cut := byte(0)
	if n < len(lines) {
		cut = 1
	}
	b = append(b, idShape, cut)
	b = binary.AppendUvarint(b, uint64(n))
	for _, line := range lines[:n] {
		b = appendBytes(b, []byte(line))
	}
	return b
}

func parseShape(r *reader) Shape {
	var s Shape
	switch cut := r.take(1); {
	case r.err != nil:
	case cut[0] > 1:
		r.fail(fmt.Errorf("flag %d is neither 0 nor 1", cut[0]))
	default:
		s.Cut = cut[0] == 1
	}
	n := r.uvarint(maxShapeLines)
	for i := uint64(0); i < n && r.err == nil; i++ {
		s.Lines = append(s.Lines, string(r.bytes(maxShapeBytes)))
	}
	return s
}

// format is how a message is called and parsed.
type format struct {
	name  string
	parse func(r *reader) any
}

// formats are those of all messages, by their first bytes.
var formats = map[byte]format{
	idHello:      {"Hello", as(parseHello)},
	idWelcome:    {"Welcome", as(parseWelcome)},
	idShape:      {"Shape", as(parseShape)},
	idLogin:      {"Login", as(parseLogin)},
	idJoin:       {"Join", as(parseNothing[Join])},
	idMessage:    {"Message", as(parseMessage)},
	IDSealedOpen: {"SealedOpen", parseSealed(IDSealedOpen)},
	IDSealedShut: {"SealedShut", parseSealed(IDSealedShut)},
	IDSealedAsk:  {"SealedAsk", parseSealed(IDSealedAsk)},
	IDSealedIDs:  {"SealedIDs", parseSealed(IDSealedIDs)},
	idMissed:     {"Missed", as(parseNothing[Missed])},
	idAskTime:    {"AskTime", as(parseNothing[AskTime])},
	idTime:       {"Time", as(parseTime)},
	idTaken:      {"Taken", as(parseTaken)},
}

// as forgets the type that a function returns.
func as[T any](parse func(r *reader) T) func(r *reader) any {
	return func(r *reader) any { return parse(r) }
}

func parseNothing[T any](*reader) (none T) { return none }

// Parse parses one message of channel 0, and returns it as a value of its type: a Hello, a Login and so on. What it returns may
// alias payload. An error is an *Error.
func Parse(payload []byte) (message any, err error) {
	if len(payload) == 0 {
		return nil, &Error{PayloadFail, "a control message is empty"}
	}
	f, ok := formats[payload[0]]
	if !ok {
		return nil, &Error{Unknown, fmt.Sprintf("control message %d does not exist", payload[0])}
	}
	r := reader{b: payload[1:]}
	message = f.parse(&r)
	if err := r.end(); err != nil {
		return nil, &Error{PayloadFail, fmt.Sprintf("%s of %d bytes: %v", f.name, len(payload), err)}
	}
	return message, nil
}

// Name returns the name of a message, given its first byte.
func Name(id byte) string {
	if f, ok := formats[id]; ok {
		return f.name
	}
	return fmt.Sprintf("message %d", id)
}

// Kind says what is wrong with a message.
type Kind uint8

const (
	Unknown     Kind = iota + 1 // it does not exist
	Fail                        // it arrived in the wrong order
	PayloadFail                 // it cannot be decoded
)

// Error is a violation of the handshake.
type Error struct {
	Kind   Kind
	Reason string
}

func (e *Error) Error() string { return "control: " + e.Reason }

func appendBytes(b, p []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}

var errShort = errors.New("it ends too early")

// reader takes values from a message; after the first failure it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.b, r.err = nil, err
	}
}

// uvarint takes a number of at most limit; limit 0 allows any.
func (r *reader) uvarint(limit uint64) uint64 {
	n, k := binary.Uvarint(r.b)
	switch {
	case k <= 0:
		r.fail(errShort)
		return 0
	case limit > 0 && n > limit:
		r.fail(fmt.Errorf("%d is above the limit of %d", n, limit))
		return 0
	}
	r.b = r.b[k:]
	return n
}

// positive takes a number from 1 to limit; none says what 0 would mean.
func (r *reader) positive(limit uint64, none string) uint64 {
	n := r.uvarint(limit)
	if r.err == nil && n == 0 {
		r.fail(errors.New(none))
	}
	return n
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(errShort)
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

// bytes takes a byte string of at most limit bytes; it aliases the message.
func (r *reader) bytes(limit int) []byte {
	return r.take(int(r.uvarint(uint64(limit))))
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errors.New("bytes are left over")
	}
	return r.err
}
