package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/sealed"
)

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
