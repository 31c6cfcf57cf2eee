package netsim

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoServer answers every datagram on a loopback socket with itself.
func echoServer(t *testing.T) net.Addr {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 2048); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c.LocalAddr()
}

func newRelay(t *testing.T, target string, up, down Config) *Relay {
	r, err := NewRelay(target, up, down)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func dialRelay(t *testing.T, r *Relay) net.Conn {
	c, err := net.Dial("udp4", r.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a number and waits for its echo; lost packets are nobody's fault
// here, so it asks again.
func ask(t *testing.T, c net.Conn, number uint32) {
	t.Helper()
	buf := make([]byte, 2048)
	for range 1000 {
		_, err := c.Write(binary.BigEndian.AppendUint32(nil, number))
		require.NoError(t, err)
		_ = c.SetReadDeadline(time.Now().Add(20 * ms))
		for {
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if n == 4 && binary.BigEndian.Uint32(buf) == number {
				return
			}
		}
	}
	t.Fatalf("no echo of %d", number)
}

func TestRelayCarriesAndCounts(t *testing.T) {
	r := newRelay(t, echoServer(t).String(), Config{Delay: ms, Loss: 0.2, Seed: 1}, Config{Delay: ms, Duplicate: 0.5, Seed: 2})
	clients := []net.Conn{dialRelay(t, r), dialRelay(t, r), dialRelay(t, r)}
	for i := range 20 {
		for j, c := range clients {
			ask(t, c, uint32(3*i+j))
		}
	}
	up, down := r.Stats()
	require.GreaterOrEqual(t, up.Packets, uint64(60))
	require.NotZero(t, up.Lost)
	require.Equal(t, up.Carried*(4+28), up.CarriedBytes)
	require.GreaterOrEqual(t, down.Delivered, uint64(60))
	require.NotZero(t, down.Duplicated)
}

func TestRelayLimitsClients(t *testing.T) {
	r := newRelay(t, echoServer(t).String(), Config{}, Config{})
	for i := range maxSessions {
		ask(t, dialRelay(t, r), uint32(i))
	}
	late := dialRelay(t, r)
	first := dialRelay(t, r)
	require.Eventually(t, func() bool {
		_, _ = late.Write([]byte("x"))
		_, _ = first.Write([]byte("x"))
		return r.Refused() >= 2
	}, 30*time.Second, ms)
}

// A target that is not there is no error: packets vanish, as on a network.
func TestRelayWithoutTarget(t *testing.T) {
	nobody, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	r := newRelay(t, nobody.LocalAddr().String(), Config{}, Config{})
	c := dialRelay(t, r)
	require.Eventually(t, func() bool {
		_, _ = c.Write([]byte("x"))
		up, _ := r.Stats()
		return up.Delivered > 5
	}, 30*time.Second, ms)
	require.NoError(t, r.Close())
}

func TestRelayRefusesNonsense(t *testing.T) {
	_, err := NewRelay("127.0.0.1:1", Config{Loss: 2}, Config{})
	require.ErrorContains(t, err, "Loss is 2")
	_, err = NewRelay("no port", Config{}, Config{})
	require.ErrorContains(t, err, `relay to "no port"`)
}
