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

// hasSystemWriter is true on systems where systemWriter can send.
const hasSystemWriter = true

// A systemWriter sends packets with its own calls of sendmsg, because package net neither reports
// that a write would block nor sends a batch for the kernel to split (GSO).
//
// Like Writer, it isn't safe for concurrent use.
type systemWriter struct {
	to     unix.Sockaddr // nil if we can't send to the address
	oob    []byte        // control message with the source address; may be empty
	gsoOOB []byte        // scratch space for oob with the segment size

	// sendAll in the forms that RawConn.Control and RawConn.Write accept. Bound once, by the
	// first aim, so that a write doesn't allocate a closure.
	controlFunc func(fd uintptr)
	writeFunc   func(fd uintptr) (done bool)

	// Arguments and results of sendAll, which can't be passed through RawConn. write sets them.
	socket *Socket
	batch  []byte
	size   int // of each packet but the last, which may be shorter
	sent   int // bytes of batch sent so far
	err    error
}

// ready reports whether the last call of aim found a way to send with write.
func (w *systemWriter) ready() bool { return w.to != nil }

// aim is Writer.Aim, with from as returned by source.
func (w *systemWriter) aim(s *Socket, to netip.AddrPort, from netip.Addr) {
	w.to = nil
	w.oob = nil
	if s.Raw == nil || !to.IsValid() {
		return
	}
	w.to = sockaddr(s, to)
	switch {
	case !from.IsValid():
		// The system picks the source address.
	case from.Is4():
		w.oob = (&ipv4.ControlMessage{Src: from.AsSlice()}).Marshal()
	default:
		w.oob = (&ipv6.ControlMessage{Src: from.AsSlice()}).Marshal()
	}
	if w.controlFunc == nil {
		w.controlFunc = w.sendAll
		w.writeFunc = func(fd uintptr) bool {
			w.sendAll(fd)
			return true // even if we were blocked, don't wait until the socket is writable
		}
	}
}

// sockaddr converts an address for sendmsg. It returns nil if to is an IPv6 address and the
// socket is IPv4 only.
func sockaddr(s *Socket, to netip.AddrPort) unix.Sockaddr {
	if !s.v6 {
		if !to.Addr().Is4() {
			return nil
		}
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	a := &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()} // IPv4 is mapped
	if zone := to.Addr().Zone(); zone != "" {
		// The zone is a name, because AddrPort replaces numbers.
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

	// RawConn.Write waits for other writes to the socket. One of them may be QUIC's, which can
	// hold the socket until there's room in the send buffer, so a caller that mustn't wait uses
	// RawConn.Control instead.
	if mayWait {
		err = s.Raw.Write(w.writeFunc)
	} else {
		err = s.Raw.Control(w.controlFunc)
	}
	w.batch = nil // don't keep the caller's memory alive while idle
	if err != nil {
		return w.sent, err // the socket is closed
	}
	return w.sent, w.err
}

// sendAll sends the batch, in a single call if possible.
func (w *systemWriter) sendAll(fd uintptr) {
	if len(w.batch) > w.size && w.socket.GSO.Load() {
		w.gsoOOB = appendSegmentSize(append(w.gsoOOB[:0], w.oob...), w.size)
		err := w.sendOne(fd, w.batch, w.gsoOOB)
		refused, forGood := isOffloadError(err)
		if forGood {
			w.socket.GSO.Store(false)
		}
		if !refused {
			w.recordSend(len(w.batch), err)
			return
		}
		// The device refuses the batch as a whole, but it may accept its packets.
	}
	for w.sent < len(w.batch) && !errors.Is(w.err, ErrBlocked) {
		end := min(w.sent+w.size, len(w.batch))
		w.recordSend(end-w.sent, w.sendOne(fd, w.batch[w.sent:end], w.oob))
	}
}

// sendOne calls sendmsg, and repeats the call if a signal interrupts it.
func (w *systemWriter) sendOne(fd uintptr, b, oob []byte) error {
	for {
		_, err := unix.SendmsgN(int(fd), b, oob, w.to, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err
		}
	}
}

// recordSend records the result of sending the next n bytes. Unless the send buffer was full, they
// count as sent even after an error, because it is as if the path had lost them.
func (w *systemWriter) recordSend(n int, err error) {
	if err == unix.EAGAIN || err == unix.EWOULDBLOCK || err == unix.ENOBUFS {
		w.err = ErrBlocked
		return
	}
	w.sent += n
	if err != nil {
		w.err = err
	}
}

// isIPv6 reports whether a socket is IPv6, in which case IPv4 addresses must be mapped.
func isIPv6(raw syscall.RawConn) bool {
	v6 := false
	_ = raw.Control(func(fd uintptr) {
		if a, err := unix.Getsockname(int(fd)); err == nil {
			_, v6 = a.(*unix.SockaddrInet6)
		}
	})
	return v6
}
