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

// writes says that systemWriter writes to the kernel's sockets.
const writes = true

// systemWriter calls sendmsg itself, for package net hides that a call would block, and knows no segments.
type systemWriter struct {
	to   unix.Sockaddr // nil = not usable
	oob  []byte        // names the source address, or is empty
	more []byte        // oob and a segment size

	// Arguments and results of send, which RawConn calls: a function that is made once allocates nothing later.
	socket *Socket
	batch  []byte
	size   int
	sent   int
	err    error
	send   func(fd uintptr)
	wait   func(fd uintptr) bool // send, for RawConn.Write
}

func (w *systemWriter) ready() bool { return w.to != nil }

func (w *systemWriter) aim(s *Socket, to netip.AddrPort, from netip.Addr) {
	w.to, w.oob = nil, nil
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

func (w *systemWriter) write(s *Socket, batch []byte, size int, mayWait bool) (sent int, err error) {
	w.socket, w.batch, w.size = s, batch, size
	w.sent, w.err = 0, nil
	if mayWait {
		err = s.Raw.Write(w.wait)
	} else {
		err = s.Raw.Control(w.send)
	}
	w.batch = nil // it is the caller's, and an idle writer would keep it
	if err != nil {
		return w.sent, err // the socket is closed
	}
	return w.sent, w.err
}

// sendAll sends the batch. RawConn.Write first waits for other writes to the socket, RawConn.Control does not: one of QUIC's may wait for room
// in the send buffer.
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

func (w *systemWriter) sendOne(fd uintptr, b, oob []byte) error {
	for {
		_, err := unix.SendmsgN(int(fd), b, oob, w.to, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err
		}
	}
}

// finish notes what became of n bytes.
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

// isIPv6 reports whether a socket takes addresses of version 6, to which those of version 4 are mapped.
func isIPv6(raw syscall.RawConn) bool {
	v6 := false
	_ = raw.Control(func(fd uintptr) {
		if a, err := unix.Getsockname(int(fd)); err == nil {
			_, v6 = a.(*unix.SockaddrInet6)
		}
	})
	return v6
}
