package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quivernet/quiver/internal/link"
)

// Carrier moves the datagrams of one connection, unreliably and in any order, to one peer. [Listen] and [Dial] make carriers
// of QUIC connections; [World.Attach] and [World.Connect] take any other: a WebTransport session, or a pair in memory, such as
// bubble_test.go has for tests in virtual time. A carrier keeps datagrams secret and whole, and knows that they come from the
// peer: nothing above it does. Several goroutines call its methods at once.
//
// A carrier may also have the method RemoteAddr() net.Addr, which [Conn.RemoteAddr] returns and limits on addresses count by,
// and SendQueue() int: how many datagrams it takes, and sends in order, before SendDatagram blocks. That never changes; with
// it, calls leave without waking a goroutine.
type Carrier interface {
	// SendDatagram sends p, and does not keep it. It may block; CloseWithError must unblock it. A datagram that the path
	// does not take is refused with a [*TooLargeError]; 1,163 bytes it must take. Any other error ends the connection.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns the next datagram, which belongs to the caller from then on. It returns soon after ctx is
	// done. An error ends the connection. One that is or wraps a [*CloseError] with Remote tells the peer's code and reason;
	// any other becomes the cause of ConnectionLost.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// Path says what is known of the path now. It is called for every datagram and must not block.
	Path() Path

	// CloseWithError closes the connection and tells the peer code, which is a [Code], and a reason of at most 256 bytes.
	// It is called once, in the end.
	CloseWithError(code uint64, reason string) error
}

// Path is what a [Carrier] knows of the path to its peer. Zero fields are unknown.
type Path struct {
	Cwnd        int           // bytes that may be in flight; beyond it datagrams would wait inside the carrier
	SmoothedRTT time.Duration // round trip
	MaxDatagram int           // bytes that SendDatagram takes; at least 1,163, as which unknown counts
}

// TooLargeError is what SendDatagram of a [Carrier] returns for a datagram that its path does not take. What was in it leaves
// again in smaller ones.
type TooLargeError struct {
	Max int // bytes that the path takes now
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("rpc: datagram too large, the path takes %d bytes", e.Max)
}

// linked makes a Carrier what a link drives.
type linked struct{ Carrier }

// queued is linked with the optional SendQueue.
type queued struct {
	linked
	size int
}

// linkedCarrier keeps the optional part of a carrier.
func linkedCarrier(carrier Carrier) link.Carrier {
	if q, ok := carrier.(link.Queuer); ok {
		return queued{linked{carrier}, q.SendQueue()}
	}
	return linked{carrier}
}

func (q queued) SendQueue() int { return q.size }

// RemoteAddr is an optional part of a Carrier.
func (l linked) RemoteAddr() net.Addr {
	if addressed, ok := l.Carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

func (l linked) Path() link.Path { return link.Path(l.Carrier.Path()) }

func (l linked) SendDatagram(p []byte) error { return linkedError(l.Carrier.SendDatagram(p)) }

func (l linked) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := l.Carrier.ReceiveDatagram(ctx)
	return p, linkedError(err)
}

// linkedError says in the link's words what a carrier's error says in ours.
func linkedError(err error) error {
	if err == nil {
		return nil
	}
	var large *TooLargeError
	var closed *CloseError
	switch {
	case errors.As(err, &large):
		return &link.TooLargeError{Max: large.Max}
	case errors.As(err, &closed):
		return &link.CloseError{Code: uint64(closed.Code), Reason: closed.Reason, Remote: closed.Remote, Cause: err}
	}
	return err
}
