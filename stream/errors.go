package stream

import (
	"errors"
	"unicode/utf8"
)

// Errors that end a transfer. What Err and Read return, and what Wait returns once the transfer has ended, wraps one of
// them or ErrDigest, and the error behind it if that arose at this end. Its text names the topic, the end that stopped the
// transfer, how far it had come, and why:
//
//	stream: canceled: blob "save" stopped by the sender, 65536 of 300000 bytes sent: reading the source: disk on fire
//
// A reason that the peer gave is quoted.
var (
	// ErrCanceled means that one end gave up or could not go on: that the sender could not read its source to the end, or
	// that an element could not be encoded or decoded.
	ErrCanceled = errors.New("stream: canceled")
	// ErrRejected means that the receiver's application, or its lack of a handler, refused the transfer.
	ErrRejected = errors.New("stream: rejected")
	// ErrTooLarge means that the transfer, or one of its elements, is beyond a limit. The wrapping error names it.
	ErrTooLarge = errors.New("stream: too large")
	// ErrClosed means that the connection ended before the transfer did.
	ErrClosed = errors.New("stream: connection closed")
	// ErrPanicked means that a function of the game panicked: a handler, OnBatch, a Reader, the Store, an element's own
	// encoding. The rest of the connection goes on. The end where it happened has told rpc.Config.OnPanic.
	ErrPanicked = errors.New("stream: a function of the game panicked")
	// ErrBlocking means that a call which waits was made on the goroutine that drives the world.
	ErrBlocking = errors.New("stream: a call that waits was made on the world's goroutine")
)

// stopCode says on the wire why a transfer ended early.
type stopCode uint8

const (
	stopCanceled stopCode = 1 + iota
	stopRejected
	stopTooLarge
	stopDigest
	stopPanicked
	stopCodes // how many there are, plus one
)

// stop is why a transfer ended early, as one end tells the other.
type stop struct {
	code   stopCode
	reason string
}

// stopKinds is what the codes stand for.
var stopKinds = [stopCodes]error{
	stopCanceled: ErrCanceled,
	stopRejected: ErrRejected,
	stopTooLarge: ErrTooLarge,
	stopDigest:   ErrDigest,
	stopPanicked: ErrPanicked,
}

// concealed is an error whose text, a path perhaps, is not for the peer.
type concealed struct {
	public string
	cause  error
}

func (e *concealed) Error() string { return e.cause.Error() }
func (e *concealed) Unwrap() error { return e.cause }

// clip cuts text to at most limit bytes without cutting a rune.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
