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

// Emulated is a socket of the kernel behind two links in real time: packets that are written wait in one, packets that are read in the
// other. All methods may be called concurrently.
type Emulated struct {
	net.PacketConn

	out struct {
		sync.Mutex
		link   *Link
		timer  *time.Timer // sends what has arrived at the end of the link
		closed bool
	}

	reading sync.Mutex // one reader at a time; guards buffer
	buffer  []byte
	in      struct {
		sync.Mutex
		link     *Link
		deadline time.Time // of the caller
	}
}

// Emulate puts two links before a socket, which belongs to the Emulated from then on. It panics if a Config is not valid.
func Emulate(socket net.PacketConn, out, in Config) *Emulated {
	e := &Emulated{PacketConn: socket, buffer: make([]byte, maxDatagram)}
	e.out.link, e.in.link = newLink(out, 1), newLink(in, 2)
	e.out.timer = time.AfterFunc(time.Hour, e.flush)
	e.out.timer.Stop()
	return e
}

// Set changes both links for packets that come from now on. It panics if a Config is not valid.
func (e *Emulated) Set(out, in Config) {
	e.out.Lock()
	e.out.link.SetConfig(out)
	e.out.Unlock()
	e.in.Lock()
	e.in.link.SetConfig(in)
	e.in.Unlock()
}

// WriteTo gives a copy of p to the link. An error of the socket, later, counts as loss.
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
	e.flush()
	return len(p), nil
}

func (e *Emulated) send(packet []byte, to *net.UDPAddr) (open bool) {
	e.out.Lock()
	defer e.out.Unlock()
	if !e.out.closed {
		e.out.link.send(time.Now(), packet, to)
	}
	return !e.out.closed
}

// flush sends what has come through the link, and sets the timer for what comes next.
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

// ReadFrom waits for the next packet that comes through the link.
func (e *Emulated) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	for {
		if n, from := e.arrived(p); from != nil {
			return n, from, nil
		}
		n, from, err := e.PacketConn.ReadFrom(e.buffer)
		switch {
		case err == nil:
			e.arrive(n, from)
		case !errors.Is(err, os.ErrDeadlineExceeded) || e.expired():
			return 0, nil, err
		}
	}
}

// arrived copies the next packet that has come through the link into p. Without one it makes the socket read until one has.
func (e *Emulated) arrived(p []byte) (n int, from net.Addr) {
	e.in.Lock()
	defer e.in.Unlock()
	if packet, addr, ok := e.in.link.deliver(time.Now()); ok {
		return copy(p, packet), addr
	}
	_ = e.setWake()
	return 0, nil
}

// setWake makes the socket stop reading at the caller's deadline, or when the next packet comes through the link. The caller holds the
// lock of in.
func (e *Emulated) setWake() error {
	wake := e.in.deadline
	if at, ok := e.in.link.NextTimeout(); ok && (wake.IsZero() || at.Before(wake)) {
		wake = at
	}
	return e.PacketConn.SetReadDeadline(wake)
}

// arrive gives the link the n bytes that were read into the buffer.
func (e *Emulated) arrive(n int, from net.Addr) {
	addr, err := copyAddr(from)
	if err != nil {
		return
	}
	e.in.Lock()
	defer e.in.Unlock()
	e.in.link.send(time.Now(), slices.Clone(e.buffer[:n]), addr)
}

// expired reports whether the caller's deadline has passed.
func (e *Emulated) expired() bool {
	e.in.Lock()
	defer e.in.Unlock()
	return !e.in.deadline.IsZero() && !time.Now().Before(e.in.deadline)
}

// SetReadDeadline also wakes a reader that waits.
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

// Close drops the packets under way.
func (e *Emulated) Close() error {
	e.out.Lock()
	e.out.closed = true
	e.out.timer.Stop()
	e.out.Unlock()
	return e.PacketConn.Close()
}

// Conn returns the Emulated with the methods for its socket's options if that has them: QUIC calls those that it finds, and takes no error of
// SyscallConn.
func (e *Emulated) Conn() net.PacketConn {
	if options, ok := e.PacketConn.(kernelSocket); ok {
		return emulatedKernel{e, options}
	}
	return e
}

// emulatedKernel is an Emulated before a socket of the kernel.
type emulatedKernel struct {
	*Emulated
	kernelSocket // the socket itself: what is read or written by SyscallConn passes no link
}

// kernelSocket is what a socket of the kernel has beside net.PacketConn.
type kernelSocket interface {
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	syscall.Conn
}

// copyAddr returns a copy of an address, which the link keeps while the packet is on its way.
func copyAddr(addr net.Addr) (*net.UDPAddr, error) {
	at, err := netip.ParseAddrPort(addr.String())
	return net.UDPAddrFromAddrPort(at), err
}
