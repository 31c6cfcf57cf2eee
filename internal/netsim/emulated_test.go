package netsim

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sockets returns a socket of the kernel that is emulated, and a plain one.
func sockets(t *testing.T, out, in Config) (*Emulated, net.PacketConn) {
	t.Helper()
	var all [2]net.PacketConn
	for i := range all {
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		all[i] = socket
		t.Cleanup(func() { _ = socket.Close() })
	}
	return Emulate(all[0], out, in), all[1]
}

func TestEmulatedLosesAndDelays(t *testing.T) {
	const packets = 200
	e, plain := sockets(t, Config{Loss: 0.5, Delay: 30 * time.Millisecond, Seed: 1}, Config{Delay: 20 * time.Millisecond})
	began := time.Now()
	for i := range packets {
		_, err := e.WriteTo(binary.BigEndian.AppendUint32(nil, uint32(i)), plain.LocalAddr())
		require.NoError(t, err)
	}
	buf := make([]byte, 100)
	arrived := 0
	require.NoError(t, plain.SetReadDeadline(time.Now().Add(5*time.Second)))
	for last := -1; last < packets-10; arrived++ {
		n, from, err := plain.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Equal(t, e.LocalAddr().String(), from.String())
		require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
		i := int(binary.BigEndian.Uint32(buf))
		require.Greater(t, i, last)
		last = i
	}
	require.InDelta(t, packets/2, arrived, 40)

	began = time.Now()
	_, err := plain.WriteTo([]byte("back"), e.LocalAddr())
	require.NoError(t, err)
	n, from, err := e.ReadFrom(buf)
	require.NoError(t, err)
	require.Equal(t, "back", string(buf[:n]))
	require.Equal(t, plain.LocalAddr().String(), from.String())
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
}

func TestEmulatedIsSwitched(t *testing.T) {
	e, plain := sockets(t, Config{Loss: 1}, Config{})
	_, err := e.WriteTo([]byte("lost"), plain.LocalAddr())
	require.NoError(t, err)
	e.Set(Config{}, Config{})
	_, err = e.WriteTo([]byte("there"), plain.LocalAddr())
	require.NoError(t, err)
	buf := make([]byte, 100)
	n, _, err := plain.ReadFrom(buf)
	require.NoError(t, err)
	require.Equal(t, "there", string(buf[:n]))
}

func TestEmulatedReaderIsWoken(t *testing.T) {
	e, _ := sockets(t, Config{}, Config{Delay: time.Hour})
	done := make(chan error, 1)
	go func() {
		_, _, err := e.ReadFrom(make([]byte, 100))
		done <- err
	}()
	require.NoError(t, e.SetReadDeadline(time.Now()))
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	require.NoError(t, e.SetReadDeadline(time.Time{}))
	go func() {
		_, _, err := e.ReadFrom(make([]byte, 100))
		done <- err
	}()
	require.NoError(t, e.Close())
	require.ErrorIs(t, <-done, net.ErrClosed)
	_, err := e.WriteTo([]byte("late"), e.LocalAddr())
	require.ErrorIs(t, err, net.ErrClosed)
}

// signalled signals when a reader is about to wait in the socket.
type signalled struct {
	net.PacketConn
	reads chan struct{}
}

func (s signalled) ReadFrom(p []byte) (int, net.Addr, error) {
	s.reads <- struct{}{}
	return s.PacketConn.ReadFrom(p)
}

// TestEmulatedDeadlineKeepsPackets: a deadline that is set while a packet is in
// flight does not delay the packet.
func TestEmulatedDeadlineKeepsPackets(t *testing.T) {
	e, plain := sockets(t, Config{}, Config{Delay: 100 * time.Millisecond})
	reads := make(chan struct{}, 100)
	e.PacketConn = signalled{e.PacketConn, reads}
	done := make(chan error, 1)
	go func() {
		_, _, err := e.ReadFrom(make([]byte, 100))
		done <- err
	}()
	_, err := plain.WriteTo([]byte("hello"), e.LocalAddr())
	require.NoError(t, err)
	<-reads
	<-reads // the packet is in the link
	require.NoError(t, e.SetReadDeadline(time.Now().Add(3*time.Second)))
	require.NoError(t, <-done)
}

// TestEmulatedKeepsZones: a link-local address is none without its interface.
func TestEmulatedKeepsZones(t *testing.T) {
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	require.NotEmpty(t, interfaces)
	for _, addr := range []string{"[fe80::1%" + interfaces[0].Name + "]:7", "[2001:db8::1]:7", "192.0.2.1:7"} {
		given := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		kept, err := copyAddr(given)
		require.NoError(t, err)
		require.Equal(t, given.String(), kept.String())
		require.Equal(t, given.Zone, kept.Zone)
	}
}
