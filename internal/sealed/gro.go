package sealed

import (
	"net"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// groBuffers is how many joined packets of up to groBytes one call reads. With UDP GRO (udp(7), UDP_GRO) the kernel joins packets of
	// one flow and one size that came in a row.
	groBuffers = 4
	groBytes   = 64 << 10
	groOOB     = 128 // out-of-band bytes for ECN and segment size; the size that quic-go uses
)

// groMessages holds the buffers for one read, 256 KiB. A socket takes them when there is something to read, and returns them when it has
// handed out every packet.
var groMessages = sync.Pool{New: func() any {
	ms := new([groBuffers]ipv4.Message)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, groBytes)}
	}
	return ms
}}

// groConn is a udpConn for which the kernel joins packets. It reads them into buffers of its own and splits them, since one joined packet
// may hold packets for QUIC and packets for carriers. Only one goroutine, quic-go's reader, may read; all fields belong to it.
type groConn struct {
	*udpConn
	joined   *[groBuffers]ipv4.Message // buffers of the last read; nil while groConn waits for packets
	oob      [groBuffers][groOOB]byte  // out-of-band bytes of joined
	left     []ipv4.Message            // messages of joined with packets that were not handed out yet
	rest     []byte                    // bytes of left[0] that were not handed out yet
	size     int                       // size of each packet in rest; the last may be shorter
	readTime time.Time                 // when joined was read

	asked      bool                  // await has called isReadable since it began
	waited     bool                  // in await
	isReadable func(fd uintptr) bool // checkReadable, bound once, so that await allocates nothing
}

func newGROConn(u *udpConn) *groConn {
	c := &groConn{udpConn: u}
	c.isReadable = c.checkReadable
	return c
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
func (c *groConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
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
		if err := c.fill(flags); err != nil {
			empty(ms)
			return 0, err
		}
	}
}

// fill waits for joined packets and reads them into joined.
func (c *groConn) fill(flags int) error {
	c.giveBack()
	if err := c.await(); err != nil {
		return err
	}
	c.joined = groMessages.Get().(*[groBuffers]ipv4.Message)
	for i := range c.joined {
		c.joined[i].OOB = c.oob[i][:]
	}
	n, err := c.batch.ReadBatch(c.joined[:], flags)
	if err != nil {
		c.giveBack()
		return err
	}
	c.left = c.joined[:n]
	if c.readTime = time.Now(); c.waited {
		c.socket.reader.waited = c.readTime
	}
	c.beginMessage()
	return nil
}

// giveBack returns the buffers to groMessages, once all of their packets were handed out.
func (c *groConn) giveBack() {
	if c.joined != nil {
		groMessages.Put(c.joined)
		c.joined, c.left, c.rest = nil, nil, nil
	}
}

// await waits until there is something to read. It holds no buffers meanwhile.
func (c *groConn) await() error {
	if c.socket.sys.Raw == nil {
		return nil
	}
	c.asked, c.waited = false, false
	return c.socket.sys.Raw.Read(c.isReadable)
}

// checkReadable reports whether there is something to read. RawConn.Read calls it again only after the poller has seen packets or an
// error, so the second call reports true.
func (c *groConn) checkReadable(fd uintptr) bool {
	again := c.asked
	c.asked, c.waited = true, again
	return again || udp.IsReadable(fd)
}

// beginMessage makes the packets of left[0] the next that split takes.
func (c *groConn) beginMessage() {
	if len(c.left) == 0 {
		return
	}
	m := &c.left[0]
	c.rest = m.Buffers[0][:m.N]
	if c.size = udp.SegmentSize(m.OOB[:m.NN]); c.size <= 0 || c.size > m.N {
		c.size = m.N
	}
}

// split takes the next packet out of rest. It copies a packet for QUIC into to, and hands a sealed one to its carrier.
func (c *groConn) split(to *ipv4.Message) (isQUIC bool) {
	m := &c.left[0]
	p := c.rest[:min(c.size, len(c.rest))]
	if isQUIC = len(p) > 0 && c.socket.forQUIC(c.readTime, m.Addr, p); isQUIC {
		to.N = copy(to.Buffers[0], p)
		to.NN = copy(to.OOB, m.OOB[:m.NN])
		to.Addr, to.Flags = m.Addr, m.Flags
	}
	if c.rest = c.rest[len(p):]; len(c.rest) == 0 {
		c.left = c.left[1:]
		c.beginMessage()
	}
	return isQUIC
}
