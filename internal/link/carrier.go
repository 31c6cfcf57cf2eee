package link

import (
	"context"
	"fmt"
	"time"
)

// A Carrier sends and receives datagrams, which may get lost or arrive in any order. It is a QUIC
// connection, or one end of a pair in memory. Its methods are safe for concurrent use.
type Carrier interface {
	// SendDatagram sends p, which it does not retain. It may block until CloseWithError is
	// called.
	//
	// If p is too large for the path, the error is a *[TooLargeError]. Any other error ends the
	// link.
	SendDatagram(p []byte) error

	// ReceiveDatagram waits for a datagram, which then belongs to the caller, or until ctx is
	// done.
	//
	// An error ends the link. If the peer has closed the connection, the error wraps a
	// *[CloseError] with its code and reason.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// SendQueue returns how many datagrams the carrier queues, in order, before SendDatagram
	// blocks. It is 0 if SendDatagram may always block. The result never changes.
	SendQueue() int

	// Path returns what is known of the path. It is called for every datagram, so it must be fast
	// and must not block.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that is for no machine. We only send it for the sake
	// of the QUIC packet around it, because the peer acknowledges that.
	Ping = 0x0f

	// pingBytes is the size of a ping. A server that has restarted answers with a stateless
	// reset, but only to a packet that is larger than the reset itself (RFC 9000, section
	// 10.3.3), so it ignores one of 42 bytes. We need that answer, because such a server can't
	// answer a sealed packet at all.
	pingBytes = 16
)

// Path is what the carrier knows of the path to the peer. A field is 0 if unknown.
type Path struct {
	Cwnd        int // congestion window in bytes
	SmoothedRTT time.Duration
	MaxDatagram int // size of the largest datagram that it takes, in bytes
}

// A TooLargeError is returned for a datagram that was not sent, because the path doesn't take
// datagrams of its size.
type TooLargeError struct {
	Max int // what the path takes now, in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large, the path takes %d bytes", e.Max)
}
