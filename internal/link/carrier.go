package link

import (
	"context"
	"fmt"
	"time"
)

// A Carrier sends and receives datagrams, which may get lost or arrive in any order. It is a QUIC
// connection or one end of an in-memory pair. Its methods are safe for concurrent use.
type Carrier interface {
	// SendDatagram sends p, which it doesn't retain. It may block until CloseWithError is
	// called.
	//
	// If p is too large for the path, the error is a *[TooLargeError]. Any other error ends the
	// link.
	SendDatagram(p []byte) error

	// ReceiveDatagram waits for a datagram or until ctx is done. The datagram belongs to the
	// caller.
	//
	// An error ends the link. If the peer closed the connection, the error wraps a
	// *[CloseError] with the peer's code and reason.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// SendQueue returns the number of datagrams that the carrier queues, in order, before
	// SendDatagram blocks, or 0 if any call of SendDatagram may block. The result never changes.
	SendQueue() int

	// Path returns what the carrier knows about the path. It is called for every datagram, so it
	// must be fast and must not block.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that isn't meant for any machine. We send it only
	// because the peer acknowledges the QUIC packet that contains it.
	Ping = 0x0f

	// pingBytes is the size of a ping. It must be large enough for a server that has restarted to
	// answer with a stateless reset, because such a server can't answer sealed packets at all. A
	// reset must be smaller than the packet that it answers (RFC 9000, section 10.3.3), so a ping
	// in a packet of 42 bytes would get none.
	pingBytes = 16
)

// Path is what the carrier knows about the path to the peer. Unknown fields are 0.
type Path struct {
	Cwnd        int // congestion window in bytes
	SmoothedRTT time.Duration
	MaxDatagram int // maximum size of a datagram in bytes
}

// A TooLargeError is returned if a datagram wasn't sent because it is too large for the path.
type TooLargeError struct {
	Max int // the current limit in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large; the path's limit is %d bytes", e.Max)
}
