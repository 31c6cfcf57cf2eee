package sealed

import (
	"net"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// groBuffers packets of groBytes each are read in one call. With UDP GRO the kernel hands over packets that came one
	// behind the other as one of up to 64 KiB.
	groBuffers = 4
	groBytes   = 64 << 10
	groOOB     = 128 // as quic-go: address, ECN and segment size
)

// groMessages are what is read into. A socket has them while there is something to read: they are 256 KiB.
var groMessages = sync.Pool{New: func() any {
	ms := new([groBuffers]ipv4.Message)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, groBytes)}
	}
	return ms
}}

// groConn is a udpConn whose kernel joins packets. It reads into buffers of its own and splits for QUIC and for carriers,
// whose packets of one length may come joined. It is for one reader.
type groConn struct {
	*udpConn
	joined *[groBuffers]ipv4.Message // nil while it waits
	oob    [groBuffers][groOOB]byte
	left   []ipv4.Message // of joined, not handed out
	rest   []byte         // of left[0], not handed out
	size   int            // of the packets in rest
	read   time.Time

	waited   bool                  // await has
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

func (c *groConn) giveBack() {
	if c.joined != nil {
		groMessages.Put(c.joined)
		c.joined, c.left, c.rest = nil, nil, nil
	}
}

// await returns when there is something to read.
func (c *groConn) await() error {
	if c.socket.sys.Raw == nil {
		return nil
	}
	c.waited = false
	return c.socket.sys.Raw.Read(c.readable)
}

// isReadable reports whether there is something to read, or the system has just said so.
func (c *groConn) isReadable(fd uintptr) bool {
	was := c.waited
	c.waited = true
	return was || udp.IsReadable(fd)
}

// begin takes the next joined packet.
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

// split takes one packet off the joined ones: into to when it is for QUIC, else to its carrier.
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
