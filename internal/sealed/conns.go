package sealed

import (
	"net"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/udp"
)

// quic-go looks at the methods of its net.PacketConn and uses each one that it finds: ReadBatch instead of ReadFrom; with SyscallConn
// it sets "don't fragment" and searches the path MTU; with ReadMsgUDP and WriteMsgUDP it uses GSO and ECN. So there is one type for
// each kind of socket, which has only methods that its socket has.

// plainConn is the QUIC side of any socket.
type plainConn struct {
	net.PacketConn
	socket *Socket
}

// ReadFrom returns the next packet that is for QUIC.
func (c *plainConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	for {
		begin := time.Now()
		n, from, err = c.PacketConn.ReadFrom(p)
		now := time.Now()
		c.socket.reader.noteRead(begin, now)
		if err != nil {
			if c.socket.reader.goesOn(now, err) {
				continue
			}
			return n, from, err
		}
		c.socket.reader.succeeded()
		if c.socket.forQUIC(now, udp.AddrPort(from), p[:n]) {
			return n, from, nil
		}
		c.socket.reader.serve(now)
	}
}

// Unsent returns why the system refused the newest packet of QUIC's; nil if it did not.
func (c *plainConn) Unsent() error {
	if err := c.socket.unsent.Load(); err != nil {
		return *err
	}
	return nil
}

// WriteTo sends a packet of QUIC's.
func (c *plainConn) WriteTo(p []byte, to net.Addr) (n int, err error) {
	return c.socket.send(p, to, func(to net.Addr) (int, error) { return c.PacketConn.WriteTo(p, to) })
}

// sizedConn is the QUIC side of a system's socket that is not a *net.UDPConn.
type sizedConn struct {
	*plainConn
	udp.SystemConn
}

// batchReader is the part of ipv4.PacketConn that reads, for sockets of both families.
type batchReader interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
}

// udpConn is the QUIC side of a *net.UDPConn.
type udpConn struct {
	sizedConn
	udp   *net.UDPConn
	batch batchReader
}

func newUDPConn(plain *plainConn, u *net.UDPConn) *udpConn {
	return &udpConn{sizedConn: sizedConn{plain, u}, udp: u, batch: ipv4.NewPacketConn(u)}
}

// WriteMsgUDP sends a packet of QUIC's, or several.
func (c *udpConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, err = c.socket.send(b, addr, func(to net.Addr) (n int, err error) {
		n, oobn, err = c.udp.WriteMsgUDP(b, oob, to.(*net.UDPAddr))
		return n, err
	})
	return n, oobn, err
}

// ReadMsgUDP returns the next packet that is for QUIC.
func (c *udpConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	return readMsg(c, b, oob)
}

// readMsg reads a batch of one packet.
func readMsg(c batchReader, b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	m := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err := c.ReadBatch(m, 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = m[0].Addr.(*net.UDPAddr)
	return m[0].N, m[0].NN, m[0].Flags, addr, nil
}

// ReadBatch fills the first of ms with at least one packet for QUIC, or returns an error. It never returns an empty batch: quic-go
// would parse what lay in ms before. It does so after some errors, too, so then ReadBatch empties ms.
func (c *udpConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		begin := time.Now()
		n, err := c.batch.ReadBatch(ms, flags)
		now := time.Now()
		if err != nil {
			if c.socket.reader.goesOn(now, err) {
				continue
			}
			empty(ms)
			return 0, err
		}
		c.socket.reader.succeeded()
		c.socket.reader.noteRead(begin, now)
		n = c.keep(ms[:n], now)
		c.socket.reader.serve(now)
		if n > 0 {
			return n, nil
		}
	}
}

// keep moves the packets for QUIC to the front and routes the others.
func (c *udpConn) keep(ms []ipv4.Message, now time.Time) (n int) {
	for i := range ms {
		m := &ms[i]
		if !c.socket.forQUIC(now, udp.AddrPort(m.Addr), m.Buffers[0][:m.N]) {
			continue
		}
		if n < i {
			moveDown(&ms[n], m)
		}
		n++
	}
	return n
}

// moveDown copies a packet into the buffer of an earlier message. It does not swap buffers: quic-go remembers where each one is.
func moveDown(to, from *ipv4.Message) {
	to.N = copy(to.Buffers[0], from.Buffers[0][:from.N])
	to.NN = copy(to.OOB, from.OOB[:from.NN])
	to.Addr, to.Flags = from.Addr, from.Flags
}

func empty(ms []ipv4.Message) {
	for i := range ms {
		ms[i].N, ms[i].NN = 0, 0
	}
}
