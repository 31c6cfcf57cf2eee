package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// maxAddresses is how many of a host's addresses we dial.
const maxAddresses = 6

// Resolve looks up addr, and returns the addresses to dial in that order (see order). The error
// is a timeout if it may be different next time.
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
		return nil, "", unresolved(err)
	}
	if len(ips) == 0 {
		return nil, "", fmt.Errorf("%s has no address (port %d)", host, port)
	}
	for _, ip := range order(ips, func(ip net.IPAddr) bool { return routed(ip, port) }) {
		remotes = append(remotes, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	}
	return remotes, host, nil
}

// unresolved turns a temporary failure of the resolver into a timeout, because that's what
// Dial's caller checks for. A machine without a network has such failures.
func unresolved(err error) error {
	failed, ok := errors.AsType[*net.DNSError](err)
	if !ok || !failed.IsTemporary {
		return err
	}
	passing := *failed
	passing.IsTimeout = true
	return &passing
}

// order returns the addresses in the order in which to dial them, except for those that we have
// no route to, such as a server's IPv4 address in a mobile network that is IPv6 only. If we have
// a route to none, it returns all of them. The families alternate, and IPv4 goes first as in
// package net (RFC 8305, section 4).
func order(ips []net.IPAddr, routed func(net.IPAddr) bool) (ordered []net.IPAddr) {
	with := slices.DeleteFunc(slices.Clone(ips), func(ip net.IPAddr) bool { return !routed(ip) })
	if len(with) > 0 {
		ips = with
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

// routed reports whether this machine has a route to ip. No packet is sent to find out.
func routed(ip net.IPAddr, port int) bool {
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
