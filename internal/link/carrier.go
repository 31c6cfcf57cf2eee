package link

import (
	"context"
	"fmt"
	"time"
)

// Carrier is a path for datagrams, unreliable and unordered: a QUIC connection, or a pair in memory.
// Its methods are called by several goroutines at once.
type Carrier interface {
	// SendDatagram may block; CloseWithError must unblock it. It does not keep p.
	// A datagram that the path cannot take is refused with *[TooLargeError]; any other error ends the link.
	SendDatagram(p []byte) error

	// ReceiveDatagram hands over the ownership of the datagram. It returns soon after ctx is done.
	// An error ends the link; one that holds a *[CloseError] tells the code and reason of the peer.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// Path is cheap and never blocks: it is called for every datagram.
	Path() Path

	// CloseWithError is called exactly once.
	CloseWithError(code uint64, reason string) error
}

const (
	// Ping is the first byte of a datagram that is for no machine: it makes QUIC send something that is acknowledged.
	Ping = 0x0f
	// pingBytes make QUIC's packet larger than a stateless reset (RFC 9000, 10.3.3): a server that was started anew answers one of 42 B with
	// nothing, and what is sealed it cannot answer at all.
	pingBytes = 16
)

// Queuer is an optional part of a [Carrier] that keeps datagrams in a queue, in order, until they leave.
type Queuer interface {
	// SendQueue returns how many datagrams may wait before SendDatagram blocks. It never changes.
	SendQueue() int
}

// Path is what the carrier knows about the way to the peer. Zero fields are unknown.
type Path struct {
	Cwnd        int // bytes
	SmoothedRTT time.Duration
	MaxDatagram int // bytes
}

// TooLargeError refuses a datagram before it left.
type TooLargeError struct {
	Max int // bytes that the path takes now
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("link: datagram too large, the path takes %d bytes", e.Max)
}
