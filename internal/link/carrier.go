package link

import (
	"context"
	"fmt"
	"time"
)

// A Carrier sends and receives datagrams, unreliably and in any order: a QUIC
// connection, or a pair in memory. Its methods are called concurrently.
type Carrier interface {
	// SendDatagram sends p, and does not retain it. It may block until
	// CloseWithError is called. It returns a *[TooLargeError] if the path
	// cannot take a datagram of that size; any other error ends the link.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns a datagram, which then belongs to the caller. It
	// returns soon after ctx is done. An error ends the link; one that wraps a
	// *[CloseError] has the code and reason of the peer.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// SendQueue returns how many datagrams the carrier queues, in order, before
	// SendDatagram blocks; 0 = it may always block. The result never changes.
	SendQueue() int

	// Path is called for every datagram. It must be fast and must not block.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that is for no machine. Its purpose
	// is the QUIC packet, which the peer acknowledges.
	Ping = 0x0f
	// pingBytes is the size of a ping. It makes QUIC's packet larger than a
	// stateless reset (RFC 9000, section 10.3.3): a restarted server does not
	// answer a packet of 42 B, and it cannot answer a sealed one.
	pingBytes = 16
)

// Path describes the path to the peer, as the carrier knows it. Zero fields are unknown.
type Path struct {
	Cwnd        int // congestion window in bytes
	SmoothedRTT time.Duration
	MaxDatagram int // size of the largest datagram in bytes
}

// A TooLargeError is returned for a datagram that was not sent, because the
// path does not take its size.
type TooLargeError struct {
	Max int // largest size in bytes that the path takes now
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large, the path takes %d bytes", e.Max)
}
