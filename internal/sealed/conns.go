package sealed

import (
	"net"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/udp"
)

// quic-go looks for optional methods on its net.PacketConn: ReadBatch to use in place of ReadFrom,
// SyscallConn to set "don't fragment" and discover the path MTU, and ReadMsgUDP and WriteMsgUDP
// for GSO and ECN. So there is a type for each kind of socket, with only the methods that the
// socket supports.

// A plainConn is the QUIC side of a socket that isn't a udp.SystemConn.
type plainConn struct {
	net.PacketConn
	socket *Socket
}

// ReadFrom returns the next packet for QUIC.
func (c *plainConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	r := &c.socket.reader
	for {
		begin := time.Now()
		n, from, err = c.PacketConn.ReadFrom(p)
		now := time.Now()
		r.noteRead(begin, now)
		if err != nil {
			if r.handleError(now, err) {
				continue
			}
			return n, from, err
		}
		r.succeeded()
		if c.socket.dispatch(now, udp.AddrPort(from), p[:n]) {
			return n, from, nil
		}
		r.notifyInboxes(now)
	}
}

// WriteTo sends a packet for QUIC.
func (c *plainConn) WriteTo(p []byte, to net.Addr) (n int, err error) {
	return c.socket.send(p, to, func(to net.Addr) (int, error) { return c.PacketConn.WriteTo(p, to) })
}

// Unsent returns the error with which sending QUIC's latest packet failed, or nil if the packet
// was sent.
func (c *plainConn) Unsent() error {
	if err := c.socket.lastWriteErr.Load(); err != nil {
		return *err
	}
	return nil
}

// A systemConn is the QUIC side of a udp.SystemConn that isn't a *net.UDPConn.
type systemConn struct {
	*plainConn
	udp.SystemConn
}

// A udpConn is the QUIC side of a *net.UDPConn. If the kernel has joined several packets into one
// message (GRO), udpConn splits them, because some may be for QUIC and others for carriers.
//
// Only one goroutine, quic-go's reader, may read.
type udpConn struct {
	systemConn
	udp *net.UDPConn

	// Reading. Used only by quic-go's reader.
	reader   packetReader
	messages []udp.Message // messages that haven't been split completely
	unsplit  []byte        // the part of messages[0] that hasn't been split
	size     int           // of each packet in unsplit; the last may be shorter
	readTime time.Time     // when the messages were read
}

// A packetReader is the part of [udp.Reader] that udpConn uses. Tests have other implementations.
type packetReader interface {
	Read() (ms []udp.Message, waited bool, err error)
}

// WriteMsgUDP sends a packet for QUIC, or several with GSO.
func (c *udpConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, err = c.socket.send(b, addr, func(to net.Addr) (n int, err error) {
		n, oobn, err = c.udp.WriteMsgUDP(b, oob, to.(*net.UDPAddr))
		return n, err
	})
	return n, oobn, err
}

// ReadFrom returns the next packet for QUIC.
func (c *udpConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	n, _, _, addr, err := c.ReadMsgUDP(p, nil)
	if err != nil {
		return n, nil, err
	}
	return n, addr, nil
}

// ReadMsgUDP returns the next packet for QUIC.
func (c *udpConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	m := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err := c.ReadBatch(m, 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = m[0].Addr.(*net.UDPAddr)
	return m[0].N, m[0].NN, m[0].Flags, addr, nil
}

// ReadBatch waits for packets for QUIC, stores those that are available in ms, and
// returns their number.
func (c *udpConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	for n := 0; ; {
		for len(c.messages) > 0 && n < len(ms) {
			if c.nextPacket(&ms[n]) {
				n++
			}
		}
		c.socket.reader.notifyInboxes(c.readTime)
		if n > 0 {
			return n, nil
		}
		// Don't return an empty batch, because quic-go would then parse what an earlier call left
		// in ms. It also does so after some errors, so clear the sizes in ms before returning
		// one.
		if err := c.fill(); err != nil {
			for i := range ms {
				ms[i].N = 0
				ms[i].NN = 0
			}
			return 0, err
		}
	}
}

// fill waits for messages and reads them.
func (c *udpConn) fill() error {
	r := &c.socket.reader
	messages, waited, err := c.reader.Read()
	for err != nil && r.handleError(time.Now(), err) {
		messages, waited, err = c.reader.Read()
	}
	if err != nil {
		return err
	}
	r.succeeded()
	c.messages = messages
	c.readTime = time.Now()
	if waited {
		r.waitedAt = c.readTime
	}
	c.beginMessage()
	return nil
}

// beginMessage prepares to split the next message, if there is one.
func (c *udpConn) beginMessage() {
	if len(c.messages) == 0 {
		return
	}
	m := &c.messages[0]
	c.unsplit = m.Data
	c.size = udp.SegmentSize(m.OOB)
	if c.size <= 0 || c.size > len(m.Data) {
		c.size = len(m.Data) // nothing was joined
	}
}

// nextPacket splits off the next packet. If the packet is for QUIC, nextPacket copies it into
// the message to and returns true. Otherwise it routes the packet to its carrier.
func (c *udpConn) nextPacket(to *ipv4.Message) (forQUIC bool) {
	m := &c.messages[0]
	p := c.unsplit[:min(c.size, len(c.unsplit))]
	forQUIC = len(p) > 0 && c.socket.dispatch(c.readTime, m.From, p)
	if forQUIC {
		to.N = copy(to.Buffers[0], p)
		to.NN = copy(to.OOB, m.OOB)
		to.Addr = net.UDPAddrFromAddrPort(m.From)
		to.Flags = 0
	}
	c.unsplit = c.unsplit[len(p):]
	if len(c.unsplit) == 0 {
		c.messages = c.messages[1:]
		c.beginMessage()
	}
	return forQUIC
}
