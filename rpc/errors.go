package rpc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link"
)

// Errors that a caller can handle. They are usually wrapped in an error that names the call, the
// actor or the limit. If a call is too large, its error wraps [bunch.ErrBunchTooLarge].
//
// A call that finds its reliable buffer full closes the connection with [ReliableBufferOverflow],
// as in Unreal, and so does a call beyond Config.SendLimit. If Config.Bunch.Overflow is
// [bunch.OverflowError], the call sends nothing instead, and returns an error that wraps
// [bunch.ErrReliableBufferFull].
var (
	// ErrNotOwner is returned if a client calls a Server RPC on an actor that it does not
	// own, or if OpenTo is to open an [OnlyRelevantToOwner] actor for another client.
	ErrNotOwner = errors.New("rpc: this connection does not own the actor")

	// ErrWrongRole is returned if a client does something that only a server may do, or vice
	// versa.
	ErrWrongRole = errors.New("rpc: wrong role")

	// ErrUnbound is returned if a call would run in this world only, and this world has no
	// handler for it. A Multicast on the server does not need one.
	ErrUnbound = errors.New("rpc: no handler bound")

	// ErrClosed is returned if the actor, the connection or the world has ended, or if the
	// actor's close has already arrived.
	ErrClosed = errors.New("rpc: closed")

	// ErrDormant is returned if a client calls a Server RPC on a dormant actor, which has no
	// channel, or on an actor whose close for dormancy has already arrived (see
	// [Actor.SetDormant]). It is also returned for a placed copy (see [Place]) that the
	// server hasn't opened, or that it has closed because it is far away.
	ErrDormant = errors.New("rpc: the actor is dormant")

	// ErrBacklogFull is returned if a bounded queue of the world, or of its streams, is full.
	ErrBacklogFull = errors.New("rpc: backlog full")

	// ErrOnWorld is returned if a call that waits for the world is made on the world's goroutine,
	// where it would wait forever.
	ErrOnWorld = errors.New("rpc: blocking call on the world's goroutine")
)

// errorf is fmt.Errorf for a format that begins with "rpc: ", or whose result becomes part of such
// a text. Errors of this package in args are wrapped as usual, but their texts appear without the
// prefix.
func errorf(format string, args ...any) error {
	for i, arg := range args {
		if err, ok := arg.(error); ok && strings.HasPrefix(err.Error(), prefix) {
			args[i] = unprefixed{err}
		}
	}
	return fmt.Errorf(format, args...)
}

const prefix = "rpc: " // begins the texts of this package's errors

// An unprefixed error omits the prefix, for use inside another error's text.
type unprefixed struct{ error }

func (e unprefixed) Error() string { return strings.TrimPrefix(e.error.Error(), prefix) }
func (e unprefixed) Unwrap() error { return e.error }

// errOnClient returns the error for calling the server-only method by on a client.
func errOnClient(by string) error {
	return errorf("rpc: %s on a client: only the server may do that: %w", by, ErrWrongRole)
}

// errOtherWorld returns the error for calling the method by with an actor of another world.
func errOtherWorld(by string) error {
	return errorf("rpc: %s of another world: use Actor.World: %w", by, ErrWrongRole)
}

// A Code says why a connection ended.
//
// The numbers include the codes of [bunch.Code]. Codes have the names of Unreal's ENetCloseResult
// where it has a counterpart. A game closes connections with its own codes, from 1,024, or with
// whichever of these codes fits.
type Code uint16

// firstGameCode is the first of the codes that a game may define itself.
const firstGameCode Code = 1024

const (
	// ReliableBufferOverflow means that a reliable call found the buffer of its channel full, or
	// that all reliable messages together held more than Config.SendLimit or SendBudget.
	ReliableBufferOverflow = Code(bunch.ReliableBufferOverflow)

	// ConnectionTimeout means that nothing came from the peer for Config.IdleTimeout.
	ConnectionTimeout = Code(bunch.ConnectionTimeout)
)

const (
	// HostClosedConnection means that the world or its listener was closed.
	HostClosedConnection Code = 64 + iota

	// ConnectionLost means that the carrier failed. The wrapped error is the cause.
	ConnectionLost

	// ProtocolMismatch means that the two programs declare different classes, speak different
	// versions of the protocol, or have different versions of the game (Config.GameVersion). UE:
	// Upgrade, OutdatedClient, OutdatedServer.
	ProtocolMismatch

	// ControlChannelMessageUnknown means that a handshake message has an unknown type.
	ControlChannelMessageUnknown

	// ControlChannelMessageFail means that a handshake message arrived out of order.
	ControlChannelMessageFail

	// ControlChannelMessagePayloadFail means that a handshake message couldn't be decoded.
	ControlChannelMessagePayloadFail

	// PreLoginFailure means that Config.Authenticate refused the token, or that Config.Login
	// refused the client, with an error that is no CloseError with a code of the game's own. The
	// reason is the text of the error.
	PreLoginFailure

	// ServerFull means that a limit on connections, failed logins, memory, posts or channel
	// numbers has been reached, or that Config.Authenticate can't check tokens now.
	ServerFull

	// HandshakeTimeout means that the handshake took longer than Config.HandshakeTimeout, or that
	// the client's first message took longer than Config.HelloTimeout.
	HandshakeTimeout

	// BunchPrematureChannel means that something arrived on an actor's channel before Join.
	BunchPrematureChannel

	// BunchWrongChannel means that a client opened or closed an actor's channel, which only a
	// server may do.
	BunchWrongChannel

	// UnknownMethod means that a call names a method that its class doesn't have.
	UnknownMethod

	// WrongDirection means that a client sent a Client RPC or a Multicast, or that a server sent
	// a Server RPC.
	WrongDirection

	// PayloadFail means that an argument, a state or an open couldn't be decoded, named a
	// class that doesn't exist, or had bytes left over.
	PayloadFail

	// ValidationFailed means that a Validate or a Check refused a call. UE: WithValidation.
	ValidationFailed

	// SealedViolation means that a sealed packet broke the protocol.
	SealedViolation

	// HandlerPanic means that a function of the game panicked during a call from this
	// connection, or during its login. See Config.OnPanic.
	HandlerPanic

	// LoginElsewhere means that newer connections of the same identity have used up
	// Config.MaxConnsPerIdentity or, with RefuseLoginElsewhere, that older connections have.
	LoginElsewhere

	// RPCDoS means that the calls of the client, or of all clients with its identity, cost
	// more than Config.DoS allows.
	RPCDoS

	// ServerBusy means that the number of handshakes has reached Config.MaxHandshakes or
	// MaxHandshakesPerAddress. Since there may be room a moment later, Dial retries automatically.
	//
	// Dial also retries if Config.MaxConnsPerAddress is reached and the client's address had to be
	// validated, because QUIC has only one code for both cases.
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

// String returns the code's name, or Code(n) if it's one of the game's own.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	if c < HostClosedConnection {
		return fmt.Sprint(bunch.Code(c))
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

// A CloseError says why a connection ended. errors.Is(e, ErrClosed) is true for every CloseError.
type CloseError struct {
	Code   Code
	Reason string // of at most 256 bytes if Remote; then any bytes that the peer chose
	Remote bool   // the peer closed the connection
	cause  error  // returned by Unwrap; nil if there is none
}

func (e *CloseError) Error() string {
	if e == nil {
		return "rpc: a nil *CloseError"
	}
	side := "closed"
	if e.Remote {
		side = "closed by the peer"
	}
	return fmt.Sprintf("rpc: connection %s: %v: %s", side, e.Code, e.Reason)
}

// Unwrap returns the error that ended the connection, if there is one. Like Error, it takes a nil
// e, which a function of the game returns as an error if it declares a *CloseError and doesn't set
// it.
func (e *CloseError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// Temporary reports whether another attempt to connect may succeed a little later.
//
// It returns true if the peer was lost (ConnectionTimeout, ConnectionLost) or is overloaded
// (ServerFull, ServerBusy, HandshakeTimeout). It also returns true if the peer closed with
// HostClosedConnection, as a server does that shuts down. It returns false if this side closed with
// HostClosedConnection, and for the game's codes.
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

// violationf returns the error for a peer that has broken a rule.
func violationf(code Code, format string, args ...any) *CloseError {
	return &CloseError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// closeErrorOf returns the CloseError for the error that ended a link.
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
			Reason: "no QUIC packet from the peer within the idle timeout (the shorter Config.IdleTimeout of the two ends)",
			cause:  err,
		}
	case errors.As(err, &reset):
		return &CloseError{
			Code:   ConnectionLost,
			Reason: "the peer no longer knows the connection, because it restarted or gave up on the connection",
			Remote: true,
			cause:  err,
		}
	case err == nil:
		return &CloseError{Reason: "closed"}
	}
	return &CloseError{Code: ConnectionLost, Reason: err.Error(), cause: err}
}

// withUnsent returns the timeout e with the error that kept this machine from sending packets,
// which may have caused the timeout. If unsent is nil, it returns e unchanged.
func withUnsent(e CloseError, unsent error) *CloseError {
	if unsent != nil {
		e.Reason = fmt.Sprintf("%s; this machine cannot send: %v", e.Reason, unsent)
		e.cause = errors.Join(e.cause, unsent)
	}
	return &e
}

// codeOf converts a code from the wire. QUIC's codes have 62 bits, but ours have only 16, so a
// larger code becomes ConnectionLost.
func codeOf(wire uint64) Code {
	if wire > 0xffff {
		return ConnectionLost
	}
	return Code(wire)
}

// controlCodes maps each kind of error of package control to the code that we close with.
var controlCodes = map[control.Kind]Code{
	control.Unknown:     ControlChannelMessageUnknown,
	control.Fail:        ControlChannelMessageFail,
	control.PayloadFail: ControlChannelMessagePayloadFail,
}

// violation returns the CloseError for an error of package control.
func violation(err error) *CloseError {
	message := err.(*control.Error) // all errors of package control have this type
	return &CloseError{Code: controlCodes[message.Kind], Reason: message.Reason, cause: err}
}

// A validationError wraps an error from a Validate or a Check.
type validationError struct {
	method *method
	cause  error
}

func (e *validationError) Error() string {
	return fmt.Sprintf("rpc: %v refused: %v", e.method, e.cause)
}

func (e *validationError) Unwrap() error { return e.cause }
