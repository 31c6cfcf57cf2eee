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
	// pathAge is how long Carrier.Path returns the same result.
	pathAge = time.Millisecond
	// probeSize is larger than any path takes, so quic-go refuses the datagram and returns
	// its limit.
	probeSize = 1 << 16
	// sendQueue is the number of datagrams that quic-go certainly queues before it blocks.
	// Its maxDatagramSendQueueLen is 32, which a test checks. 24 leaves a margin.
	sendQueue = 24
	// minProbePause is the minimum pause between two probes of the limit on short paths. The
	// pause doubles while the limit stays the same.
	minProbePause = 10 * time.Millisecond
	maxProbePause = time.Second
	// provokePings is the number of pings sent before a close, within provokeTime. Of 100
	// closes at 20 % loss, 4 do not reach the peer with three pings, and 14 without any.
	provokePings = 3
	provokeTime  = 5 * time.Millisecond
	// provokeAfter is the minimum age of a connection for that. The peer of a younger one is
	// in its handshake and sends anyway. A listener that refuses a crowd closes one
	// connection after another and must not wait for each.
	provokeAfter = time.Second
)

// oversized is the datagram that probe passes to quic-go. It is never written and never sent.
var oversized [probeSize]byte

// A Carrier makes a QUIC connection a carrier of package link. Its methods may be called
// concurrently.
type Carrier struct {
	Conn   *quic.Conn
	began  time.Time
	socket *sealed.Socket // nil without Config.Sealed

	// The socket of the transport that Dial made for Conn, and a channel that is closed when that
	// transport is closed. Both are nil on a server, whose connections share a transport.
	local net.PacketConn
	free  chan struct{}

	mu     sync.Mutex // guards the fields below
	path   link.Path
	asked  time.Time     // when path was read from quic-go
	probed time.Time     // when path.MaxDatagram was probed
	pause  time.Duration // before the next probe
}

// NewCarrier returns the carrier of a connection. socket is the socket shared with sealed
// packets, or nil if there are none.
func NewCarrier(conn *quic.Conn, socket *sealed.Socket) *Carrier {
	return &Carrier{Conn: conn, began: time.Now(), socket: socket}
}

// SendDatagram implements link.Carrier. quic-go copies p.
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

// CloseWithError implements link.Carrier.
func (c *Carrier) CloseWithError(code uint64, reason string) error {
	if time.Since(c.began) >= provokeAfter {
		c.provoke()
	}
	return c.Conn.CloseWithError(quic.ApplicationErrorCode(code), reason)
}

// provoke makes the peer acknowledge packets sent just before the close. quic-go repeats a
// lost close only to a peer that sends. Otherwise, a peer that is idle or sends only sealed
// packets would notice the end only by silence.
//
// The pings are sent on a separate goroutine. If quic-go's queue is full, the close ends that
// goroutine. So provoke takes no longer than provokeTime.
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
	for waited := time.Duration(0); waited < provokeTime; waited += time.Millisecond {
		if c.Conn.Context().Err() != nil {
			return
		}
		time.Sleep(time.Millisecond)
		if c.Conn.ConnectionStats().PacketsSent >= enough {
			return
		}
	}
}

// SendQueue returns the number of datagrams quic-go queues before SendDatagram blocks.
func (c *Carrier) SendQueue() int { return sendQueue }

// RemoteAddr returns the address of the peer.
func (c *Carrier) RemoteAddr() net.Addr { return c.Conn.RemoteAddr() }

// Path returns the connection's path. It asks quic-go at most once a millisecond.
func (c *Carrier) Path() link.Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.asked) < pathAge {
		return c.path
	}
	stats := c.Conn.ConnectionStats()
	c.asked = now
	c.path.Cwnd = int(stats.CongestionWindow)
	c.path.SmoothedRTT = stats.SmoothedRTT
	if now.Sub(c.probed) >= max(stats.SmoothedRTT, c.pause) {
		c.probe(now)
	}
	return c.path
}

// probe finds the size limit of datagrams. Path MTU discovery raises the limit about every 5
// round trips until it ends. The pause before the next probe doubles while the limit stays
// the same. The caller holds mu.
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

// peerClosed converts quic-go's error for a close by the peer to a *link.CloseError with the
// peer's code and reason.
func peerClosed(err error) error {
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok && app.Remote {
		return &link.CloseError{
			Code: uint64(app.ErrorCode), Reason: app.ErrorMessage,
			Remote: true, Cause: err,
		}
	}
	return err
}

// Unsent returns the reason the system refused a client's latest packet, if it may accept the
// next one. It returns nil if the packet was not refused, and always on a server.
func (c *Carrier) Unsent() error {
	if err := unsent(c.local); udp.IsLoss(err) {
		return err
	}
	return nil
}

// Wait waits until the transport that [Dial] made for the carrier is closed. On a server,
// whose carriers share a transport, it returns at once.
func (c *Carrier) Wait() {
	if c.free != nil {
		<-c.free
	}
}

// The methods below are for a sealed carrier beside this one.

// Socket returns the socket that sealed packets share with the connection, or nil if there
// are none.
func (c *Carrier) Socket() *sealed.Socket { return c.socket }

// CipherSuite returns the cipher suite of the TLS connection.
func (c *Carrier) CipherSuite() uint16 { return c.Conn.ConnectionState().TLS.CipherSuite }

// Export derives keys from the TLS connection (RFC 5705). value is the context.
func (c *Carrier) Export(label string, value []byte, length int) ([]byte, error) {
	state := c.Conn.ConnectionState().TLS
	return state.ExportKeyingMaterial(label, value, length)
}

// Addrs returns the addresses to which and from which the connection sends.
func (c *Carrier) Addrs() (remote, local net.Addr) {
	return c.Conn.RemoteAddr(), c.Conn.LocalAddr()
}

// Received returns the number of packets received over QUIC.
func (c *Carrier) Received() uint64 { return c.Conn.ConnectionStats().PacketsReceived }

// MaxPacket returns the largest UDP payload in bytes that the path is known to take. It is a
// datagram frame and what quic-go adds to it: the packet's type, connection ID, at least one
// byte of packet number, and tag.
func (c *Carrier) MaxPacket() int {
	const short = 1 + ConnectionIDBytes + 1 + 16
	if most := c.Path().MaxDatagram; most > 0 {
		return most + short
	}
	return sealed.SafePacket
}
