package stream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/rpc"
)

// Errors that end a transfer. The errors that Err, Wait and Read return for a transfer
// that has failed wrap one of them, or ErrDigest. They also wrap the cause, if it
// arose at this end. The text names the topic, the end that stopped the transfer, how
// far the transfer had come or that its header was refused, and the reason:
//
//	stream: canceled: blob "save" stopped by the sender, 65536 of 300000 bytes sent: reading the source: disk on fire
//
// A reason that the peer gave is quoted.
var (
	// ErrCanceled means that one end canceled the transfer or could not
	// continue, for example because the source could not be read to its end, or
	// because an element could not be encoded or decoded.
	ErrCanceled = errors.New("stream: canceled")
	// ErrRejected means that the receiver refused the transfer: its application
	// did, or it has no handler for the topic.
	ErrRejected = errors.New("stream: rejected")
	// ErrTooLarge means that the transfer, or one of its elements, exceeds a
	// limit. The wrapping error names the limit.
	ErrTooLarge = errors.New("stream: too large")
	// ErrClosed means that the connection ended before the transfer did.
	ErrClosed = errors.New("stream: connection closed")
	// ErrPanicked means that a function of the game panicked: a handler,
	// OnBatch, a Reader, the Store, or an element's own encoding. The connection
	// continues. At the end where it happened, rpc.Config.OnPanic was called.
	ErrPanicked = errors.New("stream: a function of the game panicked")
	// ErrBlocking means that a blocking call was made on the goroutine that drives the world.
	ErrBlocking = errors.New("stream: a call that waits was made on the world's goroutine")
)

// Errors of a Store.
var (
	// ErrDigest means that content differs from what its sender hashed, from the digest in its key,
	// or from what the receiver has stored of it. The incomplete part is deleted. Complete content
	// that was stored under the key before stays, unless that content has changed since it was
	// verified. The text names the peer, the key, the expected digest or size, and the actual one.
	ErrDigest = errors.New("stream: digest differs")
	// ErrPartBusy means that another transfer is writing the same content of the same peer.
	ErrPartBusy = errors.New("stream: part is being written by another transfer")
	// ErrStoreFull means that a limit of the store leaves no room for the
	// content. The wrapping error names the limit.
	ErrStoreFull = errors.New("stream: store is full")
)

// stopKinds maps the codes of a stop message to the sentinels.
var stopKinds = [stopCodes]error{
	stopCanceled: ErrCanceled,
	stopRejected: ErrRejected,
	stopTooLarge: ErrTooLarge,
	stopDigest:   ErrDigest,
	stopPanicked: ErrPanicked,
}

// A concealed error has a text that must not be sent to the peer, because it
// may hold a path. Error returns that text; stop sends public instead.
type concealed struct {
	public string
	cause  error
}

func (e *concealed) Error() string { return e.cause.Error() }
func (e *concealed) Unwrap() error { return e.cause }

// failure is the error that Err, Wait and Read return for a transfer that has failed.
type failure struct {
	kind  error  // the sentinel
	by    string // the end that stopped the transfer; "" = the connection ended
	what  string // names the transfer and how far it had come; "" until it ends
	cause error  // nil = none was given

	unanswered bool // the receiver rejected the header: whatever was sent before the answer was wasted
}

// canceled returns the error of a transfer that this end canceled for cause.
func canceled(cause error) error { return stopped(ErrCanceled, cause) }

// stopped returns the failure of a transfer that ends with a sentinel, kind, because of cause.
func stopped(kind, cause error) *failure {
	if cause == kind {
		cause = nil
	}
	return &failure{kind: kind, cause: cause}
}

// failureOf returns err as a failure. If err wraps none of the sentinels, its
// kind is ErrCanceled: this end could not continue.
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

// ending returns the error of a transfer over conn that ends because of err. end is the end
// that this is: the text says how much a sender has sent, or how much a receiver has consumed.
// For ErrDigest, which somebody has to investigate, it also names the peer and the key.
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

// reason returns the text of a cause without the sentinel's text, with which Error already begins.
func (f *failure) reason(text string) string {
	return strings.ReplaceAll(text, f.kind.Error()+": ", "")
}

// stop returns the message that tells the peer that the transfer with that id has failed, and why.
func (f *failure) stop(id uint64) stop {
	s := stop{id: id, code: stopCode(max(slices.Index(stopKinds[:], f.kind), int(stopCanceled)))} // ErrClosed has no code
	if secret, ok := errors.AsType[*concealed](f.cause); ok {
		s.reason = clip(secret.public, maxReasonBytes)
	} else if f.cause != nil {
		s.reason = clip(f.reason(f.cause.Error()), maxReasonBytes)
	}
	return s
}

// peerFailure returns the error for a stop message from the peer. by names the end
// that stopped the transfer. The reason is quoted because it comes from outside.
func peerFailure(s stop, by string) *failure {
	f := &failure{kind: stopKinds[s.code], by: by}
	if s.reason != "" {
		f.cause = errors.New(strconv.Quote(s.reason))
	}
	return f
}
