package quicconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrderOfAddresses(t *testing.T) {
	for _, row := range []struct {
		name           string
		ips, unreached []string
		want           []string
	}{
		{"IPv4 first, and in turns", []string{"2001:db8::1", "192.0.2.1", "192.0.2.2"}, nil, []string{"192.0.2.1", "2001:db8::1", "192.0.2.2"}},
		{"a network of IPv6 alone", []string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.1"}, []string{"2001:db8::1"}},
		{"a network of IPv4 alone", []string{"2001:db8::1", "192.0.2.1"}, []string{"2001:db8::1"}, []string{"192.0.2.1"}},
		{"one of two networks", []string{"192.0.2.1", "198.51.100.1"}, []string{"192.0.2.1"}, []string{"198.51.100.1"}},
		{"no network", []string{"2001:db8::1", "192.0.2.1"}, []string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.1", "2001:db8::1"}},
		{"one address", []string{"2001:db8::1"}, []string{"2001:db8::1"}, []string{"2001:db8::1"}},
	} {
		var ips []net.IPAddr
		for _, ip := range row.ips {
			ips = append(ips, net.IPAddr{IP: net.ParseIP(ip)})
		}
		var got []string
		for _, ip := range order(ips, func(ip net.IPAddr) bool { return !slices.Contains(row.unreached, ip.String()) }) {
			got = append(got, ip.String())
		}
		require.Equal(t, row.want, got, row.name)
	}
	require.Len(t, order(make([]net.IPAddr, 1000), func(net.IPAddr) bool { return true }), maxAddresses)
}

// TestResolverOutOfReach: a client without a network, and so without a
// resolver, may try again later.
func TestResolverOutOfReach(t *testing.T) {
	old := net.DefaultResolver
	defer func() { net.DefaultResolver = old }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "udp", Err: errors.New("network is unreachable")}
	}}
	_, _, err := Resolve(t.Context(), "game.example.com:7777")
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout(), err)
	require.ErrorContains(t, err, "network is unreachable")
	_, _, err = Resolve(t.Context(), "no port")
	require.False(t, errors.As(err, &late) && late.Timeout())
}
