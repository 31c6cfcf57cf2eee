package udp

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reading returns a socket that reads at one of these addresses, and another that sends to it.
func reading(t *testing.T, addr string) (r *Reader, from *net.UDPConn, to *Socket) {
	at, err := net.ListenPacket("udp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { at.Close() })
	sender, err := net.Dial("udp", at.LocalAddr().String())
	require.NoError(t, err)
	t.Cleanup(func() { sender.Close() })
	to = New(at, true)
	return NewReader(to), sender.(*net.UDPConn), to
}

// TestReaderReads packets that arrived while it did not wait and while it did,
// from addresses of either family, in the form of AddrPort.
func TestReaderReads(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		r, sender, _ := reading(t, addr)
		from := AddrPort(sender.LocalAddr())
		for _, text := range []string{"one", "", "three"} {
			_, err := sender.Write([]byte(text))
			require.NoError(t, err)
		}
		var got []string
		for len(got) < 3 {
			ms, _, err := r.Read()
			require.NoError(t, err)
			for _, m := range ms {
				require.Equal(t, from, m.From)
				got = append(got, string(m.Data))
			}
		}
		require.Equal(t, []string{"one", "", "three"}, got)

		time.AfterFunc(time.Millisecond, func() { _, _ = sender.Write([]byte("late")) })
		ms, _, err := r.Read()
		require.NoError(t, err)
		require.Len(t, ms, 1)
		require.Equal(t, "late", string(ms[0].Data))
	}
}

// TestReaderTellsSizes: a batch arrives as one message with the size of its
// packets or, if the kernel joins nothing, as packets.
func TestReaderTellsSizes(t *testing.T) {
	r, sender, s := reading(t, "127.0.0.1:0")
	w := NewWriter(New(sender, true))
	w.Aim(s.Conn.LocalAddr(), nil)
	batch := make([]byte, 2500)
	_, err := w.Write(batch, 1000)
	require.NoError(t, err)
	var sizes []int
	for total := 0; total < len(batch); {
		ms, _, err := r.Read()
		require.NoError(t, err)
		for _, m := range ms {
			total += len(m.Data)
			size := SegmentSize(m.OOB)
			if size == 0 {
				size = len(m.Data)
			}
			for n := len(m.Data); n > 0; n -= size {
				sizes = append(sizes, min(n, size))
			}
		}
	}
	require.Equal(t, []int{1000, 1000, 500}, sizes)
}

// TestReaderEnds when its socket is closed, or its deadline passes: quic-go has
// its reader end by that.
func TestReaderEnds(t *testing.T) {
	r, _, s := reading(t, "127.0.0.1:0")
	require.NoError(t, s.UDP.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, _, err := r.Read()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, s.UDP.SetReadDeadline(time.Time{}))
	time.AfterFunc(time.Millisecond, func() { s.UDP.Close() })
	_, _, err = r.Read()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestReaderAllocatesNothing.
func TestReaderAllocatesNothing(t *testing.T) {
	r, sender, _ := reading(t, ":0")
	packet := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = sender.Write(packet)
		_, _, _ = r.Read()
	}))
}

// TestReaderNamesZones as package net does.
func TestReaderNamesZones(t *testing.T) {
	loopback, err := net.InterfaceByIndex(1)
	require.NoError(t, err)
	var z zoneNames
	require.Equal(t, loopback.Name, z.of(1))
	require.Equal(t, "4711", z.of(4711), "an interface that went away")
	require.Equal(t, loopback.Name, z.of(1))
}
