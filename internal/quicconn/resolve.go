package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// maxAddresses is how many of a host's addresses we dial. A host rarely has more.
const maxAddresses = 6

// Resolve looks up addr and returns its addresses in the order in which to dial them. The error is
// a timeout if another attempt may succeed.
func Resolve(ctx context.Context, addr string) (remotes []net.Addr, host string, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, "", err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, "", temporaryAsTimeout(err)
	}
	if len(ips) == 0 {
		return nil, "", fmt.Errorf("host %s (port %d) has no addresses", host, port)
	}
	for _, ip := range order(ips, func(ip net.IPAddr) bool { return routed(ip, port) }) {
		remotes = append(remotes, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	}
	return remotes, host, nil
}

// temporaryAsTimeout turns a temporary failure of the resolver, such as one without a network, into
// a timeout, because that's what Dial's caller checks for.
func temporaryAsTimeout(err error) error {
	failed, ok := errors.AsType[*net.DNSError](err)
	if !ok || !failed.IsTemporary {
		return err
	}
	timeout := *failed
	timeout.IsTimeout = true
	return &timeout
}

// order returns up to maxAddresses addresses in the order in which to dial them. It leaves out
// those without a route, such as a server's IPv4 address in a mobile network that is IPv6 only,
// unless that would leave none. The families alternate, beginning with IPv4 as in package net (RFC
// 8305, section 4).
func order(ips []net.IPAddr, routed func(net.IPAddr) bool) (ordered []net.IPAddr) {
	reachable := slices.DeleteFunc(slices.Clone(ips), func(ip net.IPAddr) bool { return !routed(ip) })
	if len(reachable) > 0 {
		ips = reachable
	}
	var families [2][]net.IPAddr
	for _, ip := range ips {
		family := 1
		if ip.IP.To4() != nil {
			family = 0
		}
		families[family] = append(families[family], ip)
	}
	for i := range ips {
		for _, family := range families {
			if i < len(family) {
				ordered = append(ordered, family[i])
			}
		}
	}
	return ordered[:min(len(ordered), maxAddresses)]
}

// routed reports whether this machine has a route to ip. It doesn't send a packet to find out.
func routed(ip net.IPAddr, port int) bool {
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
