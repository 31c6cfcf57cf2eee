package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/sealed"
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

const (
	// pathAge is how old an answer of quicCarrier.Path may be.
	pathAge = time.Millisecond
	// probeSize is above what any path takes, so that quic-go refuses it and tells its limit.
	probeSize = 1 << 16
	// sendQueue datagrams may wait inside quic-go for certain: its maxDatagramSendQueueLen is 32, and a test watches it.
	sendQueue = 24
	// minProbePause keeps the questions for that limit apart on short paths; the pause doubles while the limit stays.
	minProbePause = 10 * time.Millisecond
	maxProbePause = time.Second
)

// oversized is never sent and never written.
var oversized [probeSize]byte

// quicCarrier makes a QUIC connection a [Carrier].
type quicCarrier struct {
	conn   *quic.Conn
	socket *sealed.Socket // nil without Config.Sealed
	free   chan struct{}  // closed when the transport under it is, which Dial made for it; nil when it serves others, too

	mu     sync.Mutex
	path   Path
	asked  time.Time // when path was filled
	probed time.Time // when path.MaxDatagram was
	pause  time.Duration
}

func newQUICCarrier(conn *quic.Conn, socket *sealed.Socket) *quicCarrier {
	return &quicCarrier{conn: conn, socket: socket}
}

func (c *quicCarrier) SendDatagram(p []byte) error {
	err := c.conn.SendDatagram(p)
	if err == nil {
		return nil
	}
	var large *quic.DatagramTooLargeError
	if !errors.As(err, &large) {
		return peerClosed(err)
	}
	c.mu.Lock()
	c.path.MaxDatagram, c.probed = int(large.MaxDatagramPayloadSize), time.Now()
	c.mu.Unlock()
	return &TooLargeError{Max: int(large.MaxDatagramPayloadSize)}
}

func (c *quicCarrier) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := c.conn.ReceiveDatagram(ctx)
	if err != nil {
		return nil, peerClosed(err)
	}
	return p, nil
}

func (c *quicCarrier) CloseWithError(code uint64, reason string) error {
	return c.conn.CloseWithError(quic.ApplicationErrorCode(code), reason)
}

// SendQueue is an optional part of a Carrier.
func (c *quicCarrier) SendQueue() int { return sendQueue }

func (c *quicCarrier) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Path asks quic-go at most once a millisecond.
func (c *quicCarrier) Path() Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.asked) < pathAge {
		return c.path
	}
	stats := c.conn.ConnectionStats()
	c.asked = now
	c.path.Cwnd, c.path.SmoothedRTT = int(stats.CongestionWindow), stats.SmoothedRTT
	if now.Sub(c.probed) >= max(stats.SmoothedRTT, c.pause) {
		c.probe(now)
	}
	return c.path
}

// probe asks for the datagram limit, which path MTU discovery moves about every 5 round trips until it is through: seldom
// when it has not moved for long.
func (c *quicCarrier) probe(now time.Time) {
	c.probed = now
	var large *quic.DatagramTooLargeError
	if !errors.As(c.conn.SendDatagram(oversized[:]), &large) {
		return
	}
	c.pause = min(2*max(c.pause, minProbePause), maxProbePause)
	if size := int(large.MaxDatagramPayloadSize); size != c.path.MaxDatagram {
		c.path.MaxDatagram, c.pause = size, minProbePause
	}
}

// peerClosed says as a [Carrier] does that the peer closed the connection, and why.
func peerClosed(err error) error {
	var app *quic.ApplicationError
	if !errors.As(err, &app) || !app.Remote {
		return err
	}
	return &CloseError{Code: codeOf(uint64(app.ErrorCode)), Reason: app.ErrorMessage, Remote: true, cause: err}
}

// lingerTime is how long a closed connection should still answer, so that a lost close is repeated: 3 PTO.
func lingerTime(conn *quic.Conn) time.Duration {
	const maxAckDelay = 25 * time.Millisecond // RFC 9000, section 18.2
	stats := conn.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + maxAckDelay
	return min(3*pto, time.Second)
}
