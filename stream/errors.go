package stream

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Errors that end a transfer. What Wait, Err and Read return wraps one of them, ErrDigest, or why the connection ended.
var (
	// ErrCanceled means that one end gave up, or that the sender could not read its source to the end.
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

// stopFor is what the peer is told of err: the code of the sentinel that it wraps, and its text.
func stopFor(err error) stop {
	code := stopCanceled
	switch {
	case errors.Is(err, ErrRejected):
		code = stopRejected
	case errors.Is(err, ErrTooLarge):
		code = stopTooLarge
	case errors.Is(err, ErrDigest):
		code = stopDigest
	case errors.Is(err, ErrPanicked):
		code = stopPanicked
	}
	text := err.Error()
	var secret *concealed
	if errors.As(err, &secret) {
		text = secret.public
	}
	return stop{code, clip(text, maxReasonBytes)}
}

// concealed is an error whose text, a path perhaps, is not for the peer.
type concealed struct {
	public string
	cause  error
}

func (e *concealed) Error() string { return e.cause.Error() }
func (e *concealed) Unwrap() error { return e.cause }

// err is the error at the end that is told; by names the end that stopped.
func (s stop) err(by string) error {
	sentinel := ErrCanceled
	switch s.code {
	case stopRejected:
		sentinel = ErrRejected
	case stopTooLarge:
		sentinel = ErrTooLarge
	case stopDigest:
		sentinel = ErrDigest
	case stopPanicked:
		sentinel = ErrPanicked
	}
	return fmt.Errorf("%w by the %s: %q", sentinel, by, s.reason)
}

// canceled is the error of a transfer that this end canceled for cause.
func canceled(cause error) error {
	if cause == nil || errors.Is(cause, ErrCanceled) {
		return ErrCanceled
	}
	return fmt.Errorf("%w: %w", ErrCanceled, cause)
}

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
