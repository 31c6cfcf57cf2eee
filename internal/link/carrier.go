package link

import (
	"context"
	"fmt"
	"time"
)

// A Carrier sends and receives datagrams, unreliably and in any order. It is a QUIC
// connection or a pair in memory. Its methods may be called concurrently.
type Carrier interface {
	// SendDatagram sends p and does not retain it. It may block until CloseWithError is
	// called.
	//
	// It returns a *[TooLargeError] if p is too large for the path. Any other error ends the
	// link.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns a datagram, which then belongs to the caller. It returns soon
	// after ctx is done.
	//
	// An error ends the link. An error that wraps a *[CloseError] carries the peer's code and
	// reason.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// SendQueue returns the number of datagrams the carrier queues, in order, before
	// SendDatagram blocks. Zero means that SendDatagram may always block. The result never
	// changes.
	SendQueue() int

	// Path is called for every datagram. It must be fast and not block.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that no machine handles. It is sent only for the
	// QUIC packet around it, which the peer acknowledges.
	Ping = 0x0f
	// pingBytes is the size of a ping. It makes the QUIC packet larger than a stateless reset
	// (RFC 9000, section 10.3.3). A restarted server does not answer a packet of 42 bytes,
	// and it cannot answer a sealed packet.
	pingBytes = 16
)

// Path describes the path to the peer, as the carrier knows it. A zero field is unknown.
type Path struct {
	Cwnd        int // congestion window in bytes
	SmoothedRTT time.Duration
	MaxDatagram int // size of the largest datagram in bytes
}

// A TooLargeError is returned for a datagram that was not sent because it is too large for
// the path.
type TooLargeError struct {
	Max int // maximum size in bytes that the path takes now
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large, the path takes %d bytes", e.Max)
}
