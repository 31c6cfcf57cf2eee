// Package udp provides system functions that sealed packets need and package net lacks:
// writes that report that they would block, batches that the kernel splits and joins (GSO,
// GRO), large buffers, and sleeps shorter than the runtime's timers allow.
package udp

import (
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// A Socket is a UDP socket together with what the system can do with it.
type Socket struct {
	Conn net.PacketConn
	UDP  *net.UDPConn    // Conn; nil if Conn is of another type
	Raw  syscall.RawConn // nil if there is none
	GSO  atomic.Bool     // the kernel splits batches; cleared if the device refuses them

	v6 bool // the socket has family AF_INET6
}

// New returns the Socket of conn. If offload is true, the Socket uses GSO and GRO if the system has
// them.
func New(conn net.PacketConn, offload bool) *Socket {
	s := &Socket{Conn: conn}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return s
	}
	s.UDP = udp
	if raw, err := udp.SyscallConn(); err == nil {
		s.Raw = raw
		s.v6 = isIPv6(raw)
		if offload {
			s.GSO.Store(hasGSO(raw))
			enableGRO(raw)
		}
	}
	return s
}

// A nonBlocker is a net.PacketConn whose WriteTo never blocks, such as a *netsim.PacketConn.
type nonBlocker interface{ NeverBlocks() }

// Blocks reports whether a write may block, as it may in package net.
func (s *Socket) Blocks() bool {
	_, never := s.Conn.(nonBlocker)
	return !never && (!hasSystemWriter || s.Raw == nil)
}

const (
	// readMessages is the number of messages, of up to joinedBytes each, that one call reads.
	readMessages = 4
	joinedBytes  = 64 << 10
	oobBytes     = 128 // size of control messages for ECN and segment size, as in quic-go
)

// LongRead is the minimum duration of a read that counts as having waited for a packet. A read that
// doesn't wait takes only a few microseconds.
const LongRead = 20 * time.Microsecond

// A Message is what a [Reader] reads: one packet, or packets of the same flow and size that arrived
// in a row and that the kernel joined, of which only the last may be shorter.
type Message struct {
	From netip.AddrPort // in the form that AddrPort returns
	Data []byte
	OOB  []byte // contains the packet size; see SegmentSize
}

// SystemConn is a socket with kernel buffers, or a type that acts like one.
type SystemConn interface {
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	SyscallConn() (syscall.RawConn, error)
}

// AddrPort returns a UDP address in a canonical form, so that equal addresses compare equal. The
// result is zero if a isn't a UDP address.
func AddrPort(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok || udp == nil {
		return netip.AddrPort{}
	}
	return canonical(udp.AddrPort())
}

// canonical is AddrPort for a netip.AddrPort.
func canonical(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(nameZone(a.Addr().Unmap()), a.Port())
}

// nameZone replaces a zone that is an interface number by the interface's name, as in the source of
// received packets.
func nameZone(a netip.Addr) netip.Addr {
	zone := a.Zone()
	if zone == "" || zone[0] < '0' || zone[0] > '9' {
		return a
	}
	n, err := strconv.Atoi(zone)
	if err != nil {
		return a
	}
	return a.WithZone(zoneName(n))
}

// zoneName returns the name of an interface, or its number if there is no such interface.
func zoneName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}
