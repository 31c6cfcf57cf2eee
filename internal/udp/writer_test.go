//go:build darwin || freebsd || linux

package udp

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWriterWaitsForNobody: QUIC's write, which package net makes wait while the send
// buffer is full, keeps other writes of package net from the socket. A carrier's write
// does not wait for it: it may be on the game's goroutine, or on that of QUIC's reader.
func TestWriterWaitsForNobody(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	s := New(conn, true)
	began, full := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.Raw.Write(func(uintptr) bool {
			close(began)
			<-full
			return true
		})
	}()
	<-began
	w := NewWriter(s)
	w.Aim(conn.LocalAddr(), nil)
	n, err := w.Write([]byte("abc"), 2)
	close(full)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, conn.Close())
	_, err = w.Write([]byte("abc"), 2)
	require.ErrorIs(t, err, net.ErrClosed)
}
