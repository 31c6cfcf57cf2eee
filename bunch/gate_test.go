package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measured has the gate of c see a rate in bytes a second.
func measured(c *Conn, rate int) {
	mark := c.congestion.Sent(0, 0)
	c.congestion.Acked(time.Second, &mark, rate)
	c.congestion.Measure(time.Second, 0, &mark)
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
	require.LessOrEqual(t, l.Stats().InFlight, 10_000)
	require.Equal(t, l.sent.bytesInFlight, l.Stats().InFlight)

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

// TestPathTellsTheWindow: a Path with a window sets it; one without does not change it.
func TestPathTellsTheWindow(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendBulk(20_000)
	l.SetPath(l.at, Path{Window: 10_000})
	l.SetPath(l.at, Path{})
	require.Equal(t, 7, l.packets())
}

// TestGates causes each result of Gate, for play and for bulk, during a tick and between two.
func TestGates(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 16})
	c, play, bulk := p.ends[0], p.open(0, Normal), p.open(0, Bulk)
	gates := func() [2]string { return [2]string{c.Gate(play, true), c.Gate(bulk, true)} }
	p.send(0, play, Reliable, nil)
	p.send(0, bulk, Reliable, nil)
	p.run(time.Second)
	require.Equal(t, [2]string{}, gates(), "nothing waits")
	require.Empty(t, c.Gate(99, true), "no such channel")

	t.Log("# what waits for the end of its tick is not held")
	c.Cork(true)
	p.send(0, play, Reliable, pattern(100, 0))
	p.send(0, bulk, Unreliable, pattern(100, 0))
	p.flush()
	require.Equal(t, [2]string{}, gates())
	require.Zero(t, c.Stats().TicksSaturated)

	t.Log("# and is when it was there before; bulk has left, for no tick holds it")
	c.Cork(false)
	c.Cork(true)
	require.Equal(t, [2]string{"window", ""}, gates())
	require.Equal(t, uint64(1), c.Stats().TicksSaturated)
	c.Cork(false)
	p.run(time.Second)

	t.Log("# nothing new leaves while too many packets are undecided")
	c.limits.History = 1
	for _, d := range []Delivery{Unreliable, Reliable} {
		p.send(0, play, d, pattern(100, 0))
		require.Equal(t, [2]string{"window", ""}, gates())
	}
	c.limits.History = maxHistory

	t.Log("# what waits for another channel does not wait for the window, nor does bulk of this tick beside it")
	earlier, later := p.open(0, Bulk), p.open(0, Bulk)
	p.send(0, earlier, Reliable, nil)
	require.NoError(t, c.Close(earlier, nil))
	require.NoError(t, c.After(later, earlier))
	p.send(0, later, Reliable, pattern(100, 0))
	p.send(0, bulk, Reliable, pattern(100, 0))
	require.Equal(t, [2]string{}, gates())
	p.run(time.Second)

	t.Log("# the rate holds bulk, and what is unreliable; a carrier's pace is a window")
	c.Hold(true, true)
	p.send(0, bulk, Reliable, pattern(100, 0))
	p.send(0, play, Unreliable, pattern(100, 0))
	c.Cork(false) // the tick ends
	p.run(time.Second)
	require.Equal(t, [2]string{"rate", "rate"}, gates())
	require.Equal(t, "window", c.Gate(bulk, false))
	c.Hold(false, false)
	p.run(time.Second)
	require.Equal(t, [2]string{}, gates())

	t.Log("# the window of bulk does not hold play")
	c.SetWindow(4000)
	p.send(0, bulk, Reliable, pattern(14_000, 0))
	p.flush()
	require.Equal(t, [2]string{"", "window"}, gates())
	c.SetWindow(0)
	p.run(time.Second)

	t.Log("# a peer that takes nothing, and one that does not answer")
	limit := c.flow.limit
	c.flow.limit = c.flow.sent
	p.send(0, play, Reliable, pattern(100, 0))
	p.send(0, bulk, Reliable, pattern(100, 0))
	p.flush()
	require.Equal(t, [2]string{"flow control", "flow control"}, gates())
	c.flow.limit = limit
	for range 14 {
		p.send(0, play, Reliable, pattern(EntryBytes-2, 0))
	}
	require.Equal(t, "reliable buffer", c.Gate(play, true))
	p.drop = func(int, []byte) bool { return true }
	p.send(0, bulk, Unreliable, pattern(100, 0))
	for range 20 {
		p.step(p.now.Add(time.Second))
	}
	p.send(0, bulk, Unreliable, pattern(100, 0))
	require.Equal(t, "window", c.Gate(bulk, true), "an outage")
}

// TestBulkProbesAreTwoPackets: where a small entry takes the room of a large
// one, what a probe timeout repeats takes three packets. The third waits for
// the next timeout, however large the window is.
func TestBulkProbesAreTwoPackets(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendBulk(60_000)
	l.SetWindow(1 << 20)
	l.packets()
	for timeout := range 20 {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		require.Equal(t, 2, l.packets(), "timeout %d", timeout)
	}
}
