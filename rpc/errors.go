package rpc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
)

// Errors that a caller can act on. Errors that wrap them name the call, the actor or the
// limit. The error of a call that is too large wraps [bunch.ErrBunchTooLarge].
//
// A call that finds its reliable buffer full closes the connection with
// [ReliableBufferOverflow], as in Unreal. With [bunch.OverflowError] in Config.Bunch.Overflow,
// the call instead sends nothing, and its error wraps [bunch.ErrReliableBufferFull].
var (
	// ErrNotOwner: a client called a Server RPC on an actor that it does not own.
	ErrNotOwner = errors.New("rpc: this connection does not own the actor")
	// ErrWrongRole: only a server may do this, or only a client may.
	ErrWrongRole = errors.New("rpc: wrong role")
	// ErrUnbound: the call would run only in this world, and this world has no
	// handler. A Multicast on the server needs no handler.
	ErrUnbound = errors.New("rpc: no handler bound")
	// ErrClosed: the actor, the connection or the world has ended, or the actor's
	// close has arrived.
	ErrClosed = errors.New("rpc: closed")
	// ErrDormant: a client called a Server RPC on a dormant actor, which has no
	// channel, or on an actor whose close for dormancy has arrived; see
	// [Actor.SetDormant]. It also means that the server has not opened a placed
	// copy, or has closed it because it is far away; see [Place].
	ErrDormant = errors.New("rpc: the actor is dormant")
	// ErrBacklogFull: a bounded queue of the world, or of its streams, is full.
	ErrBacklogFull = errors.New("rpc: backlog full")
	// ErrOnWorld: a call that waits for the world was made on the world's goroutine,
	// where it would never return.
	ErrOnWorld = errors.New("rpc: blocking call on the world's goroutine")
)

// errorf is fmt.Errorf for a format that begins with "rpc: ". It removes that prefix from the
// texts of args that are errors of this package. The errors are wrapped unchanged.
func errorf(format string, args ...any) error {
	for i, arg := range args {
		if err, ok := arg.(error); ok && strings.HasPrefix(err.Error(), prefix) {
			args[i] = unprefixed{err}
		}
	}
	return fmt.Errorf(format, args...)
}

const prefix = "rpc: " // begins the texts of this package's errors

// unprefixed is an error without the prefix, for use inside another error's text.
type unprefixed struct{ error }

func (e unprefixed) Error() string { return strings.TrimPrefix(e.error.Error(), prefix) }
func (e unprefixed) Unwrap() error { return e.error }

// onClient returns the error for a client's call of the method by, which only a
// server may call.
func onClient(by string) error {
	return errorf("rpc: %s on a client: only the server may, so ask it by a Server RPC: %w", by, ErrWrongRole)
}

// ofAnother returns the error for a call of the world's method by with an actor of
// another world.
func ofAnother(by string) error {
	return errorf("rpc: %s of another world; call that of Actor.World: %w", by, ErrWrongRole)
}

// A Code is the reason why a connection ended.
//
// The numbers include those of [bunch.Code]. Codes have the names that Unreal gives
// them (ENetCloseResult), if it has them. The documentation of any of the constants,
// such as HostClosedConnection, shows them all. A game closes connections with codes
// of its own, from 1,024, or with one of these that fits.
type Code uint16

const (
	// ReliableBufferOverflow: a reliable call found the buffer of its channel full.
	ReliableBufferOverflow = Code(bunch.ReliableBufferOverflow)
	// ConnectionTimeout: the peer stopped sending.
	ConnectionTimeout = Code(bunch.ConnectionTimeout)
)

const (
	// HostClosedConnection: the world or its listener was closed.
	HostClosedConnection Code = 64 + iota
	// ConnectionLost: the carrier failed; the wrapped error is the cause.
	ConnectionLost
	// ProtocolMismatch: the two programs declare different classes or speak different versions.
	ProtocolMismatch
	// ControlChannelMessageUnknown: a handshake message has an unknown type.
	ControlChannelMessageUnknown
	// ControlChannelMessageFail: a handshake message came in the wrong order.
	ControlChannelMessageFail
	// ControlChannelMessagePayloadFail: a handshake message could not be decoded.
	ControlChannelMessagePayloadFail
	// PreLoginFailure: Config.Authenticate refused the token, or Config.Login
	// refused the client. The reason is the text of the error.
	PreLoginFailure
	// ServerFull: a limit on connections, failed logins, memory, posts or channel
	// numbers is reached, or Config.Authenticate can't check tokens now.
	ServerFull
	// HandshakeTimeout: the handshake took longer than Config.HandshakeTimeout, or the
	// client's first message took longer than Config.HelloTimeout.
	HandshakeTimeout
	// BunchPrematureChannel: something arrived on an actor's channel before Join.
	BunchPrematureChannel
	// BunchWrongChannel: a client opened or closed an actor's channel, which only a
	// server may do.
	BunchWrongChannel
	// UnknownMethod: a call names a method that its class does not have.
	UnknownMethod
	// WrongDirection: a client sent a Client RPC or a Multicast, or a server sent a Server RPC.
	WrongDirection
	// PayloadFail: an argument, a state or an open could not be decoded, named a
	// class that does not exist, or had bytes left over.
	PayloadFail
	// ValidationFailed: Validate or Check refused a call. UE: WithValidation.
	ValidationFailed
	// SealedViolation: a sealed packet violated the protocol.
	SealedViolation
	// HandlerPanic: a function of the game panicked during a call or the login of
	// this connection; see Config.OnPanic.
	HandlerPanic
	// LoginElsewhere: the identity has as many newer connections as
	// Config.MaxConnsPerIdentity allows. With RefuseLoginElsewhere it has as many older ones.
	LoginElsewhere
	// RPCDoS: the calls of the client, or of all clients with its identity, cost
	// more than Config.DoS allows.
	RPCDoS
	// ServerBusy: as many other clients are in their handshake as
	// Config.MaxHandshakes or MaxHandshakesPerAddress allows. There may be room
	// moments later, and Dial tries again by itself.
	//
	// Dial also tries again if Config.MaxConnsPerAddress is reached and the client
	// had to prove its address. QUIC has one code for both cases.
	ServerBusy
)

var codeNames = map[Code]string{
	HostClosedConnection:             "HostClosedConnection",
	ConnectionLost:                   "ConnectionLost",
	ProtocolMismatch:                 "ProtocolMismatch",
	ControlChannelMessageUnknown:     "ControlChannelMessageUnknown",
	ControlChannelMessageFail:        "ControlChannelMessageFail",
	ControlChannelMessagePayloadFail: "ControlChannelMessagePayloadFail",
	PreLoginFailure:                  "PreLoginFailure",
	ServerFull:                       "ServerFull",
	HandshakeTimeout:                 "HandshakeTimeout",
	BunchPrematureChannel:            "BunchPrematureChannel",
	BunchWrongChannel:                "BunchWrongChannel",
	UnknownMethod:                    "UnknownMethod",
	WrongDirection:                   "WrongDirection",
	PayloadFail:                      "PayloadFail",
	ValidationFailed:                 "ValidationFailed",
	SealedViolation:                  "SealedViolation",
	HandlerPanic:                     "HandlerPanic",
	LoginElsewhere:                   "LoginElsewhere",
	RPCDoS:                           "RPCDoS",
	ServerBusy:                       "ServerBusy",
}

// String returns the code's name, or Code(n) for a code of the game.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	if c < HostClosedConnection {
		return fmt.Sprint(bunch.Code(c))
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

// A CloseError is the reason why a connection ended. errors.Is(e, ErrClosed) is true for it.
type CloseError struct {
	Code   Code
	Reason string
	Remote bool  // the peer closed the connection
	cause  error // wrapped; nil = none
}

func (e *CloseError) Error() string {
	side := "closed"
	if e.Remote {
		side = "closed by the peer"
	}
	return fmt.Sprintf("rpc: connection %s: %v: %s", side, e.Code, e.Reason)
}

func (e *CloseError) Unwrap() error { return e.cause }

// Temporary reports whether a new connection may succeed a little later.
//
// It is true if the peer was lost (ConnectionTimeout, ConnectionLost) or has no room or
// time now (ServerFull, ServerBusy, HandshakeTimeout). It is also true if the peer closed
// with HostClosedConnection, as a server does when it shuts down. It is false if this side
// closed with HostClosedConnection, and for codes of the game.
func (e *CloseError) Temporary() bool {
	switch e.Code {
	case ConnectionTimeout, ConnectionLost, ServerFull, ServerBusy, HandshakeTimeout:
		return true
	case HostClosedConnection:
		return e.Remote
	}
	return false
}

// Is makes errors.Is(e, ErrClosed) true for every CloseError.
func (e *CloseError) Is(target error) bool { return target == ErrClosed }

// A RequestError is the reason why a [Request] has no answer. It wraps the cause:
//
//	context.DeadlineExceeded    nobody answered in time
//	context.Canceled            the context of Ask was canceled
//	ErrClosed, a *CloseError    the connection ended, or the world was closed
//	ErrClosed                   the actor ended, or its channel closed
//	ErrDormant                  the actor is dormant
//	ErrBacklogFull              Config.MaxRequests are open, at this end or at the other
//	ErrUnbound                  the end that should answer has no handler
//	ErrNotOwner                 the asker doesn't own the actor, or no longer did when the question arrived
//	one of Class.Errors         the handler returned that error; Refused is set
//	none, with Refused          the handler returned another error
//	none, with RateLimited      the request was asked more often than its RateLimit, or the server's Config.DoS, allows
//
// A handler that returns a RequestError chooses its Code.
type RequestError struct {
	Request string // the name of the request, "Class.Name"
	// From the handler's *RequestError, or from an error that Class.Errors declares;
	// 0 = another error.
	Code uint32
	// The text of the handler's error, or why there is no answer. Valid UTF-8, at
	// most 512 bytes.
	Text        string
	Refused     bool // the handler returned an error
	RateLimited bool // described above
	cause       error
}

func (e *RequestError) Error() string {
	switch {
	case e == nil: // a handler returned a nil *RequestError as its error
		return "the handler returned a nil *RequestError as an error; let it return nil"
	case e.Refused && e.cause != nil:
		return e.Text
	case e.Refused && e.Code != 0:
		return fmt.Sprintf("rpc: %s refused with code %d: %s", e.Request, e.Code, e.Text)
	case e.Refused:
		return fmt.Sprintf("rpc: %s refused: %s", e.Request, e.Text)
	}
	return fmt.Sprintf("rpc: %s has no answer: %s", e.Request, e.Text)
}

func (e *RequestError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// closeErrorOf converts the error that ended a link to a CloseError.
func closeErrorOf(err error) *CloseError {
	var (
		own       *CloseError
		linked    *link.CloseError
		violation *bunch.Error
		app       *quic.ApplicationError
		idle      *quic.IdleTimeoutError
		reset     *quic.StatelessResetError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &app):
		return &CloseError{
			Code:   codeOf(uint64(app.ErrorCode)),
			Reason: app.ErrorMessage,
			Remote: app.Remote,
			cause:  err,
		}
	case errors.As(err, &linked):
		return &CloseError{Code: codeOf(linked.Code), Reason: linked.Reason, Remote: linked.Remote, cause: err}
	case errors.As(err, &violation):
		return &CloseError{Code: Code(violation.Code), Reason: violation.Reason, cause: err}
	case errors.As(err, &idle):
		return &CloseError{
			Code:   ConnectionTimeout,
			Reason: "no QUIC packet from the peer within the idle timeout",
			cause:  err,
		}
	case errors.As(err, &reset):
		return &CloseError{
			Code:   ConnectionLost,
			Reason: "the peer does not know the connection: it was restarted, or has given the connection up",
			Remote: true,
			cause:  err,
		}
	case err == nil:
		return &CloseError{Reason: "closed"}
	}
	return &CloseError{Code: ConnectionLost, Reason: err.Error(), cause: err}
}

// codeOf converts a code from the wire. QUIC's codes have 62 bits. A code with more
// than 16 bits becomes ConnectionLost.
func codeOf(wire uint64) Code {
	if wire > 0xffff {
		return ConnectionLost
	}
	return Code(wire)
}
