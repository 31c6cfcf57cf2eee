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
	// readBuffer is the size of a PacketConn's read buffer in bytes, unless SetReadBuffer
	// changes it.
	readBuffer = 1 << 20
	// maxDatagram is the largest payload of a UDP datagram over IPv4, whose 16-bit length
	// field includes the headers.
	maxDatagram = 65535 - UDPOverhead
)

var errBuffers = errors.New("netsim: SyscallConn called before SetReadBuffer and SetWriteBuffer")

// A PacketConn is an emulated UDP socket.
//
// It needs neither a goroutine nor a file descriptor, because packets stay in the links that lead
// to the socket until a reader collects them. A reader sleeps until the next one is due to arrive.
//
// A PacketConn works in real time, or in the fake time of a testing/synctest bubble if it was made
// inside one. To make that possible, it takes the time only from package time, and its readers
// block only on channels and timers. All methods may be called concurrently.
type PacketConn struct {
	addr   *net.UDPAddr
	done   chan struct{}
	closed atomic.Bool

	routes sync.RWMutex
	paths  map[netip.AddrPort]*Path // paths from this socket, by destination; guarded by routes

	// Reading. mu guards these fields and the links of the paths in in.
	mu           sync.Mutex
	in           []*Path // paths to this socket
	inbox        inbox
	sleepers     sleepers
	readDeadline time.Time // zero if there is none

	writeDeadline atomic.Pointer[time.Time] // nil if there is none

	readSized, writeSized atomic.Bool // SetReadBuffer and SetWriteBuffer were called; for SyscallConn
}

// hosts counts the sockets of this process, so that each gets an address of its own.
var hosts atomic.Uint32

// NewPacketConn returns a socket with an address of its own in 10.0.0.0/8. It has no paths until
// Connect joins it to another socket.
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

// ReadFrom blocks until a packet has arrived and copies it to p. If p is too short, the rest
// of the packet is lost, as with UDP.
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

// readable returns an error if the socket is closed or its read deadline has passed. The
// caller holds mu.
func (c *PacketConn) readable(now time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	if !c.readDeadline.IsZero() && !now.Before(c.readDeadline) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// collect moves the packets that have arrived by now into the inbox. It returns when the next one
// will arrive, or the zero time if none is in flight. The caller holds mu.
func (c *PacketConn) collect(now time.Time) (next time.Time) {
	var first recovery.Earliest
	for _, path := range c.in {
		path.arrive(now)
		first.Add(path.link.NextTimeout())
	}
	next, _ = first.Time()
	return next
}

// wait blocks until time next, the read deadline, the end of the socket or a call of
// sleepers.wakeOne, whichever comes first. The caller holds mu, which wait releases while it
// blocks.
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

// WriteTo sends a copy of p to a PacketConn that Connect or Pipe joined to this one. It never
// blocks.
//
// As with UDP, it is no error if a packet is dropped or its address is unknown. Path.Stats counts
// the packets dropped on a path.
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

// NeverBlocks does nothing. It is there for callers that test for this method, to find out whether
// they may hold a lock while they call WriteTo.
func (c *PacketConn) NeverBlocks() {}

// LocalAddr returns the socket's address, a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return c.addr }

// Close unblocks all reads, which then return net.ErrClosed. Packets in flight to the socket
// are lost.
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

// SetDeadline implements net.PacketConn.
func (c *PacketConn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetReadDeadline implements net.PacketConn. It wakes a waiting reader.
func (c *PacketConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	c.sleepers.wakeOne()
	return nil
}

// SetWriteDeadline implements net.PacketConn.
func (c *PacketConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.writeDeadline.Store(nil)
	} else {
		c.writeDeadline.Store(&t)
	}
	return nil
}

// SetReadBuffer limits how many bytes of arrived packets may wait for a read. A packet that does
// not fit is dropped and counted in Stats.Overrun.
func (c *PacketConn) SetReadBuffer(bytes int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox.limit = bytes
	c.readSized.Store(true)
	return nil
}

// SetWriteBuffer has no effect, because a write goes straight into the link.
func (c *PacketConn) SetWriteBuffer(int) error {
	c.writeSized.Store(true)
	return nil
}

// SyscallConn returns a raw connection whose Control succeeds without calling its function. That
// makes quic-go believe that it has set "don't fragment", so it discovers the path MTU.
//
// SyscallConn returns an error until SetReadBuffer and SetWriteBuffer have been called, because
// quic-go would otherwise ask the kernel for the sizes of the buffers.
func (c *PacketConn) SyscallConn() (syscall.RawConn, error) {
	if !c.readSized.Load() || !c.writeSized.Load() {
		return nil, errBuffers
	}
	return noSocket{}, nil
}

// noSocket is the raw connection of a socket that has no file descriptor.
type noSocket struct{}

func (noSocket) Control(func(fd uintptr)) error    { return nil }
func (noSocket) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (noSocket) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// fail wraps err in a net.OpError, as package net would.
func (c *PacketConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.addr, Err: err}
}

// To returns the path from c to peer, or nil if they aren't joined.
func (c *PacketConn) To(peer *PacketConn) *Path { return c.route(peer.addr) }

// route returns the path to addr, or nil if there is none.
func (c *PacketConn) route(addr net.Addr) *Path {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil
	}
	c.routes.RLock()
	defer c.routes.RUnlock()
	return c.paths[key(udp)]
}

// key returns a as a key of PacketConn.paths, with an IPv4 address in its 4-byte form.
func key(a *net.UDPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
