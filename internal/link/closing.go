package link

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// drainTime is how long Close waits for reliable data to be acknowledged.
	drainTime = time.Second
	// maxReason is the most bytes of a reason on the wire: it must fit one packet of QUIC beside its header.
	maxReason = 256
)

// ErrUndelivered is the cause of a close that ended before the peer had acknowledged all reliable data.
var ErrUndelivered = errors.New("link: reliable data was not acknowledged within 1s of Close")

// CloseError says that one of both sides closed the connection, and why.
type CloseError struct {
	Code   uint64
	Reason string
	Remote bool  // the peer closed
	Cause  error // what led to it, may be nil
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

// violation makes the error that ends the link of what a machine's Receive or Advance returned.
func violation(err error) *CloseError {
	var coded interface{ CloseCode() (uint64, string) }
	if !errors.As(err, &coded) {
		return &CloseError{Reason: err.Error(), Cause: err}
	}
	code, reason := coded.CloseCode()
	return &CloseError{Code: code, Reason: reason, Cause: err}
}

// closing is how a link ends: asked (by Close), then ended, each at most once.
type closing struct {
	mu    sync.Mutex
	asked *CloseError // waits for the drain
	limit *time.Timer // ends the drain
	err   error       // why it ended
}

// Close ends the connection as soon as all reliable data is acknowledged, at most 1 s from now. It returns at once, may
// be called with or without the lock, and does nothing on a link that was closed before. Corked machines are uncorked.
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

// Abort ends the connection without waiting for anything. It returns at once and may be called with or without the
// lock. It cuts the drain of a Close short, whose code and reason then stand.
func (l *Link) Abort(code uint64, reason string) {
	l.end(&CloseError{Code: code, Reason: reason})
}

// Done is closed when the connection has ended, reader and writer are gone and the machines have received all that arrived.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the connection ended, or nil: a [*CloseError] when one side closed it, else the carrier's error. The
// cause of a Close that could not deliver everything tells why.
func (l *Link) Err() error {
	l.closing.mu.Lock()
	defer l.closing.mu.Unlock()
	return l.closing.err
}

// end stops the link; the first cause stands, and a Close that was asked for comes before it. A nil cause is the end
// of a drain. The work is done elsewhere, so that nobody who ends a link waits for its carrier.
func (l *Link) end(cause error) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = remote(cause)
	if c.asked != nil {
		c.limit.Stop()
		c.asked.Cause = c.err
		c.err = c.asked
	}
	l.cancel()
	go l.finish(c.err)
}

// remote takes the peer's close out of the carrier's error.
func remote(err error) error {
	var closed *CloseError
	if errors.As(err, &closed) {
		return closed
	}
	return err
}

// finish closes the carrier, which frees a writer that is blocked in it, and waits for reader and writer.
func (l *Link) finish(err error) {
	code, reason := uint64(0), err.Error()
	var closed *CloseError
	if errors.As(err, &closed) {
		code, reason = closed.Code, closed.Reason
	}
	_ = l.carrier.CloseWithError(code, cut(reason, maxReason)) // it is gone either way
	l.state.Store(stopped)
	l.reading.Wait()
	l.writing <- struct{}{} // none writes after the one that does now
	l.timer.Stop()
	l.receiveRest()
	<-l.writing
	close(l.done)
	l.config.Wake()
	l.config.Ended()
}

// receiveRest lets the machines have what came before the end, unless one of them refuses.
func (l *Link) receiveRest() {
	for failed := false; !failed && !l.ring.empty(); {
		failed = l.receive(l.Lock()) != nil
		l.mu.Unlock()
	}
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
