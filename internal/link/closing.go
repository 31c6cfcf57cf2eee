package link

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

const (
	// drainTime is the maximum time that Close waits for the peer to acknowledge reliable data.
	drainTime = time.Second

	// maxReason is the maximum length of a reason on the wire, in bytes. The reason and the
	// headers must fit into one QUIC packet.
	maxReason = 256
)

// ErrUndelivered is the cause of a close if the peer didn't acknowledge all reliable data in time.
var ErrUndelivered = fmt.Errorf("link: reliable data not acknowledged within %v of Close", drainTime)

// A CloseError says which side closed the connection, and why.
type CloseError struct {
	Code   uint64
	Reason string
	Remote bool  // the peer closed the connection
	Cause  error // nil if there is none
}

func (e *CloseError) Error() string {
	by := "locally"
	if e.Remote {
		by = "by the peer"
	}
	s := fmt.Sprintf("link: closed %s: code %d", by, e.Code)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func (e *CloseError) Unwrap() error { return e.Cause }

// violation returns the error that ends the link after a machine's Receive or Advance failed with
// err.
func violation(err error) *CloseError {
	var coded interface{ CloseCode() (uint64, string) }
	if !errors.As(err, &coded) {
		// The machine has no code for this error, so close with code 0.
		return &CloseError{Reason: err.Error(), Cause: err}
	}
	code, reason := coded.CloseCode()
	return &CloseError{Code: code, Reason: reason, Cause: err}
}

// closing is the state of a link's close. Close requests it, end settles the link's error, and
// finish shuts everything down. The link's lock may be held when mu is taken, but never the other
// way around.
type closing struct {
	mu        sync.Mutex
	requested *CloseError // the arguments of Close; nil if it wasn't called
	deadline  *time.Timer // ends the drain after drainTime; set along with requested
	err       error       // why the link ended; nil while it runs
}

// result returns the error of a link that ends because of cause, which is nil if a Close delivered
// everything. The caller holds mu.
func (c *closing) result(cause error) error {
	if closed, ok := errors.AsType[*CloseError](cause); ok {
		cause = closed // without what the carrier wrapped around the peer's error
	}
	if c.requested == nil {
		return cause
	}
	c.requested.Cause = cause
	return c.requested
}

// Close ends the connection once the peer has acknowledged all reliable data, or after drainTime
// if that comes first. It uncorks play, so that the calls of the current tick are sent too.
//
// It returns at once, and may be called with or without the lock. It is a no-op if Close was
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
	l.writer.signal()
	if l.Sealed() {
		go l.drainSealed()
	}
}

// Abort ends the connection without a drain. It returns at once, and may be called with or without
// the lock. If Close was called before, the peer still gets the code and the reason of that Close.
func (l *Link) Abort(code uint64, reason string) {
	l.end(&CloseError{Code: code, Reason: reason})
}

// Done returns a channel that is closed once the connection has ended, which is after the reader
// and the writer have returned and the machines have received every datagram that arrived.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the connection ended, or nil if it hasn't ended yet. The error is a [*CloseError]
// if either side closed the connection, with a Cause if Close couldn't deliver everything.
// Otherwise it is the carrier's error.
func (l *Link) Err() error {
	l.closing.mu.Lock()
	defer l.closing.mu.Unlock()
	return l.closing.err
}

// endDrained ends the link after the drain of a Close has delivered everything. Only a link that is
// draining may call it, because otherwise there is no error to end with.
func (l *Link) endDrained() { l.end(nil) }

// end ends the link because of cause. If Close was called before, its error becomes the link's
// error, and cause becomes its Cause.
//
// Only the first call has an effect. It doesn't wait for the carrier, because finish closes that on
// a goroutine of its own.
func (l *Link) end(cause error) {
	c := &l.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = c.result(cause)
	if c.deadline != nil {
		c.deadline.Stop()
	}
	l.cancel()
	go l.finish(c.err)
}

// finish shuts down the carrier, the reader and the writer, in that order, because closing the
// carrier unblocks the other two. Then it passes what they left in the ring to the machines, and
// tells the owner.
func (l *Link) finish(err error) {
	code, reason := uint64(0), err.Error()
	if closed, ok := errors.AsType[*CloseError](err); ok {
		code, reason = closed.Code, closed.Reason
	}
	// An error only means that the carrier has ended already.
	_ = l.carrier.CloseWithError(code, words.Cut(reason, maxReason))
	l.writer.state.stop()
	l.reading.Wait()
	l.writer.running.Lock() // waits for the writer to return
	l.alarm.stop()
	l.receiveRest()
	l.writer.running.Unlock()
	close(l.done)
	l.config.Wake()
	l.config.Ended()
}

// receiveRest passes the datagrams that are left in the ring to the machines, until one of them
// fails.
func (l *Link) receiveRest() {
	for !l.ring.empty() {
		now := l.LockNow()
		err := l.receive(now)
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}
