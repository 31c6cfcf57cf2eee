package link

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// drainTime is the maximum time that Close waits for the peer to acknowledge reliable data.
	drainTime = time.Second

	// maxReason is the maximum length of a reason on the wire, in bytes. The reason and the
	// headers must fit into one QUIC packet.
	maxReason = 256
)

// ErrUndelivered is the cause of a close if some reliable data wasn't acknowledged in time.
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

// violation returns the error that ends the link after a machine's Receive or Advance has failed
// with err.
func violation(err error) *CloseError {
	var coded interface{ CloseCode() (uint64, string) }
	if !errors.As(err, &coded) {
		// The machine has no code for this, so close with 0.
		return &CloseError{Reason: err.Error(), Cause: err}
	}
	code, reason := coded.CloseCode()
	return &CloseError{Code: code, Reason: reason, Cause: err}
}

// closing is the state of closing a link. Close requests it, end decides on the error, and
// finish does the rest.
type closing struct {
	mu        sync.Mutex  // taken last, whether or not the link's lock is held
	requested *CloseError // set by Close, which waits for the drain
	deadline  *time.Timer // ends the drain after drainTime
	err       error       // why the link ended; nil while it runs
}

// Close ends the connection as soon as the peer has acknowledged all reliable data, but after one
// second at the latest. It uncorks play, so that the calls of the current tick are sent too.
//
// It returns at once, and may be called with or without the lock. Close is a no-op if it was
// called before, or if the link has ended.
func (l *Link) Close(code uint64, reason string) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requested != nil || c.err != nil {
		return
	}
	c.requested = &CloseError{Code: code, Reason: reason}
	c.deadline = time.AfterFunc(drainTime, func() { l.end(ErrUndelivered) })
	l.draining.Store(true)
	l.signal()
	if l.Sealed() {
		go l.drainSealed()
	}
}

// Abort ends the connection without waiting for anything. It returns at once, and may be called
// with or without the lock. If Close was called before, the peer still gets the code and the
// reason passed to Close.
func (l *Link) Abort(code uint64, reason string) {
	l.end(&CloseError{Code: code, Reason: reason})
}

// Done returns a channel that is closed once the connection has ended. By then the reader and the
// writer have returned, and the machines have received every datagram that arrived.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the connection ended, or nil if it hasn't yet. If one of the ends has closed it,
// the error is a [*CloseError]. Its Cause is set if Close couldn't deliver everything. If neither
// end has closed it, Err returns the carrier's error.
func (l *Link) Err() error {
	l.closing.mu.Lock()
	defer l.closing.mu.Unlock()
	return l.closing.err
}

// end ends the link. Only the first call has an effect. It doesn't wait for the carrier, which
// finish closes on another goroutine.
//
// If Close was called before, its error becomes the link's error, and cause becomes its Cause. A
// nil cause means that everything was delivered, which can only happen after a Close.
func (l *Link) end(cause error) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	if closed, ok := errors.AsType[*CloseError](cause); ok {
		// The peer closed the connection. Remove what the carrier has wrapped around the peer's
		// error.
		c.err = closed
	}
	if c.requested != nil {
		c.deadline.Stop()
		c.requested.Cause = c.err
		c.err = c.requested
	}
	l.cancel()
	go l.finish(c.err)
}

// finish shuts down the carrier, the reader and the writer, passes everything that has arrived to
// the machines, and then tells the owner.
func (l *Link) finish(err error) {
	code, reason := uint64(0), err.Error()
	if closed, ok := errors.AsType[*CloseError](err); ok {
		code, reason = closed.Code, closed.Reason
	}
	// This unblocks a writer in SendDatagram. It fails only if the carrier has ended already.
	_ = l.carrier.CloseWithError(code, cut(reason, maxReason))
	l.state.Store(stopped)
	l.reading.Wait()
	l.writing <- struct{}{} // wait for the writer to return, and keep it from starting again
	l.timer.Stop()
	l.receiveRest()
	<-l.writing
	close(l.done)
	l.config.Wake()
	l.config.Ended()
}

// receiveRest passes the datagrams that are left in the ring to the machines, until one of them
// fails.
func (l *Link) receiveRest() {
	for failed := false; !failed && !l.ring.empty(); {
		failed = l.receive(l.LockNow()) != nil
		l.mu.Unlock()
	}
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
