//go:build darwin || freebsd || linux

package udp

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// writes is true where systemWriter can write to kernel sockets.
const writes = true

// systemWriter calls sendmsg itself, because package net does not report that a call would
// block and cannot send segments.
type systemWriter struct {
	to   unix.Sockaddr // nil if the writer cannot be used
	oob  []byte        // control message with the source address; may be empty
	more []byte        // oob and a segment size

	// Arguments and results of sendAll, which RawConn calls. The functions are bound once, so
	// that a write allocates no closure.
	socket *Socket
	batch  []byte
	size   int
	sent   int
	err    error
	send   func(fd uintptr)      // sendAll, for RawConn.Control
	wait   func(fd uintptr) bool // sendAll, for RawConn.Write
}

// ready reports whether write can be used.
func (w *systemWriter) ready() bool { return w.to != nil }

// aim sets the addresses, as Writer.Aim does.
func (w *systemWriter) aim(s *Socket, to netip.AddrPort, from netip.Addr) {
	w.to = nil
	w.oob = nil
	if s.Raw == nil || !to.IsValid() {
		return
	}
	w.to = sockaddr(s, to)
	switch {
	case !from.IsValid():
	case from.Is4():
		w.oob = (&ipv4.ControlMessage{Src: from.AsSlice()}).Marshal()
	default:
		w.oob = (&ipv6.ControlMessage{Src: from.AsSlice()}).Marshal()
	}
	if w.send == nil {
		w.send = w.sendAll
		w.wait = func(fd uintptr) bool { w.sendAll(fd); return true }
	}
}

// sockaddr returns an address for sendmsg, or nil if an IPv4 socket cannot send to it.
func sockaddr(s *Socket, to netip.AddrPort) unix.Sockaddr {
	if !s.v6 {
		if !to.Addr().Is4() {
			return nil
		}
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	a := &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if zone := to.Addr().Zone(); zone != "" {
		if i, err := net.InterfaceByName(zone); err == nil {
			a.ZoneId = uint32(i.Index)
		}
	}
	return a
}

// write is Writer.Write.
func (w *systemWriter) write(s *Socket, batch []byte, size int, mayWait bool) (sent int, err error) {
	w.socket = s
	w.batch = batch
	w.size = size
	w.sent = 0
	w.err = nil
	if mayWait {
		err = s.Raw.Write(w.wait)
	} else {
		err = s.Raw.Control(w.send)
	}
	w.batch = nil // an idle writer must not retain the caller's memory
	if err != nil {
		return w.sent, err // the socket is closed
	}
	return w.sent, w.err
}

// sendAll sends the batch. RawConn.Write waits for other writes to the socket first.
// RawConn.Control does not wait, because a write of QUIC may be waiting for room in the send
// buffer.
func (w *systemWriter) sendAll(fd uintptr) {
	if len(w.batch) > w.size && w.socket.GSO.Load() {
		w.more = appendSegmentSize(append(w.more[:0], w.oob...), w.size)
		err := w.sendOne(fd, w.batch, w.more)
		refused, forGood := isOffloadError(err)
		if forGood {
			w.socket.GSO.Store(false)
		}
		if !refused {
			w.finish(len(w.batch), err)
			return
		}
	}
	for w.sent < len(w.batch) && !errors.Is(w.err, ErrBlocked) {
		end := min(w.sent+w.size, len(w.batch))
		w.finish(end-w.sent, w.sendOne(fd, w.batch[w.sent:end], w.oob))
	}
}

// sendOne calls sendmsg. If a signal interrupts the call, sendOne repeats it.
func (w *systemWriter) sendOne(fd uintptr, b, oob []byte) error {
	for {
		_, err := unix.SendmsgN(int(fd), b, oob, w.to, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err
		}
	}
}

// finish records the result of sending n bytes.
func (w *systemWriter) finish(n int, err error) {
	if err == unix.EAGAIN || err == unix.EWOULDBLOCK || err == unix.ENOBUFS {
		w.err = ErrBlocked
		return
	}
	w.sent += n
	if err != nil {
		w.err = err
	}
}

// isIPv6 reports whether a socket uses IPv6 addresses, to which IPv4 addresses are mapped.
func isIPv6(raw syscall.RawConn) bool {
	v6 := false
	_ = raw.Control(func(fd uintptr) {
		if a, err := unix.Getsockname(int(fd)); err == nil {
			_, v6 = a.(*unix.SockaddrInet6)
		}
	})
	return v6
}
