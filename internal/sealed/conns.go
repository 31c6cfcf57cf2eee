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

// udpConn is the QUIC side of a *net.UDPConn. Where the kernel joins packets it splits them, since one joined packet may hold packets for QUIC and
// packets for carriers. Only one goroutine, quic-go's reader, may read; the fields of reading belong to it.
type udpConn struct {
	sizedConn
	udp *net.UDPConn

	// Reading.
	reader   packetReader
	left     []udp.Message // read, with packets that were not handed out yet
	rest     []byte        // bytes of left[0] that were not handed out yet
	size     int           // size of each packet in rest; the last may be shorter
	readTime time.Time     // when left was read
}

// packetReader is a [udp.Reader].
type packetReader interface {
	Read() (ms []udp.Message, waited bool, err error)
}

// WriteMsgUDP sends a packet of QUIC's, or several.
func (c *udpConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, err = c.socket.send(b, addr, func(to net.Addr) (n int, err error) {
		n, oobn, err = c.udp.WriteMsgUDP(b, oob, to.(*net.UDPAddr))
		return n, err
	})
	return n, oobn, err
}

// ReadFrom returns the next packet that is for QUIC.
func (c *udpConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	n, _, _, addr, err := c.ReadMsgUDP(p, nil)
	if err != nil {
		return n, nil, err
	}
	return n, addr, nil
}

// ReadMsgUDP returns the next packet that is for QUIC.
func (c *udpConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	m := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err := c.ReadBatch(m, 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = m[0].Addr.(*net.UDPAddr)
	return m[0].N, m[0].NN, m[0].Flags, addr, nil
}

// ReadBatch waits for packets for QUIC, stores as many as there are in ms, and returns their number. It never returns an empty batch: quic-go would
// parse what lay in ms before. It does so after some errors, too, so then ReadBatch empties ms.
func (c *udpConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	for n := 0; ; {
		for len(c.left) > 0 && n < len(ms) {
			if c.split(&ms[n]) {
				n++
			}
		}
		c.socket.reader.serve(c.readTime)
		if n > 0 {
			return n, nil
		}
		if err := c.fill(); err != nil {
			for i := range ms {
				ms[i].N, ms[i].NN = 0, 0
			}
			return 0, err
		}
	}
}

// fill waits for packets and reads them.
func (c *udpConn) fill() error {
	left, waited, err := c.reader.Read()
	for err != nil && c.socket.reader.goesOn(time.Now(), err) {
		left, waited, err = c.reader.Read()
	}
	if err != nil {
		return err
	}
	c.socket.reader.succeeded()
	c.left = left
	if c.readTime = time.Now(); waited {
		c.socket.reader.waited = c.readTime
	}
	c.beginMessage()
	return nil
}

// beginMessage makes the packets of left[0] the next that split takes.
func (c *udpConn) beginMessage() {
	if len(c.left) == 0 {
		return
	}
	m := &c.left[0]
	c.rest = m.Data
	if c.size = udp.SegmentSize(m.OOB); c.size <= 0 || c.size > len(m.Data) {
		c.size = len(m.Data)
	}
}

// split takes the next packet out of rest. It copies a packet for QUIC into to, and hands a sealed one to its carrier.
func (c *udpConn) split(to *ipv4.Message) (isQUIC bool) {
	m := &c.left[0]
	p := c.rest[:min(c.size, len(c.rest))]
	if isQUIC = len(p) > 0 && c.socket.forQUIC(c.readTime, m.From, p); isQUIC {
		to.N = copy(to.Buffers[0], p)
		to.NN = copy(to.OOB, m.OOB)
		to.Addr, to.Flags = net.UDPAddrFromAddrPort(m.From), 0
	}
	if c.rest = c.rest[len(p):]; len(c.rest) == 0 {
		c.left = c.left[1:]
		c.beginMessage()
	}
	return isQUIC
}
