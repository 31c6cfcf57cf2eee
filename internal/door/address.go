package door

import (
	"net"
	"net/netip"
)

// AddressOf returns the prefix to which limits per address apply: an IPv4 address, or the /64
// of an IPv6 address, because one client may use all addresses of a /64. It returns the zero
// Prefix if addr is not an IP address.
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

// prefixOf is AddressOf for a netip.Addr. An IPv4-mapped IPv6 address counts as IPv4.
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
