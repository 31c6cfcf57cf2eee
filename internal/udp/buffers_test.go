package udp_test

import (
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/udp"
)

func TestAskBuffers(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	require.NoError(t, udp.AskBuffers(socket, 4096))
	require.Error(t, udp.AskBuffers(socket, math.MaxInt32), "2 GiB is more than any kernel gives")
	require.NoError(t, udp.AskBuffers(netsim.NewPacketConn(), udp.BufferBytes))
	require.ErrorIs(t, udp.AskBuffers(struct{ net.PacketConn }{socket}, 4096), udp.ErrBuffers)
}

// TestBuffersBehindLinks: asking an emulated socket for buffers reaches the kernel's.
func TestBuffersBehindLinks(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	emulated := netsim.Emulate(socket, netsim.Config{}, netsim.Config{})
	defer func() { _ = emulated.Close() }()
	require.NoError(t, udp.AskBuffers(emulated.Conn(), 4096))
	require.ErrorIs(t, udp.AskBuffers(emulated.Conn(), math.MaxInt32), udp.ErrBuffers)

	bare := netsim.Emulate(struct{ net.PacketConn }{socket}, netsim.Config{}, netsim.Config{})
	require.ErrorIs(t, udp.AskBuffers(bare.Conn(), 4096), udp.ErrBuffers)
}
