package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measured has the gate of c see a rate in bytes a second.
func measured(c *Conn, rate int) {
	mark := c.gate.Sent(0, 0)
	c.gate.Acked(time.Second, &mark, rate)
	c.gate.Measure(time.Second, 0, &mark)
}

// TestBulkGate counts bytes in flight, and closes after two probe timeouts but for the probe.
func TestBulkGate(t *testing.T) {
	l := newLossTest(t, Config{})
	bulk, err := l.Open(Bulk)
	require.NoError(t, err)
	l.SetWindow(10_000)
	for range 3 {
		require.NoError(t, l.Send(bulk, Reliable, pattern(20_000, 0)))
	}
	require.Equal(t, 7, l.packets(), "1,163 bytes more must fit into the window")
	require.LessOrEqual(t, l.sent.inFlight, 10_000)

	t.Log("# play passes the gate")
	l.sendPackets(3)
	require.Zero(t, l.packets())
	for range 2 {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		require.Equal(t, 2, l.packets())
	}
	t.Log("# after two probe timeouts the window does not matter")
	l.SetWindow(1 << 20)
	require.Zero(t, l.packets())
	l.mustAck(0, 0)
	require.Greater(t, l.packets(), 20)
}
