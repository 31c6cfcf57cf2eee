package udp

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestZonesThatAreNumbers: package net accepts "fe80::1%1" for interface 1, and
// reports packets from there with the interface's name. So does package udp.
func TestZonesThatAreNumbers(t *testing.T) {
	loopback, err := net.InterfaceByIndex(1)
	require.NoError(t, err)
	dialed, err := net.ResolveUDPAddr("udp", fmt.Sprintf("[fe80::1%%%d]:4433", loopback.Index))
	require.NoError(t, err)
	named := &net.UDPAddr{IP: dialed.IP, Port: dialed.Port, Zone: loopback.Name}

	to := sockaddr(&Socket{v6: true}, AddrPort(dialed))
	require.Equal(t, uint32(loopback.Index), to.(*unix.SockaddrInet6).ZoneId)
	require.Equal(t, AddrPort(named), AddrPort(dialed), "packets from there count as from elsewhere")
}
