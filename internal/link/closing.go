package link

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// drainTime limits how long Close waits for the peer to acknowledge reliable data.
	drainTime = time.Second
	// maxReason is the maximum length in bytes of a reason on the wire. It must fit into a
	// QUIC packet with its header.
	maxReason = 256
)

// ErrUndelivered is the cause of a close if the peer did not acknowledge all reliable data in
// time.
var ErrUndelivered = errors.New("link: reliable data was not acknowledged within 1s of Close")

// A CloseError says which side closed the connection, and why.
type CloseError struct {
	Code   uint64
	Reason string
	Remote bool  // the peer closed the connection
	Cause  error // nil if there is none
}

func (e *CloseError) Error() string {
	side := "here"
	if e.Remote {
		side = "by the peer"
	}
	s := fmt.Sprintf("link: closed %s: code %d", side, e.Code)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func (e *CloseError) Unwrap() error { return e.Cause }

// violation returns the error that ends the link after Receive or Advance of a machine
// returned err.
func violation(err error) *CloseError {
	var coded interface{ CloseCode() (uint64, string) }
	if !errors.As(err, &coded) {
		return &CloseError{Reason: err.Error(), Cause: err}
	}
	code, reason := coded.CloseCode()
	return &CloseError{Code: code, Reason: reason, Cause: err}
}

// closing is the state of a link's end. Close requests the end and end carries it out, each
// at most once.
type closing struct {
	mu    sync.Mutex  // locked last, with or without the link's lock held
	asked *CloseError // set by Close, which waits for the drain; nil if Close was not called
	limit *time.Timer // ends the drain after drainTime
	err   error       // why the link ended; nil while it runs
}

// Close ends the connection once all reliable data is acknowledged, but after 1 s at the
// latest. It uncorks play, so that queued calls are sent.
//
// Close returns at once. It may be called with or without the lock. It does nothing if the
// link has ended or Close was called before.
func (l *Link) Close(code uint64, reason string) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil || c.err != nil {
		return
	}
	c.asked = &CloseError{Code: code, Reason: reason}
	c.limit = time.AfterFunc(drainTime, func() { l.end(ErrUndelivered) })
	l.draining.Store(true)
	l.signal()
	if l.Sealed() {
		go l.drainSealed()
	}
}

// Abort ends the connection without waiting for anything. It returns at once and may be
// called with or without the lock. After a Close, it only ends the drain: the peer gets the
// code and reason passed to Close.
func (l *Link) Abort(code uint64, reason string) {
	l.end(&CloseError{Code: code, Reason: reason})
}

// Done returns a channel that is closed when the connection has ended. By then the reader and
// the writer have returned, and the machines have received all datagrams that arrived.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns the reason the connection ended, or nil if it has not ended. The error is a
// [*CloseError] if one side closed the connection, and otherwise the carrier's error. If a
// Close could not deliver everything, its Cause says why.
func (l *Link) Err() error {
	l.closing.mu.Lock()
	defer l.closing.mu.Unlock()
	return l.closing.err
}

// end ends the link. Only the first call has an effect.
//
// After a Close, the link's error is that of the Close, with cause as its Cause. A nil cause
// means that the drain was complete; it is possible only after a Close.
//
// finish does the rest on its own goroutine, so no caller waits for the carrier.
func (l *Link) end(cause error) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	if closed, ok := errors.AsType[*CloseError](cause); ok { // the peer's, which the carrier's error wraps
		c.err = closed
	}
	if c.asked != nil {
		c.limit.Stop()
		c.asked.Cause = c.err
		c.err = c.asked
	}
	l.cancel()
	go l.finish(c.err)
}

// finish closes the carrier, which unblocks a writer in SendDatagram, and waits for the
// reader and the writer. Then it passes the remaining datagrams to the machines and tells the
// owner.
func (l *Link) finish(err error) {
	code, reason := uint64(0), err.Error()
	if closed, ok := errors.AsType[*CloseError](err); ok {
		code, reason = closed.Code, closed.Reason
	}
	_ = l.carrier.CloseWithError(code, cut(reason, maxReason)) // fails only if the carrier has ended already
	l.state.Store(stopped)
	l.reading.Wait()
	l.writing <- struct{}{} // waits for a running write, and keeps others from starting
	l.timer.Stop()
	l.receiveRest()
	<-l.writing
	close(l.done)
	l.config.Wake()
	l.config.Ended()
}

// receiveRest passes the datagrams left in the ring to the machines, until a machine fails.
func (l *Link) receiveRest() {
	for failed := false; !failed && !l.ring.empty(); {
		failed = l.receive(l.LockNow()) != nil
		l.mu.Unlock()
	}
}

// cut shortens s to at most n bytes, without splitting a character.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
