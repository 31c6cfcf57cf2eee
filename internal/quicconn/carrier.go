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
	"github.com/quivernet/quiver/internal/udp"
)

const (
	// pathAge is how long Carrier.Path returns the same result. It's far below a round trip, and
	// long enough that a burst of datagrams asks quic-go only once.
	pathAge = time.Millisecond

	// probeSize is larger than any path's limit, so that quic-go refuses the datagram and tells us
	// its limit.
	probeSize = 1 << 16

	// sendQueue is how many datagrams quic-go is sure to queue before it blocks. Its
	// maxDatagramSendQueueLen is 32, as a test checks, and 24 leaves a margin.
	sendQueue = 24

	// minProbePause is the shortest time between two probes of the limit, unless the round trip is
	// longer. The pause doubles while the limit stays the same, up to maxProbePause.
	minProbePause = 10 * time.Millisecond
	maxProbePause = time.Second

	// provokePings is how many pings we send before a close. At 20 % loss, 14 closes of 100 don't
	// reach the peer without any pings, but only 4 with three. provokeTime is how long we wait for
	// the pings to be sent, and provokeStep how often we check whether they were.
	provokePings = 3
	provokeTime  = 5 * time.Millisecond
	provokeStep  = time.Millisecond

	// provokeAfter is how old a connection must be for pings before its close. The peer of a
	// younger one is in its handshake and sends anyway. Besides, a listener that refuses a crowd
	// closes one connection after another and mustn't wait for each of them.
	provokeAfter = time.Second
)

// oversized is what probe gives to quic-go. It is never written to, and never sent.
var oversized [probeSize]byte

// A Carrier implements link.Carrier with a QUIC connection. Its methods are safe for concurrent
// use.
type Carrier struct {
	Conn   *quic.Conn
	began  time.Time
	socket *sealed.Socket // shared with sealed packets; nil without Config.Sealed

	// The socket of the transport that Dial made for Conn, and a channel that is closed along with
	// that transport. Both are nil on a server, because its connections share a transport.
	local net.PacketConn
	free  chan struct{}

	mu      sync.Mutex // guards the fields below
	path    link.Path
	updated time.Time     // when we last got path from quic-go
	probed  time.Time     // when we last got path.MaxDatagram
	pause   time.Duration // how long to wait before the next probe
}

// NewCarrier returns the carrier of a connection. socket is the one that it shares with sealed
// packets, or nil if there are none.
func NewCarrier(conn *quic.Conn, socket *sealed.Socket) *Carrier {
	return &Carrier{Conn: conn, began: time.Now(), socket: socket}
}

// SendDatagram implements link.Carrier. It doesn't retain p, because quic-go makes a copy.
func (c *Carrier) SendDatagram(p []byte) error {
	err := c.Conn.SendDatagram(p)
	large, ok := errors.AsType[*quic.DatagramTooLargeError](err)
	if !ok {
		return peerClosed(err)
	}
	c.mu.Lock()
	c.path.MaxDatagram = int(large.MaxDatagramPayloadSize)
	c.probed = time.Now()
	c.mu.Unlock()
	return &link.TooLargeError{Max: int(large.MaxDatagramPayloadSize)}
}

// ReceiveDatagram implements link.Carrier.
func (c *Carrier) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := c.Conn.ReceiveDatagram(ctx)
	return p, peerClosed(err)
}

// CloseWithError implements link.Carrier. It may block for up to provokeTime.
func (c *Carrier) CloseWithError(code uint64, reason string) error {
	if time.Since(c.began) >= provokeAfter {
		c.provoke()
	}
	return c.Conn.CloseWithError(quic.ApplicationErrorCode(code), reason)
}

// provoke sends pings just before a close, so that the peer soon sends acknowledgments. If the
// close gets lost, quic-go repeats it only when the peer sends something, so a peer that is idle,
// or sends only sealed packets, would have to wait for its idle timeout.
//
// It takes no longer than provokeTime. If quic-go's queue is full, the goroutine that sends the
// pings blocks until the close ends it.
func (c *Carrier) provoke() {
	enough := c.Conn.ConnectionStats().PacketsSent + provokePings
	go func() {
		ping := [16]byte{link.Ping}
		for range provokePings {
			if c.Conn.SendDatagram(ping[:]) != nil {
				return
			}
		}
	}()
	for range provokeTime / provokeStep {
		if c.Conn.Context().Err() != nil {
			return
		}
		time.Sleep(provokeStep)
		if c.Conn.ConnectionStats().PacketsSent >= enough {
			return
		}
	}
}

// SendQueue implements link.Carrier.
func (c *Carrier) SendQueue() int { return sendQueue }

// RemoteAddr returns the peer's address.
func (c *Carrier) RemoteAddr() net.Addr { return c.Conn.RemoteAddr() }

// Path implements link.Carrier. It asks quic-go at most once per pathAge.
func (c *Carrier) Path() link.Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.updated) < pathAge {
		return c.path
	}
	stats := c.Conn.ConnectionStats()
	c.updated = now
	c.path.Cwnd = int(stats.CongestionWindow)
	c.path.SmoothedRTT = stats.SmoothedRTT
	if now.Sub(c.probed) >= max(stats.SmoothedRTT, c.pause) {
		c.probe(now)
	}
	return c.path
}

// probe finds out how large datagrams may be. The limit rises about every 5 round trips until
// quic-go's path MTU discovery ends, so we probe less and less often while the limit stays the
// same. The caller holds mu.
func (c *Carrier) probe(now time.Time) {
	c.probed = now
	large, ok := errors.AsType[*quic.DatagramTooLargeError](c.Conn.SendDatagram(oversized[:]))
	if !ok {
		return
	}
	c.pause = min(2*max(c.pause, minProbePause), maxProbePause)
	if size := int(large.MaxDatagramPayloadSize); size != c.path.MaxDatagram {
		c.path.MaxDatagram = size
		c.pause = minProbePause
	}
}

// peerClosed replaces quic-go's error for a close by the peer with a *link.CloseError, which has
// the peer's code and reason.
func peerClosed(err error) error {
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok && app.Remote {
		return &link.CloseError{
			Code: uint64(app.ErrorCode), Reason: app.ErrorMessage,
			Remote: true, Cause: err,
		}
	}
	return err
}

// Unsent returns why the system refused a client's latest packet, if it may accept the next one. It
// returns nil if the packet wasn't refused, and always on a server.
func (c *Carrier) Unsent() error {
	if err := unsent(c.local); udp.IsLoss(err) {
		return err
	}
	return nil
}

// Wait waits until the transport that [Dial] made for the carrier is closed. On a server, whose
// carriers share a transport, it returns at once.
func (c *Carrier) Wait() {
	if c.free != nil {
		<-c.free
	}
}

// The methods below serve a sealed carrier that runs beside this one.

// Socket returns the socket that the connection shares with sealed packets, or nil if there are
// none.
func (c *Carrier) Socket() *sealed.Socket { return c.socket }

// CipherSuite returns the cipher suite of the TLS connection.
func (c *Carrier) CipherSuite() uint16 { return c.Conn.ConnectionState().TLS.CipherSuite }

// Export derives keys from the TLS connection (RFC 5705). value is the context.
func (c *Carrier) Export(label string, value []byte, length int) ([]byte, error) {
	state := c.Conn.ConnectionState().TLS
	return state.ExportKeyingMaterial(label, value, length)
}

// Addrs returns the addresses of the peer and of our own socket.
func (c *Carrier) Addrs() (remote, local net.Addr) {
	return c.Conn.RemoteAddr(), c.Conn.LocalAddr()
}

// Received returns how many QUIC packets have arrived.
func (c *Carrier) Received() uint64 { return c.Conn.ConnectionStats().PacketsReceived }

// MaxPacket returns the largest UDP payload that the path is known to carry, in bytes. That's a
// datagram with what quic-go adds to it: the first byte of the packet, a connection ID, at least
// one byte of packet number, and a tag.
func (c *Carrier) MaxPacket() int {
	const overhead = 1 + ConnectionIDBytes + 1 + 16
	if size := c.Path().MaxDatagram; size > 0 {
		return size + overhead
	}
	return sealed.SafePacket
}
