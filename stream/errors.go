package stream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/rpc"
)

// Errors that end a transfer. The errors that Err, Wait and Read return for a failed transfer
// wrap one of these, or ErrDigest. They also wrap the cause if it arose at this end.
//
// The text names the topic, the end that stopped the transfer, and the reason. It also says
// how far the transfer had come, or that its header was refused:
//
//	stream: canceled: blob "save" stopped by the sender, 65536 of 300000 bytes sent: reading the source: disk on fire
//
// A reason that the peer gave is quoted.
var (
	// ErrCanceled means that one end canceled the transfer or could not continue. An end can't
	// continue, for example, if the source fails or an element can't be encoded or decoded.
	ErrCanceled = errors.New("stream: canceled")
	// ErrRejected means that the receiver refused the transfer, because its application
	// rejected it or it has no handler for the topic.
	ErrRejected = errors.New("stream: rejected")
	// ErrTooLarge means that the transfer or one of its elements exceeds a limit. The wrapping
	// error names the limit.
	ErrTooLarge = errors.New("stream: too large")
	// ErrClosed means that the connection ended before the transfer did.
	ErrClosed = errors.New("stream: connection closed")
	// ErrPanicked means that a function of the game panicked: a handler, OnBatch, a Reader,
	// the Store, or the encoding of an element. The connection continues. At the end where the
	// function panicked, rpc.Config.OnPanic was called.
	ErrPanicked = errors.New("stream: a function of the game panicked")
	// ErrBlocking means that a blocking call was made on the goroutine that drives the world.
	ErrBlocking = errors.New("stream: a call that waits was made on the world's goroutine")
)

// Errors of a Store.
var (
	// ErrDigest means that content differs from what its sender hashed, from the digest in its
	// key, or from the part that the receiver has stored. The text names the peer, the key,
	// and the expected and actual digest or size.
	//
	// The incomplete part is deleted. Complete content that was stored under the key before
	// stays, unless it has changed since it was verified.
	ErrDigest = errors.New("stream: digest differs")
	// ErrPartBusy means that another transfer is writing the same content of the same peer.
	ErrPartBusy = errors.New("stream: part is being written by another transfer")
	// ErrStoreFull means that a limit of the store leaves no room for the content. The
	// wrapping error names the limit.
	ErrStoreFull = errors.New("stream: store is full")
)

// stopKinds maps the codes of a stop message to sentinel errors.
var stopKinds = [stopCodes]error{
	stopCanceled: ErrCanceled,
	stopRejected: ErrRejected,
	stopTooLarge: ErrTooLarge,
	stopDigest:   ErrDigest,
	stopPanicked: ErrPanicked,
}

// A concealed error has a text that must not be sent to the peer, because it may hold a path.
// Error returns that text at this end, and the peer gets public instead.
type concealed struct {
	public string
	cause  error
}

func (e *concealed) Error() string { return e.cause.Error() }
func (e *concealed) Unwrap() error { return e.cause }

// failure is the error that Err, Wait and Read return for a failed transfer.
type failure struct {
	kind  error  // the sentinel
	by    string // the end that stopped the transfer; "" if the connection ended
	what  string // the transfer and how far it had come; "" until it ends
	cause error  // nil if none was given

	unanswered bool // the receiver rejected the header, so content sent before the answer was wasted
}

// canceled returns the error of a transfer that this end canceled for cause.
func canceled(cause error) error { return stopped(ErrCanceled, cause) }

// stopped returns the failure of a transfer that ends with the sentinel kind, because of
// cause.
func stopped(kind, cause error) *failure {
	if cause == kind {
		cause = nil
	}
	return &failure{kind: kind, cause: cause}
}

// failureOf returns err as a failure. If err wraps none of the sentinels, this end could not
// continue, and the kind is ErrCanceled.
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

// ending returns the error of a transfer over conn that ends because of err. end is this end
// of the transfer: at the sender the text says how much was sent, and at the receiver how much
// was consumed. For ErrDigest, which somebody has to investigate, the text also names the peer
// and the key.
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

// stop returns the message that tells the peer that transfer id has failed, and why.
func (f *failure) stop(id uint64) stop {
	code := max(slices.Index(stopKinds[:], f.kind), int(stopCanceled)) // ErrClosed has no code
	s := stop{id: id, code: stopCode(code)}
	if secret, ok := errors.AsType[*concealed](f.cause); ok {
		s.reason = clip(secret.public, maxReasonBytes)
	} else if f.cause != nil {
		s.reason = clip(f.reason(f.cause.Error()), maxReasonBytes)
	}
	return s
}

// peerFailure returns the error for a stop message from the peer. by is the end that stopped
// the transfer. The reason is quoted because it comes from outside.
func peerFailure(s stop, by string) *failure {
	f := &failure{kind: stopKinds[s.code], by: by}
	if s.reason != "" {
		f.cause = errors.New(strconv.Quote(s.reason))
	}
	return f
}
