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
	groOOB     = 128 // as quic-go: address, ECN and segment size
)

// groMessages are the buffers for one read, 256 KiB. A socket has them only while there is something to read.
var groMessages = sync.Pool{New: func() any {
	ms := new([groBuffers]ipv4.Message)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, groBytes)}
	}
	return ms
}}

// groConn is a udpConn whose kernel joins packets. It reads into buffers of its own and splits them: packets for QUIC and for carriers
// may come joined. Only one goroutine may read.
type groConn struct {
	*udpConn
	joined *[groBuffers]ipv4.Message // nil while it waits for packets
	oob    [groBuffers][groOOB]byte
	left   []ipv4.Message // of joined: not all handed out yet
	rest   []byte         // of left[0]: not handed out yet
	size   int            // of each packet in rest; the last may be shorter
	read   time.Time      // when joined was read

	waited   bool                  // isReadable was called before in this await
	readable func(fd uintptr) bool // isReadable, made once
}

func newGROConn(u *udpConn) *groConn {
	c := &groConn{udpConn: u}
	c.readable = c.isReadable
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
	m := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err := c.ReadBatch(m, 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = m[0].Addr.(*net.UDPAddr)
	return m[0].N, m[0].NN, m[0].Flags, addr, nil
}

// ReadBatch fills the first of ms with packets that are for QUIC, at least one, or returns an error.
func (c *groConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for n := 0; ; {
		for len(c.left) > 0 && n < len(ms) {
			if c.split(&ms[n]) {
				n++
			}
		}
		if n > 0 {
			return n, nil
		}
		if err := c.fill(flags); err != nil {
			empty(ms)
			return 0, err
		}
	}
}

// fill waits for packets and reads them.
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
	c.read = time.Now()
	c.begin()
	return nil
}

// giveBack returns the buffers, of which all packets were handed out.
func (c *groConn) giveBack() {
	if c.joined != nil {
		groMessages.Put(c.joined)
		c.joined, c.left, c.rest = nil, nil, nil
	}
}

// await waits until there is something to read, before any buffer is taken.
func (c *groConn) await() error {
	if c.socket.sys.Raw == nil {
		return nil
	}
	c.waited = false
	return c.socket.sys.Raw.Read(c.readable)
}

// isReadable reports whether there is something to read. The second call of an await is always true: the poller has found that there
// is.
func (c *groConn) isReadable(fd uintptr) bool {
	was := c.waited
	c.waited = true
	return was || udp.IsReadable(fd)
}

// begin begins to split the next joined packet.
func (c *groConn) begin() {
	if len(c.left) == 0 {
		return
	}
	m := &c.left[0]
	c.rest = m.Buffers[0][:m.N]
	if c.size = udp.SegmentSize(m.OOB[:m.NN]); c.size <= 0 || c.size > m.N {
		c.size = m.N
	}
}

// split takes one packet off a joined one. It copies a packet for QUIC to to, and routes any other to its carrier.
func (c *groConn) split(to *ipv4.Message) (isQUIC bool) {
	m := &c.left[0]
	p := c.rest[:min(c.size, len(c.rest))]
	if isQUIC = len(p) > 0 && !isSealed(p); isQUIC {
		to.N = copy(to.Buffers[0], p)
		to.NN = copy(to.OOB, m.OOB[:m.NN])
		to.Addr, to.Flags = m.Addr, m.Flags
	} else if len(p) > 0 {
		c.socket.route(c.read, m.Addr, p)
	}
	if c.rest = c.rest[len(p):]; len(c.rest) == 0 {
		c.left = c.left[1:]
		c.begin()
	}
	return isQUIC
}
