package netsim

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// An Emulated is a kernel socket behind an emulated path. Packets that are written pass through one
// link before the socket sends them, and packets that the socket receives pass through another
// before they can be read. It works in real time. All methods may be called concurrently.
type Emulated struct {
	net.PacketConn

	// Writing.
	out struct {
		sync.Mutex
		link   *Link
		timer  *time.Timer // calls flush when the next packet reaches the end of the link
		closed bool
	}

	// Reading.
	reading sync.Mutex // held throughout ReadFrom, so that one goroutine reads at a time
	buffer  []byte     // guarded by reading
	in      struct {
		sync.Mutex
		link     *Link
		deadline time.Time // set by SetReadDeadline; zero if there is none
	}
}

// Emulate puts two links in front of a socket, which then belongs to the Emulated. It panics if a
// Config is invalid.
func Emulate(socket net.PacketConn, out, in Config) *Emulated {
	e := &Emulated{PacketConn: socket, buffer: make([]byte, maxDatagram)}
	e.out.link = newLink(out, 1)
	e.in.link = newLink(in, 2)
	e.out.timer = time.AfterFunc(time.Hour, e.flush)
	e.out.timer.Stop() // until flush finds a packet to wait for
	return e
}

// Set changes both links for packets from now on. It panics if a Config is invalid.
func (e *Emulated) Set(out, in Config) {
	e.out.Lock()
	e.out.link.SetConfig(out)
	e.out.Unlock()
	e.in.Lock()
	e.in.link.SetConfig(in)
	e.in.Unlock()
}

// WriteTo puts a copy of p into the link. If the socket later fails to send it, the packet is lost
// without an error.
func (e *Emulated) WriteTo(p []byte, addr net.Addr) (int, error) {
	to, err := copyAddr(addr)
	if err != nil {
		return 0, err
	}
	if len(p) > maxDatagram {
		return 0, syscall.EMSGSIZE
	}
	if !e.send(slices.Clone(p), to) {
		return 0, net.ErrClosed
	}
	e.flush() // sets the timer, or sends the packet right away if the link has no delay
	return len(p), nil
}

// send puts a packet into the link. It returns false if the Emulated is closed.
func (e *Emulated) send(packet []byte, to *net.UDPAddr) (open bool) {
	e.out.Lock()
	defer e.out.Unlock()
	if !e.out.closed {
		e.out.link.send(time.Now(), packet, to)
	}
	return !e.out.closed
}

// flush sends the packets that have passed the link, and sets the timer for the next one.
func (e *Emulated) flush() {
	e.out.Lock()
	defer e.out.Unlock()
	now := time.Now()
	for {
		packet, to, ok := e.out.link.deliver(now)
		if !ok {
			break
		}
		_, _ = e.PacketConn.WriteTo(packet, to)
	}
	if at, ok := e.out.link.NextTimeout(); ok && !e.out.closed {
		e.out.timer.Reset(time.Until(at))
	}
}

// ReadFrom waits for the next packet that has passed the link. While it waits, it reads from the
// socket into the link, with a read deadline that wakes it for the packet that leaves the link
// next.
func (e *Emulated) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	for {
		if n, from := e.take(p); from != nil {
			return n, from, nil
		}
		n, from, err := e.PacketConn.ReadFrom(e.buffer)
		switch {
		case err == nil:
			e.receive(n, from)
		case !errors.Is(err, os.ErrDeadlineExceeded) || e.expired():
			return 0, nil, err
		default:
			// The deadline was ours, so a packet should have passed the link.
		}
	}
}

// take copies the next packet that has passed the link to p. If there is none yet, it returns a nil
// address, and sets the socket's deadline so that we wake up for the next one.
func (e *Emulated) take(p []byte) (n int, from net.Addr) {
	e.in.Lock()
	defer e.in.Unlock()
	if packet, addr, ok := e.in.link.deliver(time.Now()); ok {
		return copy(p, packet), addr
	}
	_ = e.setWake()
	return 0, nil
}

// setWake sets the socket's read deadline to the reader's own deadline or to when the next packet
// passes the link, whichever comes first. The caller holds the lock of in.
func (e *Emulated) setWake() error {
	wake := e.in.deadline
	if at, ok := e.in.link.NextTimeout(); ok && (wake.IsZero() || at.Before(wake)) {
		wake = at
	}
	return e.PacketConn.SetReadDeadline(wake)
}

// receive puts the first n bytes of the buffer into the link.
func (e *Emulated) receive(n int, from net.Addr) {
	addr, err := copyAddr(from)
	if err != nil {
		return
	}
	e.in.Lock()
	defer e.in.Unlock()
	e.in.link.send(time.Now(), slices.Clone(e.buffer[:n]), addr)
}

// expired reports whether the reader's own deadline has passed.
func (e *Emulated) expired() bool {
	e.in.Lock()
	defer e.in.Unlock()
	return !e.in.deadline.IsZero() && !time.Now().Before(e.in.deadline)
}

// SetReadDeadline implements net.PacketConn. It also wakes a waiting reader.
func (e *Emulated) SetReadDeadline(t time.Time) error {
	e.in.Lock()
	defer e.in.Unlock()
	e.in.deadline = t
	return e.setWake()
}

// SetDeadline implements net.PacketConn.
func (e *Emulated) SetDeadline(t time.Time) error {
	_ = e.SetWriteDeadline(t)
	return e.SetReadDeadline(t)
}

// Close closes the socket and drops the packets in the outgoing link.
func (e *Emulated) Close() error {
	e.out.Lock()
	e.out.closed = true
	e.out.timer.Stop()
	e.out.Unlock()
	return e.PacketConn.Close()
}

// Conn returns the Emulated as a net.PacketConn, which has methods for socket options only if the
// socket has them. That matters because quic-go calls whatever methods it finds, and can't handle
// an error from SyscallConn.
func (e *Emulated) Conn() net.PacketConn {
	if options, ok := e.PacketConn.(kernelSocket); ok {
		return emulatedKernel{e, options}
	}
	return e
}

// emulatedKernel is an Emulated in front of a kernel socket.
type emulatedKernel struct {
	*Emulated
	kernelSocket // the socket itself; reads and writes through SyscallConn bypass the links
}

// kernelSocket has the methods of a kernel socket that net.PacketConn lacks.
type kernelSocket interface {
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	syscall.Conn
}

// copyAddr returns a copy of an address, which the link may retain.
func copyAddr(addr net.Addr) (*net.UDPAddr, error) {
	at, err := netip.ParseAddrPort(addr.String())
	return net.UDPAddrFromAddrPort(at), err
}
