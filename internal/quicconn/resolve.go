package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// Resolve looks addr up. Of several addresses it takes the first IPv4 one, as package net does, among those to which this machine has a route: in
// a mobile network of IPv6 alone a server's IPv4 address is out of reach. The error is a timeout where another try may succeed.
func Resolve(ctx context.Context, addr string) (remote *net.UDPAddr, host string, err error) {
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
	best := choose(ips, func(ip net.IPAddr) bool { return routed(ip, port) })
	return &net.UDPAddr{IP: best.IP, Port: port, Zone: best.Zone}, host, nil
}

// unresolved makes a failure of the resolver's that passes a timeout, as one of a machine that has no network now: who dials asks for that.
func unresolved(err error) error {
	failed, ok := errors.AsType[*net.DNSError](err)
	if !ok || !failed.IsTemporary {
		return err
	}
	passing := *failed
	passing.IsTimeout = true
	return &passing
}

// choose returns the first IPv4 address of those with a route, else the first of those, else the first one.
func choose(ips []net.IPAddr, routed func(net.IPAddr) bool) net.IPAddr {
	if len(ips) == 1 {
		return ips[0]
	}
	if with := slices.DeleteFunc(slices.Clone(ips), func(ip net.IPAddr) bool { return !routed(ip) }); len(with) > 0 {
		ips = with
	}
	first := slices.IndexFunc(ips, func(ip net.IPAddr) bool { return ip.IP.To4() != nil })
	return ips[max(first, 0)]
}

// routed reports whether this machine has a route to ip. It sends nothing.
func routed(ip net.IPAddr, port int) bool {
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
