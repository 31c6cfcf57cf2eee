package stream

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// failure is why a transfer failed, as Err, Wait and Read tell it.
type failure struct {
	kind  error  // the sentinel
	by    string // the end that stopped it; "" where the connection ended
	what  string // the transfer and how far it had come; "" until it ends
	cause error  // nil where none was given
}

// canceled is the error of a transfer that this end canceled for cause.
func canceled(cause error) error { return stopped(ErrCanceled, cause) }

func stopped(kind, cause error) *failure {
	if cause == kind {
		cause = nil
	}
	return &failure{kind: kind, cause: cause}
}

// failureOf is err as a failure. What wraps none of the sentinels cancels: this end could not go on.
func failureOf(err error) *failure {
	if f, ok := err.(*failure); ok {
		return f
	}
	for _, kind := range []error{ErrRejected, ErrTooLarge, ErrDigest, ErrPanicked, ErrClosed} {
		if errors.Is(err, kind) {
			return stopped(kind, err)
		}
	}
	return stopped(ErrCanceled, err)
}

const (
	sender   = "sender"
	receiver = "receiver"
)

// ending is the error of a transfer that ends now for err, at one end of it: the sender knows what was sent, the receiver
// what was consumed.
func ending(err error, end string, h *header, p Progress) error {
	f := *failureOf(err)
	if f.by == "" && f.kind != ErrClosed {
		f.by = end
	}
	f.what = h.String()
	if f.by != "" {
		f.what += " stopped by the " + f.by
	}
	if end == sender {
		f.what += fmt.Sprintf(", %s %s sent", p.of(p.Sent), h.units())
	} else {
		f.what += fmt.Sprintf(", %s %s consumed", p.of(p.Acked), h.units())
	}
	return &f
}

// of is n of the total, where that is known.
func (p Progress) of(n int64) string {
	if p.Total < 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, p.Total)
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

// Unwrap makes the error both what its sentinel is and what caused it.
func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// reason is the text of a cause without the sentinel's, which stands before it already.
func (f *failure) reason(text string) string {
	return strings.ReplaceAll(text, f.kind.Error()+": ", "")
}

// stop is what the peer is told.
func (f *failure) stop() stop {
	s := stop{code: stopCanceled}
	for code, kind := range stopKinds {
		if kind == f.kind {
			s.code = stopCode(code)
		}
	}
	var secret *concealed
	switch {
	case errors.As(f.cause, &secret):
		s.reason = clip(secret.public, maxReasonBytes)
	case f.cause != nil:
		s.reason = clip(f.reason(f.cause.Error()), maxReasonBytes)
	}
	return s
}

// err is the error at the end that is told; by names the end that stopped. The reason comes from outside.
func (s stop) err(by string) error {
	f := &failure{kind: stopKinds[s.code], by: by}
	if s.reason != "" {
		f.cause = errors.New(strconv.Quote(s.reason))
	}
	return f
}
