package quicconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// pathAge is how old an answer of Carrier.Path may be.
	pathAge = time.Millisecond
	// probeSize is above what any path takes, so that quic-go refuses it and tells its limit.
	probeSize = 1 << 16
	// sendQueue datagrams may wait inside quic-go for certain: its maxDatagramSendQueueLen is 32, and a test watches it.
	sendQueue = 24
	// minProbePause keeps the questions for that limit apart on short paths; the pause doubles while the limit stays.
	minProbePause = 10 * time.Millisecond
	maxProbePause = time.Second
)

// oversized is what probe asks quic-go to send. Nobody writes to it, and it never leaves.
var oversized [probeSize]byte

// Carrier is a QUIC connection as a link drives it. Its methods are safe from any goroutine.
type Carrier struct {
	Conn   *quic.Conn
	socket *sealed.Socket // nil without Config.Sealed
	free   chan struct{}  // closed together with the transport that Dial made for Conn; nil for a server's, which has one for all

	mu     sync.Mutex
	path   link.Path
	asked  time.Time // when path was filled
	probed time.Time // when path.MaxDatagram was
	pause  time.Duration
}

// NewCarrier returns the carrier of a connection; socket is the one that sealed packets share with it, nil when none do.
func NewCarrier(conn *quic.Conn, socket *sealed.Socket) *Carrier {
	return &Carrier{Conn: conn, socket: socket}
}

func (c *Carrier) SendDatagram(p []byte) error {
	err := c.Conn.SendDatagram(p)
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
	return &link.TooLargeError{Max: int(large.MaxDatagramPayloadSize)}
}

func (c *Carrier) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := c.Conn.ReceiveDatagram(ctx)
	if err != nil {
		return nil, peerClosed(err)
	}
	return p, nil
}

func (c *Carrier) CloseWithError(code uint64, reason string) error {
	return c.Conn.CloseWithError(quic.ApplicationErrorCode(code), reason)
}

// SendQueue is for [link.Queuer].
func (c *Carrier) SendQueue() int { return sendQueue }

func (c *Carrier) RemoteAddr() net.Addr { return c.Conn.RemoteAddr() }

// Path asks quic-go at most once a millisecond.
func (c *Carrier) Path() link.Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.asked) < pathAge {
		return c.path
	}
	stats := c.Conn.ConnectionStats()
	c.asked = now
	c.path.Cwnd, c.path.SmoothedRTT = int(stats.CongestionWindow), stats.SmoothedRTT
	if now.Sub(c.probed) >= max(stats.SmoothedRTT, c.pause) {
		c.probe(now)
	}
	return c.path
}

// probe asks for the datagram limit, which path MTU discovery moves about every 5 round trips until it is through. The pause before the
// next probe doubles while the limit stays.
func (c *Carrier) probe(now time.Time) {
	c.probed = now
	var large *quic.DatagramTooLargeError
	if !errors.As(c.Conn.SendDatagram(oversized[:]), &large) {
		return
	}
	c.pause = min(2*max(c.pause, minProbePause), maxProbePause)
	if size := int(large.MaxDatagramPayloadSize); size != c.path.MaxDatagram {
		c.path.MaxDatagram, c.pause = size, minProbePause
	}
}

// peerClosed says as a link does that the peer closed the connection, and why.
func peerClosed(err error) error {
	var app *quic.ApplicationError
	if !errors.As(err, &app) || !app.Remote {
		return err
	}
	return &link.CloseError{Code: uint64(app.ErrorCode), Reason: app.ErrorMessage, Remote: true, Cause: err}
}

// Wait returns when the transport that [Dial] made for the carrier is closed; at once for a server's carrier, which shares its transport.
func (c *Carrier) Wait() {
	if c.free != nil {
		<-c.free
	}
}

// What follows is for a sealed carrier beside this one.

// Socket returns the socket that sealed packets share with the connection, nil when none do.
func (c *Carrier) Socket() *sealed.Socket { return c.socket }

// CipherSuite returns how the TLS connection encrypts.
func (c *Carrier) CipherSuite() uint16 { return c.Conn.ConnectionState().TLS.CipherSuite }

// Export derives keys of the TLS connection.
func (c *Carrier) Export(label string, context []byte, length int) ([]byte, error) {
	tls := c.Conn.ConnectionState().TLS
	return tls.ExportKeyingMaterial(label, context, length)
}

// Addrs returns where the connection sends to, and from where.
func (c *Carrier) Addrs() (remote, local net.Addr) {
	return c.Conn.RemoteAddr(), c.Conn.LocalAddr()
}

// Received counts the packets that came over QUIC.
func (c *Carrier) Received() uint64 { return c.Conn.ConnectionStats().PacketsReceived }

// MaxPacket returns the largest UDP payload in bytes that the path is known to take: a datagram and what quic-go leaves
// for its frame: type, connection id, at least a byte of packet number, tag.
func (c *Carrier) MaxPacket() int {
	const short = 1 + ConnectionIDBytes + 1 + 16
	if most := c.Path().MaxDatagram; most > 0 {
		return most + short
	}
	return sealed.SafePacket
}
