package link

import (
	"context"
	"fmt"
	"time"
)

// Carrier is a path for datagrams, unreliable and unordered: a QUIC connection, or a pair in memory.
// Its methods are called by several goroutines at once.
type Carrier interface {
	// SendDatagram may block; CloseWithError must unblock it. It does not keep p. It returns a *[TooLargeError] for a
	// datagram that the path cannot take; any other error ends the link.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns a datagram, which then belongs to the caller. It returns soon after ctx is done. An error ends
	// the link; one that wraps a *[CloseError] has the code and reason of the peer.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// SendQueue returns how many datagrams the carrier keeps in a queue, in order, until they leave, before SendDatagram blocks; 0 = it may always
	// block. It never changes.
	SendQueue() int

	// Path is called for every datagram. It must be cheap and must not block.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that is for no machine: QUIC sends it in a packet that the peer acknowledges.
	Ping = 0x0f
	// pingBytes make QUIC's packet larger than a stateless reset (RFC 9000, section 10.3.3). A server that was started anew answers a
	// packet of 42 B with nothing, and a sealed one it cannot answer at all.
	pingBytes = 16
)

// Path describes the way to the peer, as the carrier knows it. Zero fields are unknown.
type Path struct {
	Cwnd        int // bytes
	SmoothedRTT time.Duration
	MaxDatagram int // bytes
}

// TooLargeError is the error for a datagram that did not leave, because the path does not take it.
type TooLargeError struct {
	Max int // bytes that the path takes now
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large, the path takes %d bytes", e.Max)
}
