package link

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// drainTime is how long Close waits for reliable data to be acknowledged.
	drainTime = time.Second
	// maxReason is the most bytes of a reason on the wire: it must fit a QUIC packet with its header.
	maxReason = 256
)

// ErrUndelivered is the cause of a close that ended before the peer had acknowledged all reliable data.
var ErrUndelivered = errors.New("link: reliable data was not acknowledged within 1s of Close")

// CloseError says which side closed the connection, and why.
type CloseError struct {
	Code   uint64
	Reason string
	Remote bool  // the peer closed
	Cause  error // may be nil
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

// violation returns the error that ends the link after a machine's Receive or Advance has returned err.
func violation(err error) *CloseError {
	var coded interface{ CloseCode() (uint64, string) }
	if !errors.As(err, &coded) {
		return &CloseError{Reason: err.Error(), Cause: err}
	}
	code, reason := coded.CloseCode()
	return &CloseError{Code: code, Reason: reason, Cause: err}
}

// closing holds the state of a link's end. Close asks for the end, and end carries it out, each at most once.
type closing struct {
	mu    sync.Mutex  // taken last: with or without the link's lock
	asked *CloseError // set by Close, which waits for the drain; nil before
	limit *time.Timer // ends the drain after drainTime
	err   error       // why the link ended
}

// Close ends the connection as soon as all reliable data is acknowledged, at most 1 s from now. It returns at once, may
// be called with or without the lock, and does nothing on a link that was closed before. It uncorks play.
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

// Abort ends the connection without waiting for anything. It returns at once and may be called with or without the lock.
// After a Close it only ends the drain: the peer gets the code and reason of the Close.
func (l *Link) Abort(code uint64, reason string) {
	l.end(&CloseError{Code: code, Reason: reason})
}

// Done is closed when the connection has ended, reader and writer have returned, and the machines have received all that arrived.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the connection ended, nil while it has not: a [*CloseError] when one side closed it, else the carrier's
// error. When a Close could not deliver everything, the Cause says why.
func (l *Link) Err() error {
	l.closing.mu.Lock()
	defer l.closing.mu.Unlock()
	return l.closing.err
}

// end ends the link; only the first call counts. After a Close the link's error is the Close's, with cause as its Cause; a nil cause, which only
// a Close can have, means that the drain was complete. finish does the rest on a goroutine of its own, so that no caller waits for the carrier.
func (l *Link) end(cause error) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	if closed, ok := errors.AsType[*CloseError](cause); ok { // the peer's, which the carrier's error has
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

// finish closes the carrier, which frees a writer that is blocked in it, waits for reader and writer, gives the machines what has arrived, and
// tells the owner of the end.
func (l *Link) finish(err error) {
	code, reason := uint64(0), err.Error()
	if closed, ok := errors.AsType[*CloseError](err); ok {
		code, reason = closed.Code, closed.Reason
	}
	_ = l.carrier.CloseWithError(code, cut(reason, maxReason)) // after an error the carrier has ended, too
	l.state.Store(stopped)
	l.reading.Wait()
	l.writing <- struct{}{} // waits for a write that runs, and lets none begin
	l.timer.Stop()
	l.receiveRest()
	<-l.writing
	close(l.done)
	l.config.Wake()
	l.config.Ended()
}

// receiveRest gives the machines the rest of the ring, until one of them fails.
func (l *Link) receiveRest() {
	for failed := false; !failed && !l.ring.empty(); {
		failed = l.receive(l.LockNow()) != nil
		l.mu.Unlock()
	}
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
