package stream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc"
)

// Errors that end a transfer. For a failed transfer, Err, Wait and Read return an error that
// wraps one of these or ErrDigest. If the cause arose at this end, the error wraps it as well.
//
// The text names the transfer, the connection, the side that stopped the transfer, and the reason,
// which is quoted if it came from the peer. It also says how much of the content was sent or
// consumed, or that the receiver refused the transfer:
//
//	stream: canceled: blob "save" named "slot 3" to conn 7 stopped by the sender, 65536 of 300000 bytes sent: player left
//	stream: too large: blob "save" to conn 7 refused by the receiver: "content has 300000 bytes; the limit is 100000 bytes (stream.Config.MaxBytes)"
var (
	// ErrCanceled means that one end canceled the transfer or could not continue, for example
	// because its source failed or because an element could not be encoded or decoded.
	ErrCanceled = errors.New("stream: canceled")
	// ErrRejected means that the receiver refused the transfer, for example because it has no
	// handler for the topic or because its application rejected the transfer.
	ErrRejected = errors.New("stream: rejected")
	// ErrTooLarge means that the transfer or one of its elements exceeds a limit, which the
	// wrapping error names.
	ErrTooLarge = errors.New("stream: too large")
	// ErrClosed means that the connection ended before the transfer did.
	ErrClosed = errors.New("stream: connection closed")
	// ErrPanicked means that code of the application panicked: a handler, OnBatch, a Reader, the
	// Store, or the encoding of an element. The connection stays open. rpc.Config.OnPanic was
	// called at the end where the code panicked.
	ErrPanicked = errors.New("stream: application code panicked")
	// ErrBlocking means that a blocking call was made on the goroutine that drives the world.
	ErrBlocking = errors.New("stream: blocking call on the world's goroutine")
)

// Errors from a Store.
var (
	// ErrDigest means that content differs from what its sender hashed, from the digest in its
	// key, or from the part that the receiver has stored. The text names the connection, the
	// key, and the expected and actual digest or size.
	//
	// The incomplete part is deleted. If complete content was already stored under the key, it is
	// kept, unless it has changed since it was verified.
	ErrDigest = errors.New("stream: digest mismatch")
	// ErrPartBusy means that another transfer is writing the same content from the same peer.
	ErrPartBusy = errors.New("stream: another transfer is writing the part")
	// ErrStoreFull means that the store has reached a limit, which the wrapping error names, and
	// has no room for the content.
	ErrStoreFull = errors.New("stream: store is full")
)

// stopKinds maps the codes of stop messages to the errors that they stand for.
var stopKinds = [stopCodes]error{
	stopCanceled: ErrCanceled,
	stopRejected: ErrRejected,
	stopTooLarge: ErrTooLarge,
	stopDigest:   ErrDigest,
	stopPanicked: ErrPanicked,
	stopFields:   ErrRejected,
}

// A fieldsError is the cause of an ErrRejected if the elements of an array have different fields at
// the receiver. It has a code of its own, so that the sender's error can add the sender's fields.
type fieldsError struct {
	array  string // names the array
	fields string // the receiver's
}

func (e *fieldsError) Error() string {
	return fmt.Sprintf("elements of %s have different fields at the receiver: %s", e.array, e.fields)
}

// A localError has a text for this end only, because it may contain a path. The peer is sent the
// public text instead.
type localError struct {
	public string
	cause  error
}

func (e *localError) Error() string { return e.cause.Error() }
func (e *localError) Unwrap() error { return e.cause }

// A side is one of the two ends of a transfer.
type side string

const (
	senderSide   side = "sender"
	receiverSide side = "receiver"
)

// A failure is the error that Err, Wait and Read return for a failed transfer.
type failure struct {
	kind    error // one of the errors above
	by      side  // the side that stopped the transfer; "" if the connection ended
	cause   error // nil if none was given
	refused bool  // the receiver refused the transfer at its header, so the progress doesn't matter

	// Set by describe.
	transfer string // name of the transfer, and of the connection: see extend.NameOf
	ending   string // how the transfer ended, and its progress
}

// canceled returns the failure of a transfer that this end canceled because of cause.
func canceled(cause error) error { return stopped(ErrCanceled, cause) }

// stopped returns the failure of a transfer that ends with an error of the given kind because
// of cause.
func stopped(kind, cause error) *failure {
	if cause == kind {
		cause = nil // so that the text doesn't say the same thing twice
	}
	return &failure{kind: kind, cause: cause}
}

// failureOf returns err as a failure. If err wraps none of the kinds, the failure is an
// ErrCanceled, because this end could not continue for a reason of its own.
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

// isRefusal reports whether the failure is a refusal if the receiver hasn't accepted the transfer.
func (f *failure) isRefusal() bool { return f.kind == ErrRejected || f.kind == ErrTooLarge }

// describe returns a copy of the failure that describes a transfer over conn and its progress.
// local is this end's side of the transfer. The sender's text says how much was sent, and the
// receiver's how much was consumed. For an ErrDigest, the text also names the key, because somebody
// has to investigate the mismatch.
func (f *failure) describe(local side, conn *rpc.Conn, h *header, p Progress) *failure {
	described := *f
	f = &described
	if f.by == "" && f.kind != ErrClosed {
		f.by = local
	}
	f.transfer = h.title()
	if f.kind == ErrDigest {
		f.transfer += fmt.Sprintf(" with key %q", h.key)
	}
	progress := fmt.Sprintf(", %s %s consumed", p.of(p.Acked), h.units())
	direction := " from "
	if local == senderSide {
		progress = fmt.Sprintf(", %s %s sent", p.of(p.Sent), h.units())
		direction = " to "
	}
	f.transfer += direction + extend.NameOf(conn)
	switch {
	case f.refused:
		f.ending = " refused by the receiver"
	case f.by != "":
		f.ending = " stopped by the " + string(f.by) + progress
	default:
		f.ending = progress
	}
	return f
}

func (f *failure) Error() string {
	text := f.kind.Error()
	if f.transfer != "" {
		text += ": " + f.transfer + f.ending
	}
	if f.cause != nil {
		text += ": " + f.withoutKind(f.cause.Error())
	}
	return text
}

// Unwrap makes errors.Is match both the kind and the cause.
func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// withoutKind removes the kind's text from the text of a cause, since Error begins with it anyway.
// A cause that was wrapped has it in the middle: "element 17: stream: too large: ...".
func (f *failure) withoutKind(text string) string {
	return strings.ReplaceAll(text, f.kind.Error()+": ", "")
}

// stop returns the message that tells the peer why a transfer failed.
func (f *failure) stop(id uint64) stop {
	// ErrClosed has no code, because no message can follow it. Index then returns -1.
	code := max(slices.Index(stopKinds[:], f.kind), int(stopCanceled))
	s := stop{id: id, code: stopCode(code)}
	if _, ok := errors.AsType[*fieldsError](f.cause); ok {
		s.code = stopFields
	}
	if local, ok := errors.AsType[*localError](f.cause); ok {
		s.reason = words.Cut(local.public, maxReasonBytes)
	} else if f.cause != nil {
		s.reason = words.Cut(f.withoutKind(f.cause.Error()), maxReasonBytes)
	}
	return s
}

// peerFailure returns the failure that a stop message from the peer reports. peer is the peer's
// side of the transfer. The reason is quoted because it's untrusted.
func peerFailure(s stop, peer side) *failure {
	f := &failure{kind: stopKinds[s.code], by: peer}
	if s.reason != "" {
		f.cause = errors.New(strconv.Quote(s.reason))
	}
	return f
}
