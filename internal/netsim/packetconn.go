package netsim

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// readBuffer is the default size of a PacketConn's read buffer in bytes; SetReadBuffer changes it.
	readBuffer = 1 << 20
	// maxDatagram is the most that fits a UDP datagram over IPv4.
	maxDatagram = 65535 - UDPOverhead
)

var errBuffers = errors.New("netsim: no raw connection before SetReadBuffer and SetWriteBuffer")

// PacketConn is an emulated UDP socket. It owns no goroutine and no descriptor: packets wait in the links that lead here
// until a reader's timer says that they have arrived. All methods may be called concurrently.
//
// It reads the clock of package time only, and readers wait on channels and timers only, so that it runs in the fake
// time of a testing/synctest bubble, if it was made in that bubble, as well as in real time.
type PacketConn struct {
	addr   *net.UDPAddr
	done   chan struct{}
	closed atomic.Bool

	routes sync.RWMutex
	paths  map[netip.AddrPort]*Path // from this socket, by destination

	// Reading: mu guards what follows, and the links of the paths in.
	mu           sync.Mutex
	in           []*Path // to this socket
	inbox        inbox
	sleepers     sleepers
	readDeadline time.Time // zero = none

	writeDeadline atomic.Pointer[time.Time] // nil = none

	sized [2]atomic.Bool // SetReadBuffer, SetWriteBuffer were called
}

// hosts counts the emulated sockets of the process, so that each has an address of its own.
var hosts atomic.Uint32

// NewPacketConn returns a socket that reaches nobody yet, with an address of its own in 10.0.0.0/8.
func NewPacketConn() *PacketConn {
	n := hosts.Add(1)
	return &PacketConn{
		addr:     &net.UDPAddr{IP: net.IPv4(10, byte(n>>16), byte(n>>8), byte(n)), Port: 4433},
		done:     make(chan struct{}),
		paths:    make(map[netip.AddrPort]*Path),
		inbox:    inbox{limit: readBuffer},
		sleepers: newSleepers(),
	}
}

// ReadFrom waits for the next packet that arrives. It cuts off what does not fit p.
func (c *PacketConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.sleepers.wakeOne()
	for {
		now := time.Now()
		if err := c.readable(now); err != nil {
			return 0, nil, c.fail("read", err)
		}
		next := c.collect(now)
		if d, ok := c.inbox.take(); ok {
			n = copy(p, d.data)
			c.inbox.recycle(d.data)
			return n, d.from, nil
		}
		c.wait(now, next)
	}
}

// readable returns the error of a read from a socket that is closed or whose read deadline has passed. The caller holds mu.
func (c *PacketConn) readable(now time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	if !c.readDeadline.IsZero() && !now.Before(c.readDeadline) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// collect moves what has arrived by now into the inbox and returns when the next packet arrives; zero = none under way. The caller holds mu.
func (c *PacketConn) collect(now time.Time) (next time.Time) {
	var first recovery.Earliest
	for _, path := range c.in {
		path.arrive(now)
		first.Add(path.link.NextTimeout())
	}
	next, _ = first.Time()
	return next
}

// wait releases mu until something may have changed: a packet arrives at next, the read deadline passes, the connection is closed, or another
// goroutine passes on the token.
func (c *PacketConn) wait(now, next time.Time) {
	if !c.readDeadline.IsZero() && (next.IsZero() || c.readDeadline.Before(next)) {
		next = c.readDeadline
	}
	c.sleepers.arm(now, next)
	c.sleepers.count++
	c.mu.Unlock()
	select {
	case <-c.sleepers.timer.C:
	case <-c.sleepers.wake:
	case <-c.done:
	}
	c.mu.Lock()
	c.sleepers.count--
}

// WriteTo sends a copy of p to a PacketConn that Connect or Pipe joined to this one. It never blocks. As with UDP, only the counters tell
// what became of a packet, even of one to an unknown address.
func (c *PacketConn) WriteTo(p []byte, addr net.Addr) (n int, err error) {
	if c.closed.Load() {
		return 0, c.fail("write", net.ErrClosed)
	}
	if d := c.writeDeadline.Load(); d != nil && !time.Now().Before(*d) {
		return 0, c.fail("write", os.ErrDeadlineExceeded)
	}
	if len(p) > maxDatagram {
		return 0, c.fail("write", syscall.EMSGSIZE)
	}
	if path := c.route(addr); path != nil {
		path.send(p)
	}
	return len(p), nil
}

// NeverBlocks tells those who look for it that WriteTo may be called where nobody may wait.
func (c *PacketConn) NeverBlocks() {}

// LocalAddr returns a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return c.addr }

// Close ends waiting reads. Packets under way vanish.
func (c *PacketConn) Close() error {
	if c.closed.Swap(true) {
		return c.fail("close", net.ErrClosed)
	}
	close(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox.clear()
	return nil
}

func (c *PacketConn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

func (c *PacketConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	c.sleepers.wakeOne()
	return nil
}

func (c *PacketConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.writeDeadline.Store(nil)
	} else {
		c.writeDeadline.Store(&t)
	}
	return nil
}

// SetReadBuffer sets how many bytes may have arrived unread; packets that find no room are dropped as Overrun.
func (c *PacketConn) SetReadBuffer(bytes int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox.limit = bytes
	c.sized[0].Store(true)
	return nil
}

// SetWriteBuffer has no effect: a write goes straight into the link.
func (c *PacketConn) SetWriteBuffer(int) error {
	c.sized[1].Store(true)
	return nil
}

// SyscallConn makes quic-go look for the path MTU, which it does on connections where it could set "don't fragment": the
// raw connection accepts every control function and calls none. Before both buffers were sized it returns an error: otherwise
// quic-go would read their sizes from the kernel.
func (c *PacketConn) SyscallConn() (syscall.RawConn, error) {
	if !c.sized[0].Load() || !c.sized[1].Load() {
		return nil, errBuffers
	}
	return noSocket{}, nil
}

type noSocket struct{}

func (noSocket) Control(func(fd uintptr)) error    { return nil }
func (noSocket) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (noSocket) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

func (c *PacketConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.addr, Err: err}
}

// To returns the path that leads from here to a peer; nil when they are not joined.
func (c *PacketConn) To(peer *PacketConn) *Path { return c.route(peer.addr) }

// route returns the path to an address; nil when there is none.
func (c *PacketConn) route(addr net.Addr) *Path {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil
	}
	c.routes.RLock()
	defer c.routes.RUnlock()
	return c.paths[key(udp)]
}

func key(a *net.UDPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
