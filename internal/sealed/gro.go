package sealed

import (
	"net"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/udp"
)

// joinedReader is a [udp.Reader].
type joinedReader interface {
	Read() (ms []udp.Message, waited bool, err error)
}

// groConn is a udpConn for which the kernel joins packets. It splits them, since one joined packet may hold packets for QUIC and packets for
// carriers. Only one goroutine, quic-go's reader, may read; all fields belong to it.
type groConn struct {
	*udpConn
	joined   joinedReader
	left     []udp.Message // read, with packets that were not handed out yet
	rest     []byte        // bytes of left[0] that were not handed out yet
	size     int           // size of each packet in rest; the last may be shorter
	readTime time.Time     // when left was read
}

// ReadFrom returns the next packet that is for QUIC.
func (c *groConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	n, _, _, addr, err := c.ReadMsgUDP(p, nil)
	if err != nil {
		return n, nil, err
	}
	return n, addr, nil
}

// ReadMsgUDP returns the next packet that is for QUIC.
func (c *groConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	return readMsg(c, b, oob)
}

// ReadBatch waits for packets for QUIC, stores as many as there are in ms, and returns their number. An error comes without packets.
func (c *groConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
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
			empty(ms)
			return 0, err
		}
	}
}

// fill waits for joined packets and reads them.
func (c *groConn) fill() error {
	left, waited, err := c.joined.Read()
	for err != nil && c.socket.reader.goesOn(time.Now(), err) {
		left, waited, err = c.joined.Read()
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
func (c *groConn) beginMessage() {
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
func (c *groConn) split(to *ipv4.Message) (isQUIC bool) {
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
