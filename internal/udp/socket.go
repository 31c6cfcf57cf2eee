// Package udp is what sealed packets need of the system beside package net: sends that tell when they would block, batches that the
// kernel cuts and joins (GSO, GRO), large buffers, and naps that are finer than the runtime's timers.
package udp

import (
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Socket is a UDP socket and what the system can do with it.
type Socket struct {
	Conn net.PacketConn
	UDP  *net.UDPConn    // nil when Conn is none
	Raw  syscall.RawConn // nil if there is none
	GSO  atomic.Bool     // sends may be batched

	v6 bool // of family AF_INET6
}

// New looks at a socket; offload asks for GSO and GRO.
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

// Blocks reports whether a write may block, because package net does it.
func (s *Socket) Blocks() bool {
	_, never := s.Conn.(interface{ NeverBlocks() })
	return !never && (!writes || s.Raw == nil)
}

const (
	// readMessages is how many joined packets of up to joinedBytes one call reads.
	readMessages = 4
	joinedBytes  = 64 << 10
	oobBytes     = 128 // out-of-band bytes for ECN and segment size; the size that quic-go uses
)

// LongRead is how long a read takes that has waited for a packet; others take a few microseconds.
const LongRead = 20 * time.Microsecond

// Message is what a [Reader] reads: packets of one flow and one size that came in a row, joined by the kernel. Only the last may be shorter.
type Message struct {
	From netip.AddrPort // in the form of AddrPort
	Data []byte
	OOB  []byte // the size is in it: see SegmentSize
}

// SystemConn is a socket with kernel buffers, or one that acts like it.
type SystemConn interface {
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	SyscallConn() (syscall.RawConn, error)
}

// AddrPort returns an address in the one form that compares; zero when it is none of UDP.
func AddrPort(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok || udp == nil {
		return netip.AddrPort{}
	}
	return inOneForm(udp.AddrPort())
}

// inOneForm returns an address in the form of [AddrPort].
func inOneForm(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(named(a.Addr().Unmap()), a.Port())
}

// named gives an address whose zone is the number of an interface the interface's name, as packets from there have it.
func named(a netip.Addr) netip.Addr {
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

// zoneName returns the name of an interface; its number if there is none.
func zoneName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}
