package stream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/rpc"
)

// Errors that end a transfer. What Err and Read return, and what Wait returns once the transfer has ended, wraps one of
// them or ErrDigest, and the error behind it if that arose at this end. Its text names the topic, the end that stopped the
// transfer, how far it had come or that its header was refused, and why:
//
//	stream: canceled: blob "save" stopped by the sender, 65536 of 300000 bytes sent: reading the source: disk on fire
//
// A reason that the peer gave is quoted.
var (
	// ErrCanceled means that one end gave up or could not go on: the sender could not read its source to the end, say, or
	// an element could not be encoded or decoded.
	ErrCanceled = errors.New("stream: canceled")
	// ErrRejected means that the receiver's application, or its lack of a handler, refused the transfer.
	ErrRejected = errors.New("stream: rejected")
	// ErrTooLarge means that the transfer, or one of its elements, exceeds a limit. The wrapping error names the limit.
	ErrTooLarge = errors.New("stream: too large")
	// ErrClosed means that the connection ended before the transfer did.
	ErrClosed = errors.New("stream: connection closed")
	// ErrPanicked means that a function of the game panicked: a handler, OnBatch, a Reader, the Store, an element's own
	// encoding. The rest of the connection goes on. The end where it happened has told rpc.Config.OnPanic.
	ErrPanicked = errors.New("stream: a function of the game panicked")
	// ErrBlocking means that a call which waits was made on the goroutine that drives the world.
	ErrBlocking = errors.New("stream: a call that waits was made on the world's goroutine")
)

// Errors of a Store.
var (
	// ErrDigest means that content is not what its sender hashed, or not what its key says, or not what the receiver has stored of it. The
	// part that has arrived is deleted. Complete content that was stored under the key before stays, unless it is itself what has changed
	// since it was verified. The text names the peer and the key, the digest or size that was expected, and the one that came.
	ErrDigest = errors.New("stream: digest differs")
	// ErrPartBusy means that another transfer writes the same content of the same peer now.
	ErrPartBusy = errors.New("stream: part is being written by another transfer")
	// ErrStoreFull means that a limit of the store leaves no room. The wrapping error names the limit.
	ErrStoreFull = errors.New("stream: store is full")
)

// stopKinds are the sentinels that the codes stand for.
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

// failure is the error that Err, Wait and Read return for a transfer that has failed.
type failure struct {
	kind  error  // the sentinel
	by    string // the end that stopped it; "" where the connection ended
	what  string // the transfer and how far it had come; "" until it ends
	cause error  // nil where none was given

	unanswered bool // the receiver rejected it in place of an answer to its header: what was sent until then was for nothing
}

// canceled returns the error of a transfer that this end canceled for cause.
func canceled(cause error) error { return stopped(ErrCanceled, cause) }

func stopped(kind, cause error) *failure {
	if cause == kind {
		cause = nil
	}
	return &failure{kind: kind, cause: cause}
}

// failureOf returns err as a failure. An error that wraps none of the sentinels becomes ErrCanceled: this end could not go on.
func failureOf(err error) *failure {
	if f, ok := err.(*failure); ok {
		return f
	}
	for _, kind := range []error{ErrDigest, ErrRejected, ErrTooLarge, ErrPanicked, ErrClosed} {
		if errors.Is(err, kind) {
			return stopped(kind, err)
		}
	}
	return stopped(ErrCanceled, err)
}

const (
	bySender   = "sender"
	byReceiver = "receiver"
)

// ending returns the error of a transfer over conn that ends now because of err. end is which end this is: its text says what the sender
// has sent, or the receiver consumed. That of ErrDigest, which somebody has to look into, also says with whom and under which key.
func ending(err error, end string, conn *rpc.Conn, h *header, p Progress) error {
	f := *failureOf(err)
	if f.by == "" && f.kind != ErrClosed {
		f.by = end
	}
	way, units, done := "from", p.of(p.Acked), "consumed"
	if end == bySender {
		way, units, done = "to", p.of(p.Sent), "sent"
	}
	f.what = h.String()
	if f.kind == ErrDigest {
		f.what += fmt.Sprintf(" with key %q %s %v", h.key, way, conn)
	}
	if f.by != "" {
		f.what += " stopped by the " + f.by
	}
	if f.unanswered {
		f.what += " at its header"
	} else {
		f.what += fmt.Sprintf(", %s %s %s", units, h.units(), done)
	}
	return &f
}

func (f *failure) Error() string {
	text := f.kind.Error()
	if f.what != "" {
		text += ": " + f.what
	}
	if f.cause != nil {
		text += ": " + f.reason(f.cause.Error())
	}
	return text
}

// Unwrap makes the error match both its sentinel and its cause.
func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// reason returns the text of a cause without that of the sentinel, with which Error begins already.
func (f *failure) reason(text string) string {
	return strings.ReplaceAll(text, f.kind.Error()+": ", "")
}

// stop returns the message by which this end tells the peer that the transfer with that id has failed, and why.
func (f *failure) stop(id uint64) stop {
	s := stop{id: id, code: stopCode(max(slices.Index(stopKinds[:], f.kind), int(stopCanceled)))} // ErrClosed has no code
	if secret, ok := errors.AsType[*concealed](f.cause); ok {
		s.reason = clip(secret.public, maxReasonBytes)
	} else if f.cause != nil {
		s.reason = clip(f.reason(f.cause.Error()), maxReasonBytes)
	}
	return s
}

// peerFailure returns the error for a stop that the peer has sent; by names the end that stopped the transfer. The reason is quoted, since it
// comes from outside.
func peerFailure(s stop, by string) *failure {
	f := &failure{kind: stopKinds[s.code], by: by}
	if s.reason != "" {
		f.cause = errors.New(strconv.Quote(s.reason))
	}
	return f
}
