//go:build darwin || freebsd || linux

package rpc

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc/emulation"
)

// TestEmulatedSocketsHaveBuffers: an emulation with zero settings loses
// nothing: the kernel's buffers are as large with it as without.
func TestEmulatedSocketsHaveBuffers(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		bare, emulated := shareSocket(t, Config{Sealed: sealed}), shareSocket(t, Config{Sealed: sealed, Emulation: &emulation.Settings{}})
		require.Equal(t, sizeBuffers(t, bare), sizeBuffers(t, emulated), "sealed %v", sealed)
	}
}

// shareSocket gives a new socket to a world, and to QUIC as a listener does.
func shareSocket(t *testing.T, config Config) *net.UDPConn {
	world := newTestWorld(t, config)
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	serverTLS, _ := credentials(t)
	listener, err := ListenPacket(socket, serverTLS, world.World)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = listener.Close()
		_ = socket.Close()
	})
	return socket
}

// sizeBuffers returns the bytes that the kernel keeps for a socket each way.
func sizeBuffers(t *testing.T, socket *net.UDPConn) (sizes [2]int) {
	raw, err := socket.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for i, option := range []int{syscall.SO_RCVBUF, syscall.SO_SNDBUF} {
			sizes[i], err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option)
			require.NoError(t, err)
		}
	}))
	return sizes
}
