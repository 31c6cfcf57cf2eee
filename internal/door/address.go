package door

import (
	"net"
	"net/netip"
)

// AddressOf returns the prefix that limits per address apply to. It's a whole IPv4 address, but
// only the /64 of an IPv6 address, because a single client may have all the addresses in a /64.
// If addr isn't an IP address, the result is the zero Prefix, to which no such limits apply.
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

// prefixOf is AddressOf for a netip.Addr. An IPv4 address that is mapped to IPv6 counts as IPv4.
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
