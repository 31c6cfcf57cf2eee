// Package control has the messages of channel 0: those of the handshake, in their strict order, those by which two ends agree on
// sealed carriers, and the game's own. It is pure.
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
// The ids are Unreal's; Shape stands where Upgrade does. After Join what sealed.go names travels here, when both Hellos have the
// feature, Missed, AskTime and Time, and what mail.go names.
const (
	idHello   = 0
	idWelcome = 1
	idShape   = 2
	idLogin   = 5
	idJoin    = 9
	idMessage = 20 // after Join
	idMissed  = 40 // likewise
	idAskTime = 41 // likewise
	idTime    = 42 // likewise
	idTaken   = 43 // likewise
)

// FeatureSealed is the bit of a Hello's Features for sealed carriers. Bits that are not known are for later versions.
const FeatureSealed = 1 << 0

// Version is the version of all that travels below the classes.
const Version = 1

// Limits of the messages.
const (
	MaxIdentity  = 1024    // bytes of an identity
	MaxToken     = 4096    // bytes of a token
	maxParam     = 1 << 30 // of any number in Params: all are far below
	maxAckDelay  = time.Minute
	maxHeld      = 24 * time.Hour // a world that stands still for longer has lost its clients
	maxShapeSent = 4096           // lines of a Shape
	// maxShapeBytes is how much of the classes a server sends to a client that differs, so that it fits one message.
	maxShapeBytes = 48 << 10
)

// Hello opens the handshake on both sides.
type Hello struct {
	Version  uint64
	Features uint64 // bits; what one side lacks is off
	Params   bunch.Params
	Shape    [32]byte // hash of the classes
}

// Login carries the token for Config.Authenticate.
type Login struct{ Token []byte }

// Welcome says who the client is.
type Welcome struct{ Identity string }

// Join asks for the world.
type Join struct{}

// Missed is a client's: it had no memory for states that it acknowledged, and asks for those of all its actors anew.
type Missed struct{}

// AskTime is a client's: it asks what time it is for the server's game. The next one follows the answer.
type AskTime struct{}

// Time answers AskTime.
type Time struct {
	Now  int64         // nanoseconds since 1970 by the server's game, when the answer left
	Held time.Duration // since the question had come
}

// Shape are the server's classes, for a client whose classes differ.
type Shape struct {
	Lines []string
	Cut   bool // there are more
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

// AppendShape appends as many of the lines as fit one message, and whether some did not.
func AppendShape(b []byte, lines []string) []byte {
	size, n := 0, 0
	for n < len(lines) && n < maxShapeSent && size+len(lines[n])+binary.MaxVarintLen16 <= maxShapeBytes {
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
	n := r.uvarint(maxShapeSent)
	for i := uint64(0); i < n && r.err == nil; i++ {
		s.Lines = append(s.Lines, string(r.bytes(maxShapeBytes)))
	}
	return s
}

// Parse parses one message of channel 0, and returns it as a value of its type: a Hello, a Login and so on. What it returns may
// alias payload. An error is an *Error.
func Parse(payload []byte) (message any, err error) {
	if len(payload) == 0 {
		return nil, &Error{PayloadFail, "a control message is empty"}
	}
	r := reader{b: payload[1:]}
	switch payload[0] {
	case idHello:
		message = parseHello(&r)
	case idLogin:
		message = parseLogin(&r)
	case idWelcome:
		message = parseWelcome(&r)
	case idJoin:
		message = Join{}
	case idMissed:
		message = Missed{}
	case idAskTime:
		message = AskTime{}
	case idTime:
		message = parseTime(&r)
	case idMessage:
		message = parseMessage(&r)
	case idTaken:
		message = parseTaken(&r)
	case idShape:
		message = parseShape(&r)
	default:
		if message = parseSealed(payload[0], &r); message == nil {
			return nil, &Error{Unknown, fmt.Sprintf("control message %d does not exist", payload[0])}
		}
	}
	if err := r.end(); err != nil {
		return nil, &Error{PayloadFail,
			fmt.Sprintf("%s of %d bytes: %v", Name(payload[0]), len(payload), err)}
	}
	return message, nil
}

// Name returns what a message is called, by its first byte.
func Name(id byte) string {
	switch id {
	case idHello:
		return "Hello"
	case idLogin:
		return "Login"
	case idWelcome:
		return "Welcome"
	case idJoin:
		return "Join"
	case idMissed:
		return "Missed"
	case idAskTime:
		return "AskTime"
	case idTime:
		return "Time"
	case idMessage:
		return "Message"
	case idTaken:
		return "Taken"
	case idShape:
		return "Shape"
	}
	if name, ok := sealedNames[id]; ok {
		return name
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

// uvarint takes a number up to limit, 0 meaning any.
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
