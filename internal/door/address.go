package door

import (
	"net"
	"net/netip"
)

// AddressOf returns the prefix by which limits of addresses count: an IPv4 address, or an IPv6 /64, which one client can use whole. It is
// not valid if addr is no IP address.
func AddressOf(addr net.Addr) netip.Prefix {
	if addr == nil {
		return netip.Prefix{}
	}
	var ip netip.Addr
	if udp, ok := addr.(*net.UDPAddr); ok {
		ip = udp.AddrPort().Addr()
	} else if port, err := netip.ParseAddrPort(addr.String()); err == nil {
		ip = port.Addr()
	}
	return prefixOf(ip)
}

// prefixOf is AddressOf for an IP address.
func prefixOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
